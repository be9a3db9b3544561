"""From names and settings to a run of the co-evolution: which proposers there are, and who is given what."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from pydantic import BaseModel, ConfigDict

from envgen.runs.store import Run

from .agent import AgentPolicy
from .environment import EnvironmentPolicy
from .language_model import load
from .loop import Coevolution, Line, Pools, prepared
from .policy import Policy
from .proposers import Greedy, Proposer, Static, Uniform
from .sampling import Writer
from .settings import AgentSettings, Curriculum, EnvironmentSettings, Plan
from .statistics import Statistics
from .task_filter import Gate
from .tasks import Domain, DomainError, Spec

METHODS = {"genenv": "rwr", "genenv-grpo": "grpo", "random": "none", "static": "none"}
STATIC = 5  # variations of each base spec in the static set: the paper's number


class Summary(BaseModel):
    """What a whole run came to."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    first: float  # accuracy on the held-out tasks, %: before training, and after it
    final: float
    mean: float  # of all tests but the first, which lie evenly over the run
    final_by: dict[str, dict[str, float]]
    curve: list[tuple[int, int, int, float]]  # rollouts, tokens of both, tasks proposed, accuracy
    counts: dict[str, int]
    seconds: dict[str, float]  # by what they were spent on
    whole_seconds: float


class CoevolveRequest(BaseModel):
    """What identifies a run. `agent` and `environment` are folders or names on the hub."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    proposer: str
    agent: str
    environment: str
    curriculum: Curriculum = Curriculum()
    learning: AgentSettings = AgentSettings()
    environment_learning: EnvironmentSettings = EnvironmentSettings()
    plan: Plan = Plan()
    seed: int = 0


def coevolve(
    folder: Path, domain: Domain, asked: CoevolveRequest, made: Mapping[str, Any] | None = None,
    lies: tuple[str, str] | None = None, show: Callable[[Line], None] = lambda line: None,
    accelerator: Accelerator | None = None,
    writers: tuple[Writer | None, Writer | None] = (None, None), dtype: str = "float32", save_every: float = 60.0,
) -> Summary:  # fmt: skip
    """Train in the run directory `folder`; called again with the same arguments, it resumes.

    Of models made on the spot, `made` says how and `lies` where: a run is known by how its models were made.
    """
    accelerator = accelerator or Accelerator()
    learning = asked.learning.model_copy(update={"flat": "refill"} if asked.proposer == "dapo" else {})
    told = {"domain": domain.name, **asked.model_dump(mode="json"), "learning": learning.model_dump(mode="json")}
    told |= {"proposer": {"name": asked.proposer}, "made": made}
    paths = lies or (asked.agent, asked.environment)
    with Run(folder, told, accelerator.is_main_process) as run:
        gate, base, tests = prepared(domain, asked.plan)
        lm = load(paths[0], dtype)
        lm.check_writes((domain.oracle_reply(task) for task in tests[:20]), f"replies of {domain.name}")
        agent = AgentPolicy(domain, Policy(lm, learning, asked.seed, accelerator, writers[0]), learning)
        pools = Pools(run)
        proposer = _proposer(run, domain, asked, paths[1], pools, gate, base, accelerator, writers[1], dtype)
        loop = Coevolution(
            run,
            domain,
            agent,
            proposer,
            pools,
            gate,
            base,
            tests,
            asked.curriculum,
            asked.plan,
            asked.seed,
            show,
            save_every,
        )
        summary = summed(loop.go())
        if run.is_main:
            run.write("summary", summary.model_dump(mode="json"))
        return summary


def _proposer(
    run: Run, domain: Domain, asked: CoevolveRequest, path: str, pools: Pools, gate: Gate, base: list[Spec],
    accelerator: Accelerator, writer: Writer | None, dtype: str,
) -> Proposer:  # fmt: skip
    seed = asked.seed + 10
    if asked.proposer == "greedy":
        return Greedy(domain, seed, asked.curriculum)
    if asked.proposer not in METHODS:
        return Uniform(domain, seed)
    settings = asked.environment_learning.model_copy(update={"method": METHODS[asked.proposer]})
    lm = load(path, dtype)
    lm.check_writes((spec.text for spec in base[:20]), f"specs of {domain.name}")
    policy = Policy(lm, settings, seed, accelerator, writer)
    plan = asked.plan
    variations = STATIC if asked.proposer == "static" else plan.variations
    environment = EnvironmentPolicy(
        domain, policy, settings, asked.curriculum, pools.specs, variations, plan.tries, seed
    )
    return _written_once(run, domain, environment, gate, base, seed) if asked.proposer == "static" else environment


def _written_once(
    run: Run, domain: Domain, environment: EnvironmentPolicy, gate: Gate, base: list[Spec], seed: int
) -> Static:
    """The static set, which a run that resumes finds written."""
    if not run.has("static"):
        found = environment.propose(STATIC * len(base), base, Statistics(), gate)
        texts = [one.text for one in found.tasks]
        if not texts:
            raise DomainError(f"the environment wrote no spec that makes a task of {domain.name}: nothing to train on")
        if run.is_main:
            run.write("static", {"texts": texts, "tokens": found.tokens})
        environment.policy.accelerator.wait_for_everyone()
    written = run.read("static")
    gate.passed |= {domain.Spec.parse(text).key for text in written["texts"]}
    return Static(domain, written["texts"], written["tokens"], seed)


def summed(lines: list[Line]) -> Summary:
    """What the progress of a whole run comes to."""
    tests = [line for line in lines if "test" in line]
    parts = ("environment", "rollout", "update", "test")
    seconds: dict[str, float] = {
        part: round(sum(line.get("seconds", {}).get(part, 0.0) for line in lines), 1) for part in parts
    }
    return Summary(
        first=100 * tests[0]["test"],
        final=100 * tests[-1]["test"],
        mean=100 * sum(line["test"] for line in tests[1:]) / max(1, len(tests) - 1),
        final_by={
            field: {value: 100 * rate for value, rate in rates.items()} for field, rates in tests[-1]["test_by"].items()
        },
        curve=[
            (line["rollouts"], line["agent_tokens"] + line["environment_tokens"], line["proposed"], 100 * line["test"])
            for line in tests
        ],
        counts={
            name: lines[-1][name] for name in ("step", "rollouts", "proposed", "agent_tokens", "environment_tokens")
        },
        seconds=seconds,
        whole_seconds=round(sum(seconds.values()), 1),
    )
