"""Diagnoses: what is counted in episodes, where most are lost, and that measuring changes no result."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ladder import DOWN, UP, Ladder

from envgen.agents.ppo import PPO
from envgen.curriculum.diagnosis import Diagnosis, diagnose
from envgen.curriculum.evaluate import evaluate
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.heist.world import Heist
from envgen.worlds.world import EpisodeEnd, Skill, SkillCheck


class LadderProbe:
    """Climbing requires standing one rung below the top, and the action `up`."""

    def __init__(self, envs: Any):
        self.envs, self.height = envs, np.zeros(envs.num_envs)

    def before_step(self, actions: np.ndarray) -> Mapping[str, SkillCheck]:
        self.height = self.envs.height.copy()
        conditions = np.stack([self.height >= 2, self.height == self.envs.rungs - 1], 1)
        return {"climb": SkillCheck(conditions, np.asarray(actions) == UP)}

    def episode_ends(self, env_ids: np.ndarray) -> Sequence[EpisodeEnd]:
        where = ["high up" if self.height[i] >= 2 else "low" for i in env_ids]
        return [EpisodeEnd("time limit", {"where": name}) for name in where]


class ProbedLadder(Ladder):
    conditions = {"climb": ("two rungs up", "one rung below the top")}  # noqa: RUF012

    def make_probe(self, envs: Any) -> LadderProbe:
        return LadderProbe(envs)


class Climber:
    """Environment i goes up `i % 6` times in a row and down once, again and again."""

    def __init__(self):
        self.step = 0

    def act(self, obs, rng=None):
        period = obs[:, 0] % 6 + 1
        actions = np.where(self.step % period == period - 1, DOWN, UP)
        self.step += 1
        return actions


LEVEL = {"rungs": 5, "length": 20}


def test_counts_of_a_ladder_are_exact():
    """Of 12 environments those with i % 6 == 5 climb the ladder of 5 rungs, and those with i % 6 == 4 come close."""
    result = diagnose(Climber(), ProbedLadder(), LEVEL, episodes=12, observation="number")
    climb = result.skills["climb"]
    assert climb.success.value == pytest.approx(100 * 2 / 12)
    assert not climb.mastered
    assert climb.first_step == 5
    assert [(stage.name, stage.ever) for stage in climb.conditions] == [
        ("two rungs up", pytest.approx(100 * 8 / 12)), ("one rung below the top", pytest.approx(100 * 4 / 12)),
    ]  # fmt: skip
    attempts = climb.attempts
    assert attempts is not None
    # in 20 steps: i % 6 == 4 is on rung 4 after steps 4, 9, 14, 19, and i % 6 == 5 after steps 4, 10, 16
    assert (attempts.opportunity_steps, attempts.opportunity_episodes) == (2 * (4 + 3), 4)
    assert (attempts.used_steps, attempts.used_episodes) == (2 * 3, 2)
    ups = {0: 0, 1: 10, 2: 14, 3: 15, 4: 16, 5: 17}
    assert attempts.failed_steps == 2 * sum(ups.values()) - attempts.used_steps
    assert attempts.failed_episodes == 10
    assert attempts.missing["one rung below the top"] == 100
    assert 0 < attempts.missing["two rungs up"] < 100
    assert climb.bottleneck is not None
    assert (climb.bottleneck.kind, climb.bottleneck.name) == ("condition", "one rung below the top")
    assert (climb.bottleneck.reached, climb.bottleneck.of) == (4, 8)


def test_the_documentation_names_every_field():
    page = (Path(__file__).parents[2] / "docs" / "agent.md").read_text()
    result = diagnose(Climber(), ProbedLadder(), LEVEL, episodes=12, observation="number").model_dump(mode="json")
    climb = result["skills"]["climb"]
    parts = [result, *result["ends"], climb, *climb["conditions"], climb["attempts"], climb["bottleneck"]]
    assert {name for part in parts for name in part if f"`{name}`" not in page} == set()


def test_a_world_without_a_probe_is_measured_by_its_prerequisites():
    result = diagnose(Climber(), Ladder(), LEVEL, episodes=12, observation="number")
    fly = result.skills["fly"]
    assert [(stage.name, stage.ever) for stage in fly.prerequisites] == [("climb", pytest.approx(100 * 2 / 12))]
    assert (fly.conditions, fly.attempts, fly.first_step) == ((), None, None)
    assert fly.bottleneck is not None
    assert (fly.bottleneck.name, fly.bottleneck.reached, fly.bottleneck.of) == ("climb", 2, 12)
    assert [(end.cause, end.episodes, end.lengths) for end in result.ends] == [("time limit", 12, (20,) * 12)]
    assert result.ends[0].circumstances == {}
    assert list(result.unmastered) == ["climb", "fly"]
    assert "climb: 2 of the 12 episodes" in str(result)


def test_the_threshold_decides_what_is_mastered():
    result = diagnose(Climber(), Ladder(), LEVEL, episodes=12, observation="number", threshold=10)
    assert result.skills["climb"].mastered
    assert list(result.unmastered) == ["fly"]


def test_several_episodes_of_an_environment_are_counted_one_by_one():
    """300 episodes in 256 environments: the surplus episodes of the last round are not counted."""
    once = diagnose(Climber(), ProbedLadder(), LEVEL, episodes=256, observation="number")
    more = diagnose(Climber(), ProbedLadder(), LEVEL, episodes=300, observation="number")
    assert once.skills["climb"].attempts is not None
    assert more.skills["climb"].attempts is not None
    assert more.ends[0].episodes == 300
    assert set(more.ends[0].lengths) == {20}
    assert more.ends[0].circumstances["where"].keys() == {"low", "high up"}
    assert sum(more.ends[0].circumstances["where"].values()) == 300
    assert more.skills["climb"].attempts.opportunity_episodes > once.skills["climb"].attempts.opportunity_episodes


class Chain(Ladder):
    skills = (Skill("last", ("middle", "first")), Skill("middle", ("first",)), Skill("first"))
    counts = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 0, 0], [0, -1, 1]])

    def make(self, levels=(), num_envs=None, seed=None, observation="number", **kwargs):
        envs, counts = super().make(levels, num_envs, seed, observation), self.counts
        envs._infos = lambda: {"achievements": np.maximum(counts, 0), "possible": counts >= 0}
        return envs


def test_prerequisites_are_in_order_and_what_is_impossible_is_not_needed():
    last = diagnose(Climber(), Chain(), {"length": 3}, episodes=5, observation="number").skills["last"]
    assert [(stage.name, stage.ever, stage.together) for stage in last.prerequisites] == [
        ("first", 60, 60), ("middle", 40, 40),
    ]  # fmt: skip
    middle = diagnose(Climber(), Chain(), {"length": 3}, episodes=5, observation="number").skills["middle"]
    assert middle.episodes == 4
    assert middle.success.value == 25


def test_a_success_without_prerequisites_passes_all_stages():
    """The fourth episode succeeds at `last` although nothing that it requires was done: a level may grant that."""
    last = diagnose(Climber(), Chain(), {"length": 3}, episodes=5, observation="number").skills["last"]
    assert last.bottleneck is not None
    assert (last.bottleneck.name, last.bottleneck.reached, last.bottleneck.of) == ("success", 1, 3)


@pytest.fixture(scope="module")
def agent() -> PPO:
    agent = PPO.for_envs(Crafter().make(num_envs=1, observation="symbols"), seed=2)
    agent.network.policy_head.weight.data *= 50
    return agent


def test_the_episodes_are_those_of_an_evaluation(agent):
    result = diagnose(agent, Crafter(), episodes=8, seed=4)
    assert result.evaluation == evaluate(agent, Crafter(), episodes=8, seed=4)
    assert sum(end.episodes for end in result.ends) == 8
    lengths = [length for end in result.ends for length in end.lengths]
    assert np.mean(lengths) == pytest.approx(result.evaluation.length.value)
    assert result.length_quantiles["50%"] == np.median(lengths)
    for name, skill in result.skills.items():
        assert skill.success == result.evaluation.skills[name]
        assert skill.attempts is not None
        if name != "collect_sapling":  # the only skill that depends on chance
            assert 100 * skill.attempts.used_episodes / 8 == pytest.approx(skill.success.value)
    assert Diagnosis.model_validate_json(result.model_dump_json()) == result


def test_the_expert_of_heist_masters_what_is_possible():
    class Expert:
        envs: Any = None

        def act(self, obs, rng=None):
            return Heist().expert_actions(self.envs)[: len(obs)]

    class SeenHeist(Heist):
        def make(self, *args, **kwargs):
            Expert.envs = super().make(*args, **kwargs)
            return Expert.envs

    result = diagnose(Expert(), SeenHeist(), {"keys": "two"}, episodes=1, seed=3)
    assert result.skills["steal_gem"].mastered
    assert result.skills["take_red_key"].episodes == 0
    assert result.unmastered == {}
    assert result.ends[0].cause == "gem stolen"


def test_invalid_arguments_are_refused():
    with pytest.raises(ValueError, match="at least 1 episode, not 0"):
        diagnose(Climber(), Ladder(), episodes=0, observation="number")
    with pytest.raises(ValueError, match="seed must be 0 or greater, not -1"):
        diagnose(Climber(), Ladder(), seed=-1, observation="number")
