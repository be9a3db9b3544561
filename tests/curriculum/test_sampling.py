"""Runs in which a designer chooses the level of every episode, and the environments that play them."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from loop_worker import DESIGNER_SETTINGS
from loop_worker import SETTINGS as LEARNER
from pydantic import Field

from envgen.agents.ppo import PPO
from envgen.agents.rollout import EpisodeStats
from envgen.curriculum.evaluate import Evaluation
from envgen.curriculum.loop import check_can_sample, train
from envgen.curriculum.plan import PlanError, PracticeSettings, TrainingPlan
from envgen.curriculum.sampling import SampledLevelsVectorEnv, measure_levels
from envgen.curriculum.trainer import PhaseTrainer
from envgen.designers.buffer import LevelEpisode
from envgen.designers.registry import build_designer
from envgen.designers.sampler import ORIGINAL_ID, LevelSampler, SampledLevel
from envgen.errors import EnvgenError
from envgen.runs.checkpoint import load_latest, save_checkpoint
from envgen.runs.store import read_progress, read_request
from envgen.worlds import python_world
from envgen.worlds.crafter.env import CrafterVectorEnv
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.heist.world import Heist
from envgen.worlds.level_space import random_level, setting_values
from envgen.worlds.minigrid.level import MiniGridLevel
from envgen.worlds.minigrid.state import grid_view
from envgen.worlds.minigrid.world import MiniGrid
from envgen.worlds.python_vector_env import PythonVectorEnv
from envgen.worlds.python_world import PythonEnv, PythonWorld
from envgen.worlds.world import Level, Skill, SupportsEnvLevels, World
from minigrid_maps import format_map
from run_results import assert_same_run

LEFT, RIGHT = 0, 1
WALK, ARRIVE = 0, 1  # the skills


class PathLevel(Level):
    length: int = Field(default=5, ge=1, le=99)
    """Cells to the end."""
    start: int = Field(default=0, ge=0, le=9)
    """The first cell."""
    time_limit: int = Field(default=12, ge=1, le=12)
    """Steps of an episode."""

    @property
    def done_skills(self) -> tuple[str, ...]:
        return ("walk",) if self.start else ()


class PathEnv(PythonEnv):
    """Walk to the end of a path; steps to the left hold."""

    observation_space = spaces.Box(0, 99, (2,), np.int64)
    max_episode_steps = 12

    def begin(self):
        return {"position": self.level.start, "wind": int(self.np_random.integers(99))}

    def observe(self):
        return np.array([self.state["position"], self.state["wind"]])

    def advance(self, action):
        self.state = {"position": self.state["position"] + action, "wind": int(self.np_random.integers(99))}
        if action == RIGHT:
            self.achieve("walk")
        reward = float(self.state["position"] == self.level.length)
        if reward:
            self.achieve("arrive")
        return reward, self.state["position"] >= self.level.length or self.episode_length + 1 >= self.level.time_limit


class PathWorld(PythonWorld):
    name, Level, env_class = "path", PathLevel, PathEnv
    skills, actions = (Skill("walk"), Skill("arrive", ("walk",))), ("left", "right")
    observations, rules = ("symbols",), "Go right."


class CountingSampler(LevelSampler):
    """Level k has a time limit of 2 + k % 5 steps. The agent learns from levels with even numbers."""

    def __init__(self, level_type: Any, field: str):
        self.level_type, self.field, self.count = level_type, field, 0

    def level(self, k: int) -> Level:
        return self.level_type(**{self.field: 2 + k % 5})

    def sample(self):
        self.count += 1
        return SampledLevel(self.count - 1, self.level(self.count - 1), self.count % 2 == 1)

    def state(self):
        return {}, {"count": self.count}

    def load(self, arrays, values):
        self.count = values["count"]


WORLDS = {"path": (PathWorld(), "time_limit"), "crafter": (Crafter(), "length")}


class WithoutEnvLevels(PythonVectorEnv):
    """A vector environment that does not support SupportsEnvLevels."""

    set_env_levels = None  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]


def make_envs(name: str, num_envs: int = 6, share: float = 0.3, seed: int = 0) -> SampledLevelsVectorEnv:
    world, field = WORLDS[name]
    envs = world.make(num_envs=num_envs, seed=seed, observation="symbols")
    return SampledLevelsVectorEnv(envs, world, CountingSampler(world.Level, field), share, seed)


def random_actions(envs: SampledLevelsVectorEnv, steps: int, seed: int = 0) -> np.ndarray:
    space: Any = envs.single_action_space
    return np.random.default_rng(seed).integers(space.n, size=(steps, envs.num_envs))


# --- environments


@pytest.mark.parametrize("name", WORLDS)
def test_every_episode_plays_a_level_of_its_own(name, monkeypatch):
    if name == "path":
        monkeypatch.setattr(python_world, "PythonVectorEnv", WithoutEnvLevels)
    envs, field = make_envs(name), WORLDS[name][1]
    assert isinstance(envs.envs, SupportsEnvLevels) == (name == "crafter")
    _, infos = envs.reset()
    assert envs.plays_original.sum() == 2
    np.testing.assert_array_equal(infos["level"] == ORIGINAL_ID, envs.plays_original)
    levels, lengths, finished = infos["level"], np.zeros(6, int), []
    for row in random_actions(envs, 60):
        learns = envs.learns.copy()
        *_, terminated, truncated, infos = envs.step(row)
        lengths += 1
        for i in np.flatnonzero(terminated | truncated):
            assert infos["final_info"]["level"][i] == levels[i]
            if levels[i] != ORIGINAL_ID:
                finished.append(levels[i])
                assert learns[i] == (levels[i] % 2 == 0)
                limit = getattr(envs.sampler.level(levels[i]), field)
                assert lengths[i] == limit or terminated[i]
                assert lengths[i] <= limit
            else:
                assert learns[i]
            lengths[i] = 0
        levels = infos["level"]
    assert len(finished) == len(set(finished)) > 30
    assert len(envs.envs.levels) <= 2 * envs.num_envs + 1


@pytest.mark.parametrize("name", WORLDS)
def test_environments_continue_exactly_from_their_state(name):
    envs = make_envs(name)
    envs.reset()
    actions = random_actions(envs, 40)
    for row in actions[:13]:
        envs.step(row)
    copy = make_envs(name, seed=1)
    copy.reset()
    copy.set_state(envs.get_state())
    copy.sampler.load(*envs.sampler.state())
    for row in actions[13:]:
        np.testing.assert_array_equal(copy.learns, envs.learns)
        results = [one.step(row) for one in (envs, copy)]
        for first, second in zip(*(result[:4] for result in results), strict=True):
            np.testing.assert_array_equal(first, second)
        np.testing.assert_array_equal(*(result[4]["level"] for result in results))


class MapSampler(CountingSampler):
    """Chooses between three levels in turn, each with the seed of its map."""

    def level(self, k: int) -> Level:
        return self.level_type(**{self.field: 4 + k % 3})

    def sample(self):
        return super().sample()._replace(seed=100 + (self.count - 1) % 3)


@pytest.mark.parametrize("name", [*WORLDS, "heist", "minigrid"])
def test_levels_are_played_with_the_maps_of_their_seeds(name):
    world, field = {**WORLDS, "heist": (Heist(), "length"), "minigrid": (MiniGrid(), "length")}[name]
    inner = world.make(num_envs=5, seed=0, observation="symbols")
    envs = SampledLevelsVectorEnv(inner, world, MapSampler(world.Level, field), 0.2, 0)
    expected = []
    for k in range(3):
        with closing(world.make([envs.sampler.level(k)], 1, 100 + k, "symbols")) as single:
            expected.append(single.reset()[0][0])
    obs, infos = envs.reset(seed=7)
    begun, num_begun = np.ones(5, np.bool_), 0
    for row in random_actions(envs, 40):
        for i in np.flatnonzero(begun & ~envs.plays_original):
            np.testing.assert_array_equal(obs[i], expected[infos["level"][i] % 3])
            num_begun += 1
        obs, _, terminated, truncated, infos = envs.step(row)
        begun = terminated | truncated
    assert num_begun > 20


def test_damaged_state_is_refused():
    envs = make_envs("path")
    envs.reset()
    state = envs.get_state()
    for name, value in (
        ("next_levels", np.frombuffer(b"[{}]", np.uint8)),
        ("next_levels", np.frombuffer(b"[5,", np.uint8)),
        ("learns", np.zeros(3, np.bool_)),
        ("plays_original", np.zeros(6, np.bool_)),
    ):
        with pytest.raises(ValueError, match=r"damaged|array|JSON|Expecting"):
            envs.set_state(state | {f"sampling.{name}": value})


def random_levels(world: World, count: int, seed: int = 0) -> list[Level]:
    if isinstance(world, MiniGrid):  # maps
        rows = [f"#>{'.' * (count * seed + k)}G#" for k in range(count)]
        return [MiniGridLevel(map=("#" * len(row), row, "#" * len(row))) for row in rows]
    rng, space = np.random.default_rng(seed), setting_values(world.Level)
    return [random_level(world.Level, space, 0.5, rng) for _ in range(count)]


def check_maps(envs: Any, level_ids: np.ndarray) -> None:
    """The environments play the maps of their levels, if they have any."""
    for env, k in zip(envs.engine.envs, level_ids, strict=True):
        if rows := getattr(envs.levels[k], "map", ()):
            assert format_map(env, grid_view(env)) == rows


@pytest.mark.parametrize("world", [Crafter(), Heist(), MiniGrid()])
def test_levels_of_single_environments_change_alone(world):
    envs = world.make(num_envs=3, seed=0, observation="symbols")
    envs.reset()
    first, last, later = random_levels(world, 3)
    envs.set_env_levels([0, 2], [first, last])
    _, infos = envs.reset()
    assert [envs.levels[k] for k in infos["level"]] == [first, world.original, last]
    check_maps(envs, infos["level"])
    envs.set_env_levels([0], [later])
    assert [envs.levels[k] for k in infos["level"]] == [first, world.original, last]  # these are still played
    copy = world.make(num_envs=3, seed=9, observation="symbols")
    copy.set_state(envs.get_state())
    for one in (envs, copy):
        _, infos = one.reset()
        assert [one.levels[k] for k in infos["level"]] == [later, world.original, last]
        check_maps(one, infos["level"])
    for seed in range(5):
        [level] = random_levels(world, 1, seed)
        for one in (envs, copy):
            one.set_env_levels([1], [level])
            _, infos = one.reset()
            assert [one.levels[k] for k in infos["level"]] == [later, level, last]
            check_maps(one, infos["level"])
        copy.set_state(envs.get_state())
    assert len(envs.levels) <= 6


def test_environments_keep_one_of_the_levels_that_they_sampled():
    world = Crafter()
    levels = random_levels(world, 3)
    envs = world.make(levels, num_envs=4, seed=0, observation="symbols", sample_levels=True)
    envs.reset()
    envs.set_env_levels([1], [world.original])
    for _ in range(3):
        _, infos = envs.reset()
        assert [envs.levels[k] for k in infos["level"]] == [levels[0], world.original, levels[2], levels[0]]


def test_next_step_autoreset_is_refused():
    envs = CrafterVectorEnv(2, None, "symbols", autoreset_mode=AutoresetMode.NEXT_STEP)
    with pytest.raises(PlanError, match="same-step autoreset"):
        SampledLevelsVectorEnv(envs, Crafter(), CountingSampler(Crafter.Level, "length"), 0.2, 0)


class GoRight:
    def act(self, obs, rng=None):
        return np.full(len(obs), RIGHT)


def test_levels_are_measured_by_playing_them():
    levels = [PathLevel(length=n) for n in (3, 8, 20)]
    result = measure_levels(GoRight(), PathWorld(), "symbols", levels, episodes=2, max_steps=10, seed=0)
    assert result.tried.tolist() == [[2, 2]] * 3
    assert result.succeeded.tolist() == [[2, 2], [2, 2], [2, 0]]
    assert result.steps == 2 * (3 + 8 + 10)
    cut_off = measure_levels(GoRight(), PathWorld(), "symbols", levels, episodes=1, max_steps=4, seed=0)
    assert cut_off.succeeded.tolist() == [[1, 1], [1, 0], [1, 0]]


# --- runs

PLAN = TrainingPlan(
    cycles=2, cycle_steps=256, final_steps=64, feedback_groups=2, feedback_episodes=2, episodes=4, audit_steps=0,
    original_share=0.25,
)  # fmt: skip
SETTINGS = {"random": {"keep_prob": 0.0}, **DESIGNER_SETTINGS}


def run(
    folder: Path, name: str, plan: TrainingPlan = PLAN, learner: dict | None = None, options: dict | None = None,
    **kw: Any,
):  # fmt: skip
    designer = build_designer(name, folder, settings=SETTINGS.get(name, {}) | (options or {}))
    return train(folder, PathWorld(), designer, plan, seed=3, learner_settings=learner or LEARNER, save_every=0.0, **kw)


class Interrupt(Exception):
    pass


@pytest.mark.parametrize(
    ("name", "more", "options"),
    [
        ("dr", {}, {}),
        ("plr", {"async_collect": True}, {}),
        ("accel", {}, {}),
        ("accel", {}, {"replay_maps": True}),
        ("sfl", {"network": {"memory": "gru"}}, {}),
    ],
)
def test_interrupted_run_resumes_to_the_same_result(tmp_path, name, more, options):
    learner = LEARNER | more
    run(tmp_path / "whole", name, learner=learner, options=options)
    lines = 0

    def interrupt(line: dict) -> None:
        nonlocal lines
        lines += 1
        if lines in (3, 8, 11, 18):
            raise Interrupt

    for _ in range(4):
        with pytest.raises(Interrupt):
            run(tmp_path / "parts", name, learner=learner, options=options, on_progress=interrupt)
    run(tmp_path / "parts", name, learner=learner, options=options, on_progress=interrupt)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    samplers = [load_latest(tmp_path / part / "checkpoints") for part in ("whole", "parts")]
    assert samplers[0].values["sampler"] == samplers[1].values["sampler"]
    for key, array in samplers[0].arrays["sampler"].items():
        np.testing.assert_array_equal(samplers[1].arrays["sampler"][key], array)


@pytest.fixture(scope="module")
def plr_run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("plr")
    run(folder, "plr")
    return folder


def test_run_directory_holds_the_archive(plr_run):
    archives = [json.loads((plr_run / f"cycles/{k}/archive.json").read_text()) for k in (1, 2)]
    for archive in archives:
        assert archive["capacity"] == 6
        assert len(archive["levels"]) == archive["size"] <= 6
        for entry in archive["levels"]:
            PathLevel.parse(entry["level"])
            assert entry["origin"]["designer"] == "plr"
            assert entry["score"] == entry["max_mc"]
            assert entry["max_return"] >= entry["mean_return"]
            granted = PathLevel.parse(entry["level"]).done_skills
            assert set(entry["success_rates"]) == {"walk", "arrive"} - set(granted)
        priorities = [entry["priority"] for entry in archive["levels"]]
        assert priorities == sorted(priorities, reverse=True)
        assert sum(priorities) == pytest.approx(1)
    assert archives[1]["levels_tried"] > archives[0]["levels_tried"] > 6
    assert archives[1]["episodes"]["replay"] > archives[0]["episodes"]["replay"] > 0
    assert json.loads((plr_run / "cycles/1/levels.json").read_text())["proposal"]["levels"] == []


def test_levels_and_original_are_counted_separately(plr_run):
    lines = list(read_progress(plr_run))
    assert list(dict.fromkeys(line["phase"] for line in lines)) == [
        "cycle 1: sampled levels", "cycle 2: sampled levels", "final",
    ]  # fmt: skip
    sampled = [line for line in lines if "sampled" in line["phase"]]
    for line in sampled:
        original, levels = line["levels"]
        assert original["episodes"] + levels["episodes"] == line["episodes"]
    assert 0 < sum(line["levels"][0]["episodes"] for line in sampled) < sum(line["episodes"] for line in sampled)
    summary = json.loads((plr_run / "summary.json").read_text())
    assert summary["steps"] == {"levels": 2 * 192, "original": 2 * 64 + 64, "ranking": 0}
    assert read_request(plr_run)[0]["plan"]["original_share"] == 0.25


def test_the_archive_counts_the_episodes_that_ended(plr_run):
    ended = {1: 0, 2: 0}
    for line in read_progress(plr_run):
        if line["phase"] != "final":
            ended[int(line["phase"].split()[1].rstrip(":"))] += line["levels"][1]["episodes"]
    archives = [json.loads((plr_run / f"cycles/{k}/archive.json").read_text()) for k in (1, 2)]
    assert [sum(archive["episodes"].values()) for archive in archives] == [ended[1], ended[1] + ended[2]]
    assert [archive["levels_tried"] for archive in archives] == [archive["episodes"]["random"] for archive in archives]


def test_run_can_be_extended(tmp_path):
    folder = tmp_path / "run"
    run(folder, "plr", PLAN.model_copy(update={"final_steps": 0}))
    run(folder, "plr", PLAN.model_copy(update={"final_steps": 0, "cycles": 3}), extend=True)
    run(tmp_path / "whole", "plr", PLAN.model_copy(update={"final_steps": 0, "cycles": 3}))
    archives = [json.loads((path / "cycles/3/archive.json").read_text()) for path in (folder, tmp_path / "whole")]
    assert archives[0]["levels"] == archives[1]["levels"]


def test_measured_steps_are_counted_separately(tmp_path):
    summary = run(tmp_path, "sfl")
    archives = [json.loads((tmp_path / f"cycles/{k}/archive.json").read_text()) for k in (1, 2)]
    assert summary.steps["ranking"] == archives[1]["ranking_steps"] > archives[0]["ranking_steps"] > 0
    assert len(archives[1]["levels"]) == 3


@pytest.mark.parametrize(("name", "k"), [("plr", 0), ("random", -1)])
def test_training_score_of_the_last_cycle_is_of_the_original(tmp_path, name, k):
    changes = {"cycles": 1, "final_steps": 0, "mixing": "mixed", "levels": 2}
    plan = PLAN.model_copy(update=changes | ({"original_share": 0.2} if name == "random" else {}))
    summary = run(tmp_path, name, plan)
    lines = list(read_progress(tmp_path))
    assert summary.training is not None
    assert summary.training.episodes == sum(line["levels"][k]["episodes"] for line in lines)
    assert 0 < summary.training.episodes < sum(line["episodes"] for line in lines)


def test_plans_of_other_designers_have_no_original_share(tmp_path):
    plan = PLAN.model_copy(update={"cycles": 0, "original_share": 0.2, "final_steps": 32})
    run(tmp_path / "run", "none", plan)
    assert "original_share" not in read_request(tmp_path / "run")[0]["plan"]
    with pytest.raises(PlanError, match=r"set mixing to mixed and ratio to 3$"):
        run(tmp_path / "other", "none", PLAN)
    assert not (tmp_path / "other").exists()


def test_practice_and_several_processes_are_refused(tmp_path):
    with pytest.raises(PlanError, match=r"set practice\.share to 0, not 0\.4"):
        run(tmp_path / "run", "plr", practice={"share": 0.4})
    assert not (tmp_path / "run").exists()
    designer = build_designer("plr", tmp_path)
    with pytest.raises(PlanError, match="trains in one process, not 2; start it without torchrun"):
        check_can_sample(designer, 2, PracticeSettings())


def test_the_sampler_is_told_each_result_of_the_episodes_in_its_levels():
    class Recorder:
        def update(self, episodes):
            self.episodes = episodes

        def refresh(self, measure):
            pass

    counts = [np.array([k]) for k in range(3)]
    stats = EpisodeStats(returns=[1.0, 2.0, 3.0], lengths=[9, 9, 9], levels=[4, ORIGINAL_ID, 6], skill_counts=counts)
    stats.set_regret([0.1, 0.2, 0.3], [10.0, 20.0, 30.0])
    trainer, recorder = PhaseTrainer.__new__(PhaseTrainer), Recorder()
    trainer._update_sampler(recorder, stats)  # pyright: ignore[reportArgumentType]
    assert recorder.episodes == [
        LevelEpisode(level_id=4, episode_return=1.0, skill_counts=counts[0], positive_value_loss=0.1, mean_value=10.0),
        LevelEpisode(level_id=6, episode_return=3.0, skill_counts=counts[2], positive_value_loss=0.3, mean_value=30.0),
    ]


class SilentPPO(PPO):
    """Reports no regret."""

    def update(self, rollout):
        metrics = super().update(rollout)
        rollout.episodes.set_regret([], [])
        return metrics


def test_learner_without_regret_is_refused(tmp_path):
    designer = build_designer("plr", tmp_path)
    with pytest.raises(PlanError, match="the learner SilentPPO reports no regret"):
        train(tmp_path, PathWorld(), designer, PLAN, learner=SilentPPO, learner_settings=LEARNER)


def test_damaged_archive_in_a_checkpoint_is_refused(tmp_path):
    run(tmp_path, "plr", PLAN.model_copy(update={"cycles": 1}))
    (tmp_path / "summary.json").unlink()
    checkpoint = load_latest(tmp_path / "checkpoints")
    assert checkpoint is not None
    values = checkpoint.values
    values["sampler"]["buffer"]["levels"][0] = {"length": 1000}
    save_checkpoint(tmp_path / "checkpoints", checkpoint.arrays, values)
    with pytest.raises(EnvgenError, match=r"length: Input should be less than or equal to 99 \(got 1000\)"):
        run(tmp_path, "plr", PLAN.model_copy(update={"cycles": 1}))


def test_final_evaluation_is_of_the_original(plr_run):
    summary = json.loads((plr_run / "summary.json").read_text())
    assert Evaluation.model_validate(summary["final"]).level == PathLevel().model_dump(mode="json")
