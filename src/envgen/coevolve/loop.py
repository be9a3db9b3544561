"""The co-evolution: tasks are proposed, answered and learned from on both sides, until the rollouts are spent.

    1. the proposer writes specs; the gate makes tasks of them or says why not, and uniform ones take their place
    2. the agent answers them, earlier tasks and base tasks, each `group` times, and learns from the scores
    3. the proposer learns from how often its own tasks were solved
    4. what was new goes into the pools; every so often the agent is tested on held-out tasks

Called again with the same arguments a run goes on where it was, bit for bit on the CPU.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from envgen.runs.store import Run, read_progress

from .agent import AgentPolicy, Rolled
from .metrics import told_of_step, told_of_test
from .proposers import Proposals, Proposer, Uniform
from .reward import rewards, success_rates
from .settings import Curriculum, Plan
from .statistics import Statistics
from .task_filter import Gate
from .task_stores import Pool
from .tasks import Domain, Spec, Task, validate

BASE_SEED = 20_251_219  # of the base tasks, the same in every run
ROUNDS = 4  # of further tasks for groups that were flat, at the most
PROVEN = 200  # tasks on which a domain is proven before a run
Line = dict[str, Any]


@dataclass(frozen=True)
class Turn:
    """Tasks that were rolled together: those proposed, then uniform ones in their place, then earlier and base ones."""

    proposals: Proposals
    fallbacks: int
    rolled: Rolled
    p: np.ndarray  # of the tasks proposed


class Pools:
    """What a run keeps of its tasks: all that were asked, the agent's traces, the environment's own lessons."""

    def __init__(self, run: Run):
        self.tasks = Pool(run.folder / "tasks.jsonl", lambda line: line["spec"], run.is_main)
        self.traces = Pool(run.folder / "d_train.jsonl", lambda line: line["spec"], run.is_main)
        self.specs = Pool(run.folder / "d_env.jsonl", lead=run.is_main)
        self.all = {"tasks": self.tasks, "traces": self.traces, "specs": self.specs}


class Coevolution:
    def __init__(
        self, run: Run, domain: Domain, agent: AgentPolicy, proposer: Proposer, pools: Pools, gate: Gate,
        base: list[Spec], tests: tuple[Task, ...], curriculum: Curriculum, plan: Plan, seed: int,
        show: Callable[[Line], None] = lambda line: None, save_every: float = 60.0,
    ):  # fmt: skip
        self.run, self.domain, self.agent, self.proposer, self.pools, self.gate = (
            run, domain, agent, proposer, pools, gate
        )  # fmt: skip
        self.base, self.tests, self.curriculum, self.plan = base, tests, curriculum, plan
        self.show, self.save_every = show, save_every
        self.known = Statistics()
        self.uniform = Uniform(domain, seed + 1)  # where the proposer has nothing
        self.random = np.random.default_rng([seed, 2])
        self.counts = {"step": 0, "rollouts": 0, "proposed": 0, "agent_tokens": 0, "environment_tokens": 0}
        self.seconds: dict[str, float] = {}

    def go(self) -> list[Line]:
        """All that is left of the run; then every line of its progress."""
        self._resume()
        saved = time.monotonic()
        if not self.counts["step"]:
            self._log({**self.counts, **self._test()})
        while self.counts["rollouts"] < self.plan.rollouts:
            line = self.step()
            last = self.counts["rollouts"] >= self.plan.rollouts
            if last or self.counts["step"] % self.plan.test_every == 0:
                line |= self._test()
            self._log({**line, "seconds": {name: round(spent, 3) for name, spent in self.seconds.items()}})
            if last or self.agent.policy.agreed(time.monotonic() - saved >= self.save_every):
                self._save()
                saved = time.monotonic()
        return list(read_progress(self.run.folder))

    def step(self) -> Line:
        """One turn, or several where flat groups are replaced."""
        self.seconds, turns, useful = {"environment": 0.0, "rollout": 0.0, "update": 0.0}, [], 0
        before = dict(self.counts)
        for _ in range(ROUNDS if self.agent.settings.flat == "refill" else 1):
            turns.append(self._turn(self.plan.tasks - useful))
            useful += int((~turns[-1].rolled.flat).sum())
            if useful >= self.plan.tasks:
                break
        with self._timed("update"):
            learned = self.agent.learn([turn.rolled for turn in turns])
        self.counts["step"] += 1
        taught: dict[str, float] = {}
        for turn in turns:
            taught = self._look_back(turn) or taught
        self.known.fade()
        spent = {name: self.counts[name] - before[name] for name in self.counts}
        return {**self.counts, **told_of_step(self.domain, turns, self.curriculum, spent, self.seconds),
                "agent": learned, "environment": taught}  # fmt: skip

    def _turn(self, count: int) -> Turn:
        wanted, again = round(self.plan.fresh * count), round(self.plan.replay * count)
        with self._timed("environment"):
            proposals = self.proposer.propose(wanted, self.base, self.known, self.gate)
        tasks = [one.task for one in proposals.tasks if one.task is not None]
        missing = wanted - len(tasks)
        others = self.uniform.propose(missing, self.base, self.known, self.gate).tasks if missing else []
        earlier = [self.domain.Spec.parse(text) for text in self.pools.traces.draw(again, self.random)]
        own = [self.base[k] for k in self.random.integers(len(self.base), size=count - wanted - len(earlier))]
        tasks += [one.task for one in others if one.task is not None]
        tasks += [self.domain.make_task(spec) for spec in [*earlier, *own]]
        with self._timed("rollout"):
            rolled = self.agent.roll(tasks)
        self.counts["rollouts"] += rolled.scores.size
        self.counts["proposed"] += len(proposals.tasks)
        self.counts["agent_tokens"] += rolled.samples.tokens
        self.counts["environment_tokens"] += proposals.tokens
        groups = [one.group for one in proposals.tasks]
        p = success_rates(rolled.scores[: len(groups)], groups, self.curriculum)
        return Turn(proposals, missing, rolled, p)

    def _look_back(self, turn: Turn) -> dict[str, float]:
        """What the statistics, the pools and the proposer learn from a turn."""
        rolled, group = turn.rolled, self.agent.settings.group
        hits = (rolled.scores >= self.curriculum.success).sum(1)
        for task, found in zip(rolled.tasks, hits, strict=True):
            self.known.add(self.domain.features(task.spec), float(found), group)
        self.pools.traces.add(
            (
                {"spec": rolled.tasks[k // group].spec.text, "reply": text, "score": float(rolled.scores.flat[k])}
                for k, text in enumerate(rolled.texts)
                if rolled.valid.flat[k]
            ),
            key=lambda trace: f"{trace['spec']}\n{trace['reply']}",
        )
        fresh = [one.spec.text for one in rolled.tasks[: len(turn.p) + turn.fallbacks]]
        own = [
            (self.proposer.name, float(p), float(r))
            for p, r in zip(turn.p, rewards(turn.p, self.curriculum), strict=True)
        ]
        own += [("fallback", float(p), 0.0) for p in hits[len(turn.p) : len(fresh)] / group]
        self.pools.tasks.add(
            (
                {"spec": spec, "step": self.counts["step"], "by": by, "p": round(p, 4), "reward": round(r, 4)}
                for spec, (by, p, r) in zip(fresh, own, strict=True)
            ),
            key=lambda task: task["spec"],
        )
        with self._timed("environment"):
            return self.proposer.learn(turn.proposals, turn.p) if turn.p.size else {}

    def _test(self) -> Line:
        with self._timed("test"):
            return told_of_test(self.domain, self.tests, self.agent.test(self.tests))

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - began

    def _log(self, line: Line) -> None:
        if self.run.is_main:
            self.run.log(line)
        self.show(line)

    # ----------------------------------------------------------------------------------------------------- resume

    def _save(self) -> None:
        (agent, agent_values), (proposer, proposer_values) = self.agent.policy.state(), self.proposer.state()
        if not self.run.is_main:
            return
        values = {
            "agent": agent_values, "proposer": proposer_values, "counts": self.counts, "known": self.known.state(),
            "uniform": self.uniform.state()[1], "random": self.random.bit_generator.state,
            "pools": {name: pool.flush() for name, pool in self.pools.all.items()},
        }  # fmt: skip
        self.run.save({"agent": agent, "proposer": proposer}, values)

    def _resume(self) -> None:
        last = self.run.resume()
        for name, pool in self.pools.all.items():
            pool.restore(last.values["pools"][name] if last else 0)
        if last is None:
            return
        self.agent.policy.load(last.arrays["agent"], last.values["agent"])
        self.proposer.load(last.arrays["proposer"], last.values["proposer"])
        self.uniform.load({}, last.values["uniform"])
        self.known.load(last.values["known"])
        self.random.bit_generator.state = last.values["random"]
        self.counts = dict(last.values["counts"])
        self.gate.passed |= {self.domain.Spec.parse(text).key for text in self.pools.tasks.held}


def prepared(domain: Domain, plan: Plan) -> tuple[Gate, list[Spec], tuple[Task, ...]]:
    """A gate, the base specs and the held-out tasks, on which the domain has proven itself."""
    tests = domain.held_out_tasks(plan.test)
    validate(domain, tests[:PROVEN])
    gate = Gate(domain, tests)
    found = Uniform(domain, BASE_SEED).propose(plan.base, [], Statistics(), gate).tasks
    return gate, [one.task.spec for one in found if one.task is not None], tests
