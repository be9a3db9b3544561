"""check_domain accepts every domain of the project and explains each way to break the contract."""

import itertools
from typing import Any

import numpy as np
import pytest
from toy import Toy, ToySpec

from envgen.coevolution.domains.answers import AnswersDomain
from envgen.coevolution.domains.registry import load_domain
from envgen.coevolution.domains.tools.domain import ToolsDomain
from envgen.coevolution.tasks import CheckResult, DomainError, Spec, SpecError, Task, check_domain, check_samples
from envgen.coevolution.train import CoevolveRequest, coevolve


@pytest.mark.parametrize("domain", [Toy(), AnswersDomain(), ToolsDomain()], ids=lambda domain: domain.name)
def test_domains_keep_the_contract(domain: Any):
    check_domain(domain)


def test_reasoning_gym_domains_keep_the_contract():
    pytest.importorskip("reasoning_gym")
    check_domain(load_domain("reasoning_gym:leg_counting"), num_specs=20)


class NoName(Toy):
    name = ""


class NameOfFolder(Toy):
    name = "../toy"


class NoInstructions(Toy):
    instructions = None  # type: ignore[assignment]


class WrongSpecClass(Toy):
    Spec = dict  # type: ignore[assignment]


class WrongThreshold(Toy):
    success_threshold = 1.5


class WrongAggregation(Toy):
    loss_agg = "mean"  # type: ignore[assignment]


class UnseededSampling(Toy):
    counter = itertools.count()

    def sample(self, rng: np.random.Generator) -> Any:
        return ToySpec(which=1, letters="abcdefgh"[next(self.counter) % 8])


class ForeignSpec(Toy):
    def sample(self, rng: np.random.Generator) -> Any:
        return AnswersDomain().sample(rng)

    def vary(self, spec: Any, rng: np.random.Generator) -> Any:
        return spec


class InvalidSample(Toy):
    def sample(self, rng: np.random.Generator) -> Any:
        return ToySpec(which=2, letters="a")

    def vary(self, spec: Any, rng: np.random.Generator) -> Any:
        return spec


class ChangingTask(Toy):
    counter = itertools.count()

    def make_task(self, spec: Any) -> Task:
        task = super().make_task(spec)
        return Task(spec, f"{task.prompt} {next(self.counter)}", task.answer_key)


class EmptyPrompt(Toy):
    def make_task(self, spec: Any) -> Task:
        return Task(spec, "", super().make_task(spec).answer_key)


class CrashingCheck(Toy):
    def check(self, task: Task, reply: str) -> CheckResult:
        return CheckResult(float(reply.encode() == task.answer_key.encode()), True)


class ScoreAboveOne(Toy):
    def check(self, task: Task, reply: str) -> CheckResult:
        return CheckResult(2.0, True)


class NoResult(Toy):
    def check(self, task: Task, reply: str) -> Any:
        return reply == task.answer_key


class InvalidButScored(Toy):
    def check(self, task: Task, reply: str) -> CheckResult:
        return CheckResult(1.0, False)


class WrongOracle(Toy):
    def oracle_reply(self, task: Task) -> str:
        return "z"


class LenientCheck(Toy):
    def check(self, task: Task, reply: str) -> CheckResult:
        return CheckResult(float(reply.strip().lower() == task.answer_key.lower()), True)


class NoWrongReplies(Toy):
    def wrong_replies(self, task: Task) -> tuple[str, ...]:
        return ()


class NumericFeatures(Toy):
    def features(self, spec: Any) -> Any:
        return {"which": spec.which}


class VaryingFeatures(Toy):
    def features(self, spec: Any) -> dict[str, str]:
        return {spec.letters[0]: "yes"}


class FailingTask(Toy):
    def make_task(self, spec: Any) -> Task:
        raise KeyError("letters")


class FailingEasySample(Toy):
    def sample_easy(self, rng: np.random.Generator) -> Any:
        return self.levels  # pyright: ignore[reportAttributeAccessIssue]


class InfiniteDifficulty(Toy):
    def difficulty(self, spec: Any) -> float:
        return float("inf")


@pytest.mark.parametrize(
    ("domain_class", "message"),
    [
        (NoName, "NoName.name is empty"),
        (NameOfFolder, "NameOfFolder.name must be usable as the name of a folder, not '../toy'"),
        (NoInstructions, "NoInstructions.instructions must be a string"),
        (WrongSpecClass, "Spec must be a subclass of envgen.coevolution.tasks.Spec"),
        (WrongThreshold, r"success_threshold is 1.5, not in \(0, 1\]"),
        (WrongAggregation, "loss_agg must be token or sequence, not 'mean'"),
        (UnseededSampling, "sampling twice with the same seed gives different specs"),
        (ForeignSpec, "a sampled spec is a AnswersSpec, not a ToySpec"),
        (InvalidSample, "is refused: there is no letter 2"),
        (ChangingTask, "equal specs make different tasks"),
        (EmptyPrompt, "has no prompt"),
        (CrashingCheck, "check fails on the reply .*UnicodeEncodeError"),
        (ScoreAboveOne, "must return a CheckResult with a score from 0 to 1"),
        (NoResult, "must return a CheckResult with a score from 0 to 1, not False"),
        (InvalidButScored, "check scores the invalid reply '' 1.0, not 0"),
        (WrongOracle, "scores its own answer 0.0"),
        (LenientCheck, "scores the wrong "),
        (NoWrongReplies, "wrong_replies is empty"),
        (NumericFeatures, "must map strings to strings"),
        (VaryingFeatures, "specs differ in the names of their features"),
        (InfiniteDifficulty, "is inf, which is not finite"),
    ],
)
def test_broken_domains_are_explained(domain_class: type[Toy], message: str):
    with pytest.raises(DomainError, match=message):
        check_domain(domain_class())


@pytest.mark.parametrize(
    ("domain_class", "message"),
    [
        (NoName, "NoName.name is empty"),
        (NumericFeatures, "must map strings to strings"),
        (NoResult, "must return a CheckResult"),
        (InfiniteDifficulty, "is inf, which is not finite"),
        (FailingTask, r"^the domain FailingTask fails: KeyError: 'letters' \(.*test_tasks.py, line \d+\)$"),
        (FailingEasySample, "^the domain FailingEasySample fails: AttributeError: .*levels"),
    ],
)
def test_domains_are_checked_before_a_run_starts(domain_class: type[Toy], message: str, tmp_path):
    request = CoevolveRequest(proposer="uniform", agent="none", environment="none")
    with pytest.raises(DomainError, match=message):
        coevolve(tmp_path / "run", domain_class(), request)
    assert not (tmp_path / "run").exists()


def test_a_run_skips_specs_that_the_domain_refuses():
    class Sometimes(Toy):
        def sample_easy(self, rng: np.random.Generator) -> Any:
            return ToySpec(which=2, letters="a")

    check_samples(Sometimes(), num_held_out=2)


def test_spec_that_does_not_round_trip_is_explained():
    class LossySpec(ToySpec):
        @property
        def text(self) -> str:
            return ToySpec(which=1, letters=self.letters[0]).text

    class LossyText(Toy):
        Spec = LossySpec

        def sample(self, rng: np.random.Generator) -> Any:
            return LossySpec(which=1, letters="ab")

        def vary(self, spec: Any, rng: np.random.Generator) -> Any:
            return spec

        def make_task(self, spec: Any) -> Task:
            if spec.which > len(spec.letters):
                raise SpecError("unused")
            return Task(spec, "a", spec.letters[0])

    with pytest.raises(DomainError, match="is parsed as"):
        check_domain(LossyText())


def test_a_variation_of_a_spec_with_one_field_is_another_sample():
    class Letter(Spec):
        letter: str

    class Letters(Toy):
        Spec = Letter

        def sample(self, rng):
            return Letter(letter=str(rng.choice(list("abc"))))

    rng = np.random.default_rng(0)
    assert {Letters().vary(Letter(letter="a"), rng).letter for _ in range(30)} == set("abc")
