"""What `envgen diagnose` measures in Crafter: the conditions of each skill, and what ended an episode.

Everything is read from the engine's exact state. The conditions are computed with numpy and share no code with the
kernels, so that the tests compare two implementations of the rules. The cause of death comes from `deaths`, which
replays the last step with the kernels.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..world import EpisodeEnd, SkillCheck
from . import constants as const
from .deaths import CAUSES, replay_ends
from .engine import Engine
from .state import State, grow_capacity

COLUMNS, ROWS = const.LOCAL_VIEW
HALF_COLUMNS, HALF_ROWS = COLUMNS // 2, ROWS // 2
TOOL_TO_MINE = {
    "stone": "wood_pickaxe", "coal": "wood_pickaxe", "iron": "stone_pickaxe", "diamond": "iron_pickaxe",
}  # fmt: skip
SOURCES = {"wood": "tree", "drink": "water", "sapling": "grass"}  # of items that are not named like their material
CREATURES = {"defeat_zombie": "zombie", "defeat_skeleton": "skeleton", "eat_cow": "cow"}
PLACED = {"place_stone": ("stone", 1), "place_table": ("wood", const.TABLE_WOOD),
          "place_furnace": ("stone", const.FURNACE_STONE), "place_plant": ("sapling", 1)}  # fmt: skip
SWORD_DAMAGE = ((const.WOOD_SWORD, 2), (const.STONE_SWORD, 3), (const.IRON_SWORD, 5))  # without a sword 1
AWAKE = "awake"
OPEN_GROUND = tuple(material for material in range(len(const.MATERIALS)) if const.WALKABLE >> material & 1)
BUILDABLE = {
    "place_stone": (*OPEN_GROUND, const.WATER, const.LAVA),
    "place_table": OPEN_GROUND,
    "place_furnace": OPEN_GROUND,
    "place_plant": (const.GRASS,),
}


def _named_conditions() -> dict[str, tuple[str, ...]]:
    conditions: dict[str, tuple[str, ...]] = {}
    for skill in const.SKILLS:
        verb, _, item = skill.name.partition("_")
        if verb == "collect":
            source = SOURCES.get(item, item)
            tool = (TOOL_TO_MINE[item].replace("_", " "),) if item in TOOL_TO_MINE else ()
            names = (*tool, f"{source} in view", f"facing {source}", AWAKE)
        elif skill.name in CREATURES:
            creature = CREATURES[skill.name]
            names = (f"{creature} in view", f"facing {creature}", "one hit left", AWAKE)
        elif skill.name in PLACED:
            place = "grass" if skill.name == "place_plant" else "room"
            used, count = PLACED[skill.name]
            names = (_amount(used, count), f"{place} ahead", AWAKE)
        elif verb == "make":
            costs = tuple(_amount(name, count) for name, count in const.RECIPES[item].items())
            furnace = ("furnace near",) if item in const.NEEDS_FURNACE else ()
            names = (*costs, "table near", *furnace, AWAKE)
        elif skill.name == "eat_plant":
            names = ("plant on the map", "ripe plant on the map", "ripe plant in view", "facing a ripe plant", AWAKE)
        else:
            names = ("asleep", "energy full")  # wake_up
        conditions[skill.name] = names
    return conditions


def _amount(item: str, count: int) -> str:
    return item if count == 1 else f"{count} {item}"


CONDITIONS: Mapping[str, tuple[str, ...]] = _named_conditions()


class View(NamedTuple):
    """The player's surroundings in `n` environments."""

    ground: np.ndarray  # (n, COLUMNS, ROWS) materials, OUTSIDE off the map
    kinds: np.ndarray  # (n, COLUMNS, ROWS) kinds of entities
    ahead: np.ndarray  # (n,) the material of the cell that the player faces
    kind_ahead: np.ndarray  # (n,) the kind of the entity on it
    health_ahead: np.ndarray  # (n,) its health
    counter_ahead: np.ndarray  # (n,) its counter, the age of a plant
    nearby: np.ndarray  # (n, 3, 3) the materials among which tools find a table and a furnace


class CrafterProbe:
    """The `Probe` of Crafter's environments. It copies their states before each step, to replay how episodes end."""

    def __init__(self, engine: Engine):
        self.engine = engine
        self._state = State(*(array.copy() for array in engine.state))  # before the step
        self._actions = np.zeros(engine.num_envs, np.int64)

    def before_step(self, actions: np.ndarray) -> Mapping[str, SkillCheck]:
        state = self.engine.state
        if self._state.entities.shape != state.entities.shape:
            self._state = State(*(array.copy() for array in state))
        for before, now in zip(self._state, state, strict=True):
            before.view(np.uint8)[:] = now.view(np.uint8)  # as bytes: records are copied field by field
        self._actions[:] = actions
        return check_skills(state, self._actions)

    def episode_ends(self, env_ids: np.ndarray) -> Sequence[EpisodeEnd]:
        state = self._state
        while state.entities.shape[1] < self.engine.state.entities.shape[1]:  # the engine needed more room in the step
            state = grow_capacity(state)
        self._state = state
        items = state.envs["inventory"][env_ids].copy()
        causes, asleep = replay_ends(state, env_ids, self._actions, self.engine.daylight)
        return [
            EpisodeEnd(
                CAUSES[cause],
                {
                    "time of day": "night" if state.envs["daylight"][i] < 0.5 else "day",
                    "player": "asleep" if is_asleep else "awake",
                    "at zero": _name_needs(needs),
                },
            )
            for i, cause, is_asleep, needs in zip(
                env_ids.tolist(), causes.tolist(), asleep, items[:, const.FOOD : const.ENERGY + 1], strict=True
            )
        ]


def _name_needs(needs: np.ndarray) -> str:
    """Which of food, drink and energy were at zero before the last step."""
    empty = [name for name, level in zip(const.VITALS[1:], needs.tolist(), strict=True) if level <= 0]
    return " and ".join(empty) or "nothing"


def make_view(state: State) -> View:
    """What surrounds the player in every environment."""
    envs, entities = state
    rows = np.arange(len(envs))
    x, y = (entities[name][:, 0].astype(np.int64) for name in ("x", "y"))
    xs = x[:, None] + np.arange(-HALF_COLUMNS, HALF_COLUMNS + 1)  # (n, COLUMNS)
    ys = y[:, None] + np.arange(-HALF_ROWS, HALF_ROWS + 1)  # (n, ROWS)
    inside = _is_inside(xs)[:, :, None] & _is_inside(ys)[:, None, :]
    cells = rows[:, None, None], _clip(xs)[:, :, None], _clip(ys)[:, None, :]
    ground = np.where(inside, envs["ground"][cells], const.OUTSIDE)
    slots = np.where(inside, envs["entity_slots"][cells], 0)
    occupants = entities[rows[:, None, None], np.maximum(slots - 1, 0)]  # (n, COLUMNS, ROWS)
    kinds = np.where(slots > 0, occupants["kind"], const.NO_ENTITY)
    offsets = np.array(const.DIRECTION_OFFSETS)[envs["facing"]]
    ahead = rows, HALF_COLUMNS + offsets[:, 0], HALF_ROWS + offsets[:, 1]
    nearby = ground[:, HALF_COLUMNS - 1 : HALF_COLUMNS + 2, HALF_ROWS - 1 : HALF_ROWS + 2]
    on_edge = (x == 0) | (y == 0)  # where nothing is nearby; see player._make_tool
    return View(
        ground, kinds, ground[ahead], kinds[ahead], occupants["health"][ahead], occupants["counter"][ahead],
        np.where(on_edge[:, None, None], const.OUTSIDE, nearby),
    )  # fmt: skip


def _is_inside(coordinates: np.ndarray) -> np.ndarray:
    return (coordinates >= 0) & (coordinates < const.MAP_SIZE)


def _clip(coordinates: np.ndarray) -> np.ndarray:
    return np.clip(coordinates, 0, const.MAP_SIZE - 1)


def check_skills(state: State, actions: np.ndarray) -> dict[str, SkillCheck]:
    """The `SkillCheck` of every skill."""
    envs = state.envs
    view, items = make_view(state), envs["inventory"]
    asleep, full_energy = envs["sleeping"] > 0, items[:, const.ENERGY] >= const.MAX_ITEM_COUNT
    awake = ~asleep | full_energy  # a sleeping player with full energy wakes up and then acts
    acts = awake & (actions == const.DO)
    is_free = view.kind_ahead == const.NO_ENTITY
    damage = np.ones(len(envs), np.int64)
    for sword, amount in SWORD_DAMAGE:
        damage = np.where(items[:, sword] > 0, amount, damage)

    def has_item(item: str, count: int = 1) -> np.ndarray:
        return items[:, const.ITEMS.index(item)] >= count

    def is_near(material: int) -> np.ndarray:
        return (view.nearby == material).any((1, 2))

    def check(attempted: np.ndarray, *conditions: np.ndarray) -> SkillCheck:
        return SkillCheck(np.stack(conditions, 1), attempted)

    checks: dict[str, SkillCheck] = {}
    for skill in const.SKILLS:
        verb, _, item = skill.name.partition("_")
        if verb == "collect":
            material = const.MATERIALS.index(SOURCES.get(item, item))
            facing = (view.ahead == material) & is_free
            tool = (has_item(TOOL_TO_MINE[item]),) if item in TOOL_TO_MINE else ()
            in_view = (view.ground == material).any((1, 2))
            checks[skill.name] = check(acts & facing, *tool, in_view, facing, awake)
        elif skill.name in CREATURES:
            kind = const.ENTITIES.index(CREATURES[skill.name])
            facing, in_view = view.kind_ahead == kind, (view.kinds == kind).any((1, 2))
            checks[skill.name] = check(acts & facing, in_view, facing, facing & (view.health_ahead <= damage), awake)
        elif skill.name in PLACED:
            room = is_free & np.isin(view.ahead, BUILDABLE[skill.name])
            attempted = awake & (actions == const.ACTIONS.index(skill.name))
            checks[skill.name] = check(attempted, has_item(*PLACED[skill.name]), room, awake)
        elif verb == "make":
            costs = [has_item(name, count) for name, count in const.RECIPES[item].items()]
            furnace = [is_near(const.FURNACE)] if item in const.NEEDS_FURNACE else []
            attempted = awake & (actions == const.ACTIONS.index(skill.name))
            checks[skill.name] = check(attempted, *costs, is_near(const.TABLE), *furnace, awake)
    checks["eat_plant"] = _check_eat_plant(state, view, acts, awake)
    checks["wake_up"] = check(asleep & full_energy, asleep, full_energy)  # whatever the action
    return checks


def _check_eat_plant(state: State, view: View, acts: np.ndarray, awake: np.ndarray) -> SkillCheck:
    envs = state.envs
    entities = state.entities[:, : envs["num_entities"].max()]  # (n, used)
    x, y = (entities[name].astype(np.int64) for name in ("x", "y"))
    is_plant = (entities["kind"] == const.PLANT) & (np.arange(entities.shape[1]) < envs["num_entities"][:, None])
    is_ripe = is_plant & (entities["counter"] > const.RIPE_AFTER)
    in_view = (abs(x - x[:, :1]) <= HALF_COLUMNS) & (abs(y - y[:, :1]) <= HALF_ROWS)
    facing = view.kind_ahead == const.PLANT
    conditions = (
        is_plant.any(1),
        is_ripe.any(1),
        (is_ripe & in_view).any(1),
        facing & (view.counter_ahead > const.RIPE_AFTER),
        awake,
    )
    return SkillCheck(np.stack(conditions, 1), acts & facing)
