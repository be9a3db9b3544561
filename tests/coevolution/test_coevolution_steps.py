"""What a step of the co-evolution records, with an agent and a proposer whose results are given."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toy import Toy, ToySpec

from envgen.coevolution.loop import Coevolution, RolloutBatch
from envgen.coevolution.proposers import Candidate, ProposalBatch, Proposer
from envgen.coevolution.sampling import Completions
from envgen.coevolution.settings import AgentSettings, AlphaCurriculumSettings, CoevolutionPlan
from envgen.coevolution.task_stores import TaskFilter, TaskStores
from envgen.runs.store import Run

NUM_GENERATIONS = 4
INVALID = None
BASE_SPEC = ToySpec(which=2, letters="hg", loud="yes")
SPECS = [ToySpec(which=1, letters="a"), ToySpec(which=1, letters="b", loud="yes"), ToySpec(which=2, letters="ab")]


class ScriptedAgent:
    """Its replies to each batch of tasks have given scores, one row for each task."""

    def __init__(self, *batches: list, **settings: Any):
        self.settings = AgentSettings(num_generations=NUM_GENERATIONS, **settings)
        self.batches, self.updates = list(batches), []

    def sample_and_score(self, tasks):
        table = self.batches.pop(0)
        assert len(tasks) == len(table)
        count = len(tasks) * NUM_GENERATIONS
        completions = Completions(torch.ones((count, 1), dtype=torch.long), torch.ones((count, 1), dtype=torch.bool))
        scores = np.array([[score or 0.0 for score in row] for row in table])
        valid = np.array([[score is not INVALID for score in row] for row in table])
        prompts = [[1, 2, 3]] * len(tasks)
        return RolloutBatch(tasks, prompts, completions, [f"reply {k}" for k in range(count)], scores, valid)

    def update(self, batches):
        self.updates.append(batches)
        return {}


class ScriptedProposer(Proposer):
    """Proposes given specs, all of them variations of one spec."""

    name = "scripted"

    def __init__(self, *batches: list[ToySpec]):
        self.batches = list(batches)

    @classmethod
    def from_context(cls, context, **options):
        raise NotImplementedError

    def propose(self, count, base_specs, stats, task_filter):
        results = [task_filter.check(spec.text) for spec in self.batches.pop(0)]
        return ProposalBatch(tuple(
            Candidate(result.task.spec.text, self.name, index, 0, result.task) for index, result in enumerate(results)
        ))  # fmt: skip


def make_loop(run: Run, agent: Any, proposer: Proposer, plan: CoevolutionPlan, **curriculum: Any) -> Coevolution:
    domain = Toy()
    return Coevolution(
        run, domain, agent, proposer, stores=TaskStores(run), task_filter=TaskFilter(domain, ()),
        base_specs=[BASE_SPEC], eval_tasks=(), curriculum=AlphaCurriculumSettings(**curriculum), plan=plan, seed=0,
    )  # fmt: skip


def read_lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_success_statistics_count_the_replies_to_all_tasks_and_decay_after_each_step(tmp_path):
    """Two new tasks and two base tasks in each step."""
    first = [[1.0, 0.5, 0.4, 0.0], [0.5, 0.0, INVALID, 0.0], [1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    second = [[1.0] * 4, [1.0] * 4, [0.0] * 4, [0.0] * 4]
    agent = ScriptedAgent(first, second)
    proposer = ScriptedProposer(SPECS[:2], [SPECS[2], ToySpec(which=2, letters="cd")])
    plan = CoevolutionPlan(tasks_per_step=4, fresh_fraction=0.5, replay_fraction=0.0)
    with Run(tmp_path, {}) as run:
        loop = make_loop(run, agent, proposer, plan, success_threshold=0.5)
        loop.step()
        after_one = {  # successes and replies
            "which": {"1": [0.9 * 3, 0.9 * 8], "2": [0.9 * 3, 0.9 * 8]},
            "loud": {"no": [0.9 * 2, 0.9 * 4], "yes": [0.9 * (1 + 3), 0.9 * (4 + 8)]},
        }
        assert flatten(loop.success_stats.state()) == pytest.approx(flatten(after_one))
        loop.step()
        after_two = {
            "which": {"1": [0.81 * 3, 0.81 * 8], "2": [0.81 * 3 + 0.9 * 8, 0.81 * 8 + 0.9 * 16]},
            "loud": {"no": [0.81 * 2 + 0.9 * 8, 0.81 * 4 + 0.9 * 8], "yes": [0.81 * 4, 0.81 * 12 + 0.9 * 8]},
        }
        assert flatten(loop.success_stats.state()) == pytest.approx(flatten(after_two))
    assert len(agent.updates) == 2


def flatten(stats: Any) -> dict[tuple, float]:
    return {
        (feature, value, k): number
        for feature, values in stats.items()
        for value, counts in values.items()
        for k, number in enumerate(counts)
    }


@pytest.mark.parametrize(
    ("success_over", "rates"), [("task", (0.5, 0.75)), ("group", (0.625, 0.625)), ("batch", (0.625, 0.625))]
)
def test_new_tasks_are_stored_with_their_success_rate_and_their_reward(tmp_path, success_over, rates):
    """Two tasks of the proposer, a random one that takes the place of a third, and a base task, which is not new."""
    agent = ScriptedAgent([[1.0, 1.0, 0.0, INVALID], [1.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0], [1.0] * 4])
    plan = CoevolutionPlan(tasks_per_step=4, fresh_fraction=0.75, replay_fraction=0.0)
    with Run(tmp_path, {}) as run:
        loop = make_loop(run, agent, ScriptedProposer(SPECS[:2]), plan, alpha=0.25, beta=2.0, success_over=success_over)
        loop.step()
    *proposed, fallback = read_lines(tmp_path / "tasks.jsonl")
    names = ("spec", "step", "source", "success_rate", "reward")
    assert [[record[name] for name in names] for record in proposed] == [
        [spec.text, 1, "scripted", rate, round(float(np.exp(-2.0 * (rate - 0.25) ** 2)), 4)]
        for spec, rate in zip(SPECS, rates, strict=False)
    ]
    assert [fallback[name] for name in names[1:]] == [1, "fallback", 0.25, 0.0]  # rewards are those of the proposer


def test_valid_replies_are_stored_as_traces(tmp_path):
    table = [[1.0, INVALID, 0.0, 0.5], [INVALID] * 4, [INVALID, INVALID, INVALID, 1.0]]
    plan = CoevolutionPlan(tasks_per_step=3, fresh_fraction=1.0, replay_fraction=0.0)
    with Run(tmp_path, {}) as run:
        make_loop(run, ScriptedAgent(table), ScriptedProposer(SPECS), plan).step()
    records = read_lines(tmp_path / "agent_traces.jsonl")
    traces = [(record["spec"], record["completion"], record["score"]) for record in records]
    assert traces == [
        (SPECS[0].text, "reply 0", 1.0), (SPECS[0].text, "reply 2", 0.0), (SPECS[0].text, "reply 3", 0.5),
        (SPECS[2].text, "reply 11", 1.0),
    ]  # fmt: skip


MIXED, FLAT = [1.0, 0.0, 0.0, 0.0], [1.0] * NUM_GENERATIONS


@pytest.mark.parametrize(
    "batches",
    [
        [[MIXED] * 4],
        [[MIXED, FLAT, FLAT, FLAT], [FLAT, MIXED, MIXED], [MIXED]],
        [[FLAT] * 4, [FLAT, FLAT, FLAT, MIXED], [FLAT] * 3, [FLAT] * 3],  # after four batches no more are collected
    ],
)
def test_only_groups_without_variance_are_refilled(tmp_path, batches):
    """The agent refuses a batch of another size than that of its scores."""
    agent = ScriptedAgent(*batches, zero_variance_groups="refill")
    plan = CoevolutionPlan(tasks_per_step=4, fresh_fraction=0.0, replay_fraction=0.0)
    with Run(tmp_path, {}) as run:
        line = make_loop(run, agent, ScriptedProposer(), plan).step()
    assert not agent.batches
    (update,) = agent.updates
    assert [len(batch.tasks) for batch in update] == [len(table) for table in batches]
    assert line["rollouts"] == NUM_GENERATIONS * sum(map(len, batches))
