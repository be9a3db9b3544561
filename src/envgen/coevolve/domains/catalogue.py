"""The domains by name. One is imported when it is asked for, as `gym:...` takes a package that few have."""

from envgen.settings import nearest

from ..tasks import Domain

NAMES = ("answers", "gym:<generator>", "tools")


def domain_named(name: str) -> Domain:
    """`tools`, `answers`, or one of reasoning-gym's generators, as in `gym:leg_counting`."""
    if name == "answers":
        from .answers import Answers

        return Answers()
    if name == "tools":
        from .tools import Tools

        return Tools()
    if name.startswith("gym:"):
        from .gym import Gym

        return Gym(name.removeprefix("gym:"))
    raise ValueError(f"domain {nearest(name, NAMES)}")
