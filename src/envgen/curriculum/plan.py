"""The training plan: how long the agent trains, in which levels, how often they change, and whether it practices.

The paper's ablations of the schedule (EnvGen, tables 3, 4, 6 and 7) change settings of `TrainingPlan`.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from envgen.agents.settings import SYMBOL_DEFAULTS, TILE_DEFAULTS, PpoSettings
from envgen.errors import EnvgenError
from envgen.settings import PositiveInt, Settings, format_choice_error, format_validation_error, to_integer
from envgen.worlds.world import World

EVALUATION_SEED = 1 << 31  # training seeds are smaller

NonNegativeInt = Annotated[int, Field(ge=0)]


class PlanError(EnvgenError, ValueError):
    """A plan, preset or seed is invalid. The message names the wrong value and what is allowed."""


class TrainingPlan(Settings):
    """The defaults are the paper's for Crafter."""

    cycles: NonNegativeInt = 4
    """Cycles of the loop: design, train in the levels, train in the original, evaluate (table 3)."""
    levels: PositiveInt = 4
    """Levels designed in each cycle and trained in side by side (table 6)."""
    cycle_steps: PositiveInt = 240_000
    """Training steps of a cycle, in levels and original together (tables 3 and 4)."""
    ratio: Annotated[float, Field(ge=0, le=1_000_000)] = 1.0
    """Steps in the levels per step in the original; 5 is the paper's 5:1 (table 7)."""
    mixing: Literal["alternate", "mixed"] = "alternate"
    """Train in levels and original one after the other, as in the paper, or side by side in the same batches."""
    original_share: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Share of the environments that play the original, for designers that choose the level of every episode (dr, plr,
    accel, sfl). These do not use `levels`, `ratio` or `mixing`."""
    final_steps: NonNegativeInt = 1_000_000
    """Training steps in the original after the last cycle. The published score is measured over these."""
    feedback_groups: Annotated[int, Field(ge=2)] = 12
    """Groups of feedback episodes. The designer gets the mean and standard deviation of the success rates over them."""
    feedback_episodes: PositiveInt = 20
    """Episodes in each of these groups. Every episode has a seed of its own."""
    episodes: PositiveInt = 256
    """Episodes of the final evaluation."""
    ranking_steps: PositiveInt = 60_000
    """Steps that a scoring agent trains in each level, for the designers that rank levels. They are counted
    separately."""
    audit_steps: NonNegativeInt = 500
    """Steps for which the audit plays each level with random actions and with the world's scripted expert; 0 for
    no audit."""

    @property
    def level_steps(self) -> int:
        return round(self.cycle_steps * self.ratio / (1 + self.ratio))

    @property
    def original_steps(self) -> int:
        return self.cycle_steps - self.level_steps

    def num_level_envs(self, num_envs: int) -> int:
        """Return how many of `num_envs` environments play levels when they are mixed with the original."""
        return round(num_envs * self.ratio / (1 + self.ratio))

    @property
    def total_steps(self) -> int:
        return self.cycles * self.cycle_steps + self.final_steps


class PracticeSettings(Settings):
    """Practice from saved states, in place of a part of the ordinary episodes (practice.py)."""

    share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the environments that restart from saved states, of those that play the original where the original
    and levels are mixed; 0 for none."""
    max_steps: PositiveInt | None = 100
    """Steps after which a practice episode is truncated; with none, it continues to its end."""
    buffer_size: Annotated[int, Field(ge=1, le=50_000)] = 512
    """Maximum number of saved states, in each process."""
    max_success_rate: Annotated[float, Field(gt=0, le=1)] = 0.5
    """States are saved for the skills whose success rate is at most this."""
    rarity_exponent: Annotated[float, Field(ge=0, le=10)] = 0.5
    """Skills are practiced in proportion to (1 / success rate) to this power; 0 for no preference for rare skills."""
    snapshot_interval: PositiveInt = 10
    """Steps between two snapshots of an environment."""
    num_snapshots: Annotated[int, Field(ge=1, le=1000)] = 5
    """Snapshots kept of each environment. A state that is saved when a skill succeeds is a random one of them, so it is
    at most `snapshot_interval * num_snapshots` steps older than the success."""


PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "quick": {"cycle_steps": 120_000, "final_steps": 400_000, "feedback_episodes": 10, "episodes": 128},
    # 20 million steps, with designed levels until the end
    "long": {
        "cycles": 20,
        "cycle_steps": 1_000_000,
        "ratio": 4.0,
        "mixing": "mixed",
        "final_steps": 0,
        "episodes": 1024,
    },
}


def plan_for(preset: str, world: World | None = None, /, **changes: Any) -> TrainingPlan:
    """Return the plan of a preset, with the world's own defaults for it and then with `changes`."""
    if preset not in list(PRESETS):  # a list also searches for what is not hashable
        raise PlanError(f"preset {format_choice_error(preset, list(PRESETS))}")
    all_defaults = world.plan_defaults if world else {}
    for name in all_defaults:
        if name not in PRESETS:
            raise PlanError(
                f"plan_defaults of {getattr(world, 'name', '')}: {format_choice_error(name, list(PRESETS))}"
            )
    world_defaults: Mapping[str, Any] = all_defaults.get(preset, {})
    try:
        return TrainingPlan(**{**PRESETS[preset], **world_defaults, **changes})
    except ValidationError as error:
        raise PlanError(format_validation_error(error)) from None


def find_wrong_defaults(world: World) -> Iterator[str]:
    """A sentence about each setting of training that a world recommends and that does not exist or is not valid."""
    recommended: list[tuple[str, type[Settings], Any]] = [("ppo_defaults", PpoSettings, world.ppo_defaults)]
    for preset, changes in world.plan_defaults.items():
        if preset not in PRESETS:
            yield f"plan_defaults: preset {format_choice_error(str(preset), list(PRESETS))}"
        recommended.append((f"plan_defaults[{preset!r}]", TrainingPlan, changes))
    for name, settings_class, values in recommended:
        try:
            settings_class.model_validate(values)
        except ValidationError as error:
            yield f"{name}: {format_validation_error(error)}"


LEARNER_PRESETS: dict[str, dict[str, Any]] = {
    # the hyperparameters published for EnvGen's agent; its network is not included: set the encoder to impala
    "published": {
        name: field.default
        for name, field in PpoSettings.model_fields.items()
        if name in SYMBOL_DEFAULTS | TILE_DEFAULTS
    },
    # the defaults for the observation, tuned for training speed
    "fast": {},
    # for runs of ten million steps and more: a growing horizon, an annealed learning rate, history bits, and practice
    "far": {
        "gamma": 0.99,
        "final_gamma": 0.997,
        "gae_lambda": 0.8,
        "final_gae_lambda": 0.95,
        "learning_rate": 4e-4,
        "final_learning_rate": 5e-5,
        "network": {"history": True, "unimix": 0.01},
        "practice": {"share": 0.4},
    },
}


def learner_preset(name: str, world: World) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of the learner, its network included, and those of practice.

    Settings for which the world has defaults of its own are left out.
    """
    if name not in list(LEARNER_PRESETS):
        raise PlanError(f"learner preset {format_choice_error(name, list(LEARNER_PRESETS))}")
    defaults = world.ppo_defaults
    settings = {
        key: value
        for key, value in LEARNER_PRESETS[name].items()
        if key == "network" or (key not in defaults and key.removeprefix("final_") not in defaults)
    }
    if "network" in settings:
        world_network = defaults.get("network", {})
        settings["network"] = {key: value for key, value in settings["network"].items() if key not in world_network}
    return settings, settings.pop("practice", {})


def check_seed(seed: Any) -> int:
    """A seed as an int. Raises PlanError for a negative one and for what is not an integer."""
    number = to_integer("seed", seed, PlanError)
    if number < 0:
        raise PlanError(f"seed must be 0 or greater, not {number}")
    return number


def check_training_seed(seed: Any) -> int:
    """A seed as an int. Raises PlanError for one that is negative or belongs to evaluations."""
    number = to_integer("seed", seed, PlanError)
    if not 0 <= number < EVALUATION_SEED:
        raise PlanError(f"seed must be from 0 to {EVALUATION_SEED - 1}, not {number}")
    return number
