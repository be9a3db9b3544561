"""What each setting of a level really does to its worlds, counted and put into words for whoever designs them."""

from collections.abc import Mapping

from envgen.designers.designer import SettingEffects
from envgen.designers.level_space import setting_values, unflatten
from envgen.worlds.world import World

WORLDS = range(48)  # the seeds counted for each value
TELLING = 0.33  # a figure that changes by a smaller share is not mentioned
SMALLEST = 0.5  # nor one that is smaller before and after
MOST = 4  # figures told of one value


def setting_effects(world: World) -> SettingEffects:
    """By setting and value what changes beside the original; values that change nothing counted are left out."""
    before = world.level_stats(None, WORLDS).as_dict()
    facts: SettingEffects = {}
    for name, values in setting_values(world.Level).items():
        original, *others = values
        if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
            others = [max(others, key=lambda value: abs(value - original))]  # of numbers the furthest tells enough
        told = {
            str(value): changes(before, world.level_stats(unflatten({name: value}), WORLDS).as_dict())
            for value in others
        }
        if told := {value: lines for value, lines in told.items() if lines}:
            facts[name] = told
    return facts


def changes(before: Mapping[str, float], after: Mapping[str, float], most: int = MOST) -> list[str]:
    """The figures that changed most, each as `name before -> after`."""
    found = []
    for name in before.keys() | after.keys():
        old, new = before.get(name), after.get(name)
        if old is None or new is None:
            continue  # a distance to what is not there; its count says so
        great = max(abs(old), abs(new))
        if great >= SMALLEST and abs(new - old) >= TELLING * great:
            found.append((-abs(new - old) / great, name, f"{name} {old:.1f} -> {new:.1f}"))
    return [line for _, _, line in sorted(found)[:most]]
