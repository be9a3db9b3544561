"""Environments of a chain play its current stage, which changes with their success."""

import json
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from pydantic import Field, ValidationError
from test_practice import RIGHT, Corridor, CorridorLevel, random_actions

import envgen
from envgen.agents.rollout import EpisodeStats, VecEnvRunner
from envgen.curriculum.chains import ChainVectorEnv
from envgen.curriculum.evaluate import LevelScorer
from envgen.curriculum.loop import train
from envgen.curriculum.plan import PracticeSettings, TrainingPlan
from envgen.curriculum.practice import PracticeVectorEnv
from envgen.designers.designer import Brief, Designer, LevelChain, Proposal, ProposedLevel
from envgen.designers.expert import ExpertSettings
from envgen.runs.store import read_progress
from envgen.worlds.python_world import PythonEnv, PythonWorld
from envgen.worlds.world import Level, Skill

ORIGINAL = CorridorLevel()
LEVELS = (CorridorLevel(length=2), CorridorLevel(length=6), ORIGINAL)
CHAIN = LevelChain(skill="sprint", levels=LEVELS, advance_at=75, fall_back_at=25, window=4)


def make_envs(*entries: Any, num_envs: int = 4, seed: int = 0) -> ChainVectorEnv:
    world = Corridor()
    return ChainVectorEnv(world.make([{}], num_envs, seed), entries or (CHAIN,), world.skills)


def play(envs: Any, action: int, until: Any, max_steps: int = 200) -> None:
    for _ in range(max_steps):
        if until():
            return
        envs.step(np.full(envs.num_envs, action))
    raise AssertionError("never reached")


def playing(envs: Any, infos: dict[str, Any]) -> list[Any]:
    return [envs.levels[k] for k in infos["level"]]


def test_stages_advance_with_success_and_return_when_it_collapses():
    envs = make_envs()
    _, infos = envs.reset(seed=1)
    assert playing(envs, infos) == [LEVELS[0]] * 4
    stages = []
    for stage in (1, 2):
        play(envs, RIGHT, lambda stage=stage: envs.stage_of(CHAIN) == stage)
        stages.append(envs.stage_of(CHAIN))
    for _ in range(200):  # the last stage does not advance
        *_, infos = envs.step(np.full(4, RIGHT))
    assert stages == [1, 2]
    assert playing(envs, infos) == [ORIGINAL] * 4
    play(envs, 1 - RIGHT, lambda: envs.stage_of(CHAIN) == 1)
    play(envs, 1 - RIGHT, lambda: envs.stage_of(CHAIN) == 0)
    for _ in range(100):  # the first stage does not fall back
        *_, infos = envs.step(np.full(4, 1 - RIGHT))
    assert envs.stage_of(CHAIN) == 0
    assert playing(envs, infos) == [LEVELS[0]] * 4


def test_only_episodes_of_the_current_stage_count():
    envs = make_envs()
    _, infos = envs.reset(seed=1)
    for _ in range(3):
        *_, infos = envs.step(np.full(4, RIGHT))
    assert envs.stage_of(CHAIN) == 1
    assert playing(envs, infos) == [LEVELS[0]] * 4  # the next episodes had begun
    *_, infos = envs.step(np.full(4, RIGHT))
    assert playing(envs, infos) == [LEVELS[1]] * 4
    assert envs.counts.tolist() == [0]


class WaitLevel(Level):
    number: int = Field(default=9, ge=1, le=9)
    """Distinguishes the stages."""


class WaitEnv(PythonEnv):
    """The agent waits (0), wins (1) or loses (2)."""

    observation_space = spaces.Box(0, 9, (1,), np.int64)
    max_episode_steps = 200

    def begin(self) -> dict[str, Any]:
        return {"steps": 0}

    def observe(self) -> np.ndarray:
        return np.array([0])

    def advance(self, action: int) -> tuple[float, bool]:
        if action == 1:
            self.achieve("win")
        return 0.0, action > 0


class WaitWorld(PythonWorld):
    name, Level, env_class = "wait", WaitLevel, WaitEnv
    skills, actions = (Skill("win"),), ("wait", "win", "lose")
    observations, rules = ("symbols",), "Wait, win or lose."


def test_episodes_from_before_a_change_do_not_count_when_their_stage_returns():
    chain = LevelChain(
        skill="win", levels=(WaitLevel(number=1), WaitLevel(number=2)), advance_at=75, fall_back_at=25, window=4
    )
    envs = ChainVectorEnv(WaitWorld().make([{}], 8, 0), [chain], WaitWorld.skills)
    resumed = ChainVectorEnv(WaitWorld().make([{}], 8, 0), [chain], WaitWorld.skills)
    envs.reset(seed=0)
    visited = []
    for others in (1, 1, 2, 2):  # environment 0 waits in the first stage meanwhile
        envs.step(np.array([0] + [others] * 7))
        visited.append(envs.stage_of(chain))
    assert visited == [1, 1, 0, 0]
    resumed.set_state(envs.get_state())
    for each in (envs, resumed):
        each.step(np.array([1] + [0] * 7))  # its episode began before both changes
        assert each.counts.tolist() == [0]
        each.step(np.array([1] + [0] * 7))  # the next one began after them
        assert each.counts.tolist() == [1]
        assert each.lengths[0, 0] == 1


def test_a_rate_between_the_thresholds_changes_nothing():
    envs = make_envs(num_envs=8)
    envs.reset(seed=1)
    envs.stages[0] = 1
    envs._set_current_levels()
    envs.reset(seed=1)
    half = np.array([RIGHT, 1 - RIGHT] * 4)
    for _ in range(29):  # the successes take 6 steps each, the failures 30
        envs.step(half)
        assert envs.stage_of(CHAIN) == 1
    assert envs.successes[0].all()  # the last episodes that ended


@pytest.mark.parametrize(("continues", "stage"), [(False, 0), (True, 1)])
def test_an_episode_in_progress_counts_unless_it_continues_a_saved_state(continues, stage):
    """Three environments succeed every two steps, and the fourth stands still."""
    chain = CHAIN.model_copy(update={"advance_at": 100, "window": 6})
    envs = make_envs(chain)
    envs.reset(seed=1)
    if continues:
        envs.set_env_state(np.array([3]), envs.get_env_state(np.array([3])))
    for _ in range(4):
        assert envs.stage_of(chain) == 0
        envs.step(np.array([RIGHT, RIGHT, RIGHT, 0]))
    assert envs.stage_of(chain) == stage


def test_chains_begin_at_their_start_and_share_environments_with_levels():
    late = CHAIN.model_copy(update={"start": 1})
    envs = make_envs(late, LEVELS[0], ORIGINAL, num_envs=6)
    _, infos = envs.reset(seed=1)
    assert playing(envs, infos) == [LEVELS[1], LEVELS[0], ORIGINAL] * 2
    sources = [envs.level_sources[k] for k in infos["level"]]
    assert sources == [late, LEVELS[0], ORIGINAL] * 2  # the original is a stage of the chain, too
    play(envs, RIGHT, lambda: envs.stage_of(late) == 2)
    for _ in range(40):
        *_, infos = envs.step(np.full(6, RIGHT))
    assert [envs.level_sources[k] for k in infos["level"]] == sources
    assert playing(envs, infos) == [ORIGINAL, LEVELS[0], ORIGINAL] * 2


@pytest.fixture
def short_cutoffs(monkeypatch):
    monkeypatch.setattr("envgen.curriculum.chains.MIN_CUTOFF", 4)
    monkeypatch.setattr("envgen.curriculum.chains.MIN_SUCCESSES", 2)


def test_episodes_are_cut_off_after_a_multiple_of_the_steps_until_success(short_cutoffs):
    """Two environments succeed after three steps, and the others never."""
    chain = LevelChain(skill="sprint", levels=(CorridorLevel(length=3), ORIGINAL), advance_at=100, window=8, cutoff=2)
    envs, episodes = make_envs(chain), EpisodeStats()
    runner, actions = VecEnvRunner(envs, seed=1), np.array([RIGHT, RIGHT, 0, 0])
    for _ in range(3):
        assert not runner.step(actions, episodes).cut_off.any()
    lengths = []
    for _ in range(12):
        before = runner.obs.copy()
        result = runner.step(actions, episodes)
        np.testing.assert_array_equal(result.cut_off, result.truncated)
        if result.cut_off.any():
            assert result.cut_off.tolist() == [False, False, True, True]
            np.testing.assert_array_equal(result.final_obs[2][0], before[2][0])  # it stood still
            np.testing.assert_array_equal(runner.obs[2:, 0], 0)
            lengths.append(episodes.lengths[-2:])
    assert lengths == [[6, 6]] * 2  # twice three
    assert envs.stage_of(chain) == 0


def test_an_episode_is_not_cut_off_by_the_limit_of_a_later_stage(short_cutoffs):
    """The last environment stands still in stage 0, the first succeeds in stage 1, and the others stand still there."""
    levels = (CorridorLevel(length=6), CorridorLevel(length=3), ORIGINAL)
    chain = LevelChain(skill="sprint", levels=levels, advance_at=75, fall_back_at=5, window=4, cutoff=2)
    envs = make_envs(chain, num_envs=8)
    _, infos = envs.reset(seed=1)
    cut_off = np.zeros(8, int)
    for _ in range(40):
        actions = np.array([RIGHT if level == levels[0] else 0 for level in playing(envs, infos)])
        actions[[0, 7]] = RIGHT, 0
        *_, infos = envs.step(actions)
        cut_off += infos.get("final_info", {}).get("cut_off", 0)
    assert (cut_off[1:7] > 0).all()
    assert cut_off[7] == 0
    assert playing(envs, infos)[7] == levels[0]


def test_the_last_stage_and_chains_without_cutoff_are_not_cut_off(short_cutoffs):
    for chain in (CHAIN, CHAIN.model_copy(update={"cutoff": 1.5, "start": 2})):
        envs, episodes = make_envs(chain), EpisodeStats()
        runner = VecEnvRunner(envs, seed=1)
        for k in range(70):
            result = runner.step(np.array([RIGHT, RIGHT, RIGHT, 0]) if k < 20 else np.zeros(4, int), episodes)
            assert not result.cut_off.any()


def test_an_episode_that_continues_a_saved_state_is_not_cut_off(short_cutoffs):
    """Two environments succeed after three steps, so the others, which stand still, are cut off after twice three."""
    chain = LevelChain(skill="sprint", levels=(CorridorLevel(length=3), ORIGINAL), advance_at=100, window=8, cutoff=2)
    envs, actions, ends = make_envs(chain), np.array([RIGHT, RIGHT, 0, 0]), {2: [], 3: []}
    envs.reset(seed=1)
    for step in range(1, 43):
        *_, truncated, infos = envs.step(actions)
        for i in ends:
            if truncated[i]:
                ends[i].append((step, bool(infos["final_info"]["cut_off"][i])))
        if step == 5:
            envs.set_env_state(np.array([3]), envs.get_env_state(np.array([3])))
    assert ends[2] == [(step, True) for step in range(6, 43, 6)]
    assert ends[3] == [(30, False), (36, True), (42, True)]  # the time limit of the world is 30 steps


def test_a_cutoff_that_would_shrink_is_refused():
    for make in (lambda cutoff: LevelChain(skill="sprint", levels=LEVELS, cutoff=cutoff), ExpertSettings):
        with pytest.raises(ValidationError, match=r"greater than or equal to 1.5"):
            make(cutoff=1.4)


@pytest.mark.parametrize("cutoff", [None, 1.5])
def test_state_continues_exactly(cutoff, short_cutoffs):
    chain = CHAIN.model_copy(update={"cutoff": cutoff})
    envs, resumed = make_envs(chain, num_envs=3), make_envs(chain, num_envs=3)
    envs.reset(seed=1)
    actions = np.maximum(random_actions(envs, 400), random_actions(envs, 400, seed=1))  # mostly to the right
    stages = set()
    for row in actions[:150]:
        envs.step(row)
        stages.add(envs.stage_of(chain))
    assert len(stages) > 1
    assert envs.counts[0] > 0
    obs = resumed.set_state(envs.get_state())
    np.testing.assert_array_equal(obs, envs.envs._observations())
    for row in actions[150:]:
        expected, actual = envs.step(row), resumed.step(row)
        for a, b in zip(expected[:4], actual[:4], strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(expected[4]["level"], actual[4]["level"])
    for name, array in envs.get_state().items():
        np.testing.assert_array_equal(array, resumed.get_state()[name], name)


@pytest.mark.parametrize(
    ("name", "value"),
    [("stages", np.array([3])), ("stages", np.array([-1])), ("counts", np.array([-1])), ("counts", np.zeros(2, int)),
     ("successes", np.zeros((1, 9), np.uint8)), ("restored", np.zeros(9, np.uint8)),
     ("num_successes", np.array([-1])), ("success_steps", np.zeros((1, 9), int)), ("first_success", np.zeros(9, int))],
)  # fmt: skip
def test_a_damaged_state_is_refused_and_changes_nothing(name, value):
    envs = make_envs()
    envs.reset(seed=1)
    before = envs.get_state()
    with pytest.raises(ValueError, match=r"damaged|array"):
        envs.set_state({**before, f"chains.{name}": value})
    for key, array in envs.get_state().items():
        np.testing.assert_array_equal(array, before[key])


def test_practice_within_a_chain_is_not_counted_and_keeps_its_states_when_the_stage_changes():
    chain_envs = make_envs(num_envs=10)
    settings = PracticeSettings(share=0.4, max_steps=6, snapshot_interval=2, max_success_rate=1.0)
    envs = PracticeVectorEnv(chain_envs, Corridor.skills, settings, 0)
    envs.reset(seed=1)
    ordinary = saved = 0
    for row in random_actions(envs, 300):
        before = chain_envs.counts[0], chain_envs.stage_of(CHAIN)
        _, _, terminated, truncated, infos = envs.step(np.maximum(row, RIGHT * (envs.num_steps % 3 > 0)))
        ended = terminated | truncated
        if ended.any():
            final = infos["final_info"]
            counted = (ended & ~final["practice"]).sum()
            assert all(envs.levels[k] in LEVELS for k in final["level"])
            if chain_envs.stage_of(CHAIN) == before[1]:
                assert chain_envs.counts[0] - before[0] <= counted
            ordinary += counted
        if chain_envs.stage_of(CHAIN) != before[1]:
            assert envs.saved_groups.size >= saved
        saved = envs.saved_groups.size
    assert saved > 0
    assert ordinary > 10
    assert chain_envs.stage_of(CHAIN) > 0


def test_episodes_of_a_chain_and_practice_end_in_the_same_step(short_cutoffs):
    """The chain ends ordinary episodes, and practice its own. Both bootstrap from their own last observations."""
    chain = CHAIN.model_copy(update={"levels": (CorridorLevel(length=6), ORIGINAL), "advance_at": 100, "cutoff": 1.5})
    settings = PracticeSettings(share=0.5, max_steps=4, snapshot_interval=2, max_success_rate=1.0)
    envs = PracticeVectorEnv(make_envs(chain, num_envs=8), Corridor.skills, settings, 0)
    runner, episodes = VecEnvRunner(envs, seed=1), EpisodeStats()
    num_cut, num_practiced, num_both = 0, 0, 0
    speeds = np.tile([0.2, 0.9], 4)  # slow episodes are cut off
    for row in np.random.default_rng(0).random((400, 8)):
        practicing, before, actions = envs.practice_group >= 0, runner.obs[:, 0].copy(), (row < speeds).astype(int)
        num_ended = len(episodes)
        at_world_limit = np.where(practicing, envs.practice_steps < 3, runner.episode_lengths == 29)
        result = runner.step(actions, episodes)
        np.testing.assert_array_equal(result.cut_off, result.truncated & ~at_world_limit)
        for i in np.flatnonzero(result.truncated):
            assert result.final_obs[i][0] == before[i] + actions[i]
        assert len(episodes) - num_ended == (result.dones & ~practicing).sum()
        cut, practiced = result.cut_off & ~practicing, result.dones & practicing
        num_cut, num_practiced = num_cut + cut.sum(), num_practiced + practiced.sum()
        num_both += cut.any() and practiced.any()
    assert num_cut > 10
    assert num_practiced > 100
    assert num_both > 5


# --- in a run


class ChainDesigner(Designer):
    name = "chain"

    def design(self, brief: Brief, history: Any) -> Proposal:
        stage = history[-1].outcomes[0].chain.stage if history else 0
        chain = CHAIN.model_copy(update={"start": stage})
        other = ProposedLevel(level=CorridorLevel(length=3), skills=("sprint",))
        return Proposal(levels=(ProposedLevel(level=LEVELS[stage], skills=("sprint",), chain=chain), other))


PLAN = TrainingPlan(cycles=2, levels=2, cycle_steps=2400, final_steps=240, feedback_groups=2, feedback_episodes=2,
                    episodes=4, audit_steps=0)  # fmt: skip
SETTINGS = {"num_envs": 4, "num_steps": 20, "update_epochs": 1, "num_minibatches": 1}


class StopTraining(Exception):
    pass


@pytest.mark.parametrize("mixing", ["alternate", "mixed"])
def test_a_run_trains_in_chains_records_their_stages_and_resumes_exactly(tmp_path, mixing):
    plan, results = PLAN.model_copy(update={"mixing": mixing}), {}
    practice = {"share": 0.25, "max_steps": 6, "max_success_rate": 1.0} if mixing == "alternate" else None
    for name, stop_after in (("whole", None), ("resumed", 17)):

        def on_progress(line: dict[str, Any], stop_after: int | None = stop_after) -> None:
            if line["updates"] == stop_after:
                raise StopTraining

        def run(callback: Any, name: str = name) -> None:
            train(
                tmp_path / name, Corridor(), ChainDesigner(), plan, "symbols", 1, learner_settings=SETTINGS,
                on_progress=callback, save_every=0.0, practice=practice,
            )  # fmt: skip

        if stop_after is not None:
            with pytest.raises(StopTraining):
                run(on_progress)
        run(lambda line: None)
        lines = [{k: v for k, v in line.items() if "second" not in k} for line in read_progress(tmp_path / name)]
        cycles = [json.loads((tmp_path / name / f"cycles/{k}/evaluation.json").read_text())["cycle"] for k in (1, 2)]
        results[name] = lines, cycles
    assert results["whole"] == results["resumed"]
    lines, cycles = results["whole"]
    chain_lines = [line["levels"][0]["chain"] for line in lines if "chain" in line["levels"][0]]
    assert max(line["stage"] for line in chain_lines) > 0
    for cycle in cycles:
        outcome = cycle["outcomes"][0]
        assert sum(outcome["chain"]["episodes"]) == outcome["episodes"]
        rate = 100 * sum(outcome["chain"]["successes"]) / outcome["episodes"]
        assert outcome["skills"]["sprint"] == pytest.approx(rate)
        assert "chain" not in cycle["outcomes"][1]
    assert cycles[1]["proposal"]["levels"][0]["chain"]["start"] == cycles[0]["outcomes"][0]["chain"]["stage"]


class Walker:
    """Always goes to the right."""

    def act(self, obs: Any, rng: np.random.Generator | None = None) -> np.ndarray:
        return np.full(len(obs), RIGHT)


def test_designers_measure_the_success_of_the_agent_in_each_level():
    walker: Any = Walker()
    scorer = LevelScorer(Corridor(), "symbols", walker, 0, seed=0, cycle=1)
    levels = [CorridorLevel(length=2), CorridorLevel(length=50), ORIGINAL]
    rates = [{"walk": 0.0, "sprint": 100.0}, {"walk": 100.0, "sprint": 0.0}, {"walk": 100.0, "sprint": 100.0}]
    assert scorer.success_rates(levels, episodes=5) == rates
    assert scorer.steps == 220  # of the 15 episodes


def test_the_expert_trains_in_the_chains_of_a_world(tmp_path):
    """Of Heist, whose levels grant keys and open doors."""
    plan = {"cycles": 2, "levels": 2, "ratio": 1, "cycle_steps": 64, "final_steps": 0, "feedback_groups": 2,
            "feedback_episodes": 1, "episodes": 2, "audit_steps": 0}  # fmt: skip
    run = envgen.train(
        "heist", "expert", plan=plan, folder=tmp_path, verbose=False,
        hyperparameters={"num_envs": 2, "num_steps": 16, "update_epochs": 1, "num_minibatches": 1},
    )  # fmt: skip
    assert run.summary.steps["levels"] == 64
    proposal = json.loads((tmp_path / "cycles/1/levels.json").read_text())["proposal"]
    assert all(level["skills"] for level in proposal["levels"])
