"""A tiny domain that a model of a few thousand parameters learns in seconds: name one of the letters shown."""

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from envgen.coevolution.tasks import CheckResult, Domain, Spec, SpecError, Task

LETTERS = "abcdefgh"


class ToySpec(Spec):
    which: Annotated[int, Field(ge=1, le=2)]
    letters: Annotated[str, Field(pattern="^[a-h]{1,2}$")]
    loud: Literal["no", "yes"] = "no"


class Toy(Domain):
    """Letter number `which` of `letters`, as a capital if `loud`."""

    name = "toy"
    Spec = ToySpec
    spec_prompt = (
        'which: 1 or 2; letters: one or two of a to h; loud: no or yes. {"which":2,"letters":"ab","loud":"no"}'
    )
    instructions = "Answer with one letter."

    def make_task(self, spec: Any) -> Task:
        if spec.which > len(spec.letters):
            raise SpecError(f"there is no letter {spec.which} in {spec.letters!r}")
        letter = spec.letters[spec.which - 1]
        loud = " loud" if spec.loud == "yes" else ""
        return Task(spec, f"{' '.join(spec.letters)} : {spec.which}{loud}", letter.upper() if loud else letter)

    def oracle_reply(self, task: Task) -> str:
        return task.answer_key

    def wrong_replies(self, task: Task) -> tuple[str, ...]:
        return ("", task.prompt, *(c for c in LETTERS + LETTERS.upper() if c != task.answer_key))

    def check(self, task: Task, reply: str) -> CheckResult:
        valid = reply.strip().lower() in tuple(LETTERS)
        return CheckResult(float(reply.strip() == task.answer_key), valid, "" if valid else "not a letter")

    def sample(self, rng: np.random.Generator) -> ToySpec:
        length = int(rng.integers(1, 3))
        letters = "".join(rng.choice(list(LETTERS), length))
        return ToySpec(which=int(rng.integers(1, length + 1)), letters=letters, loud=str(rng.choice(["no", "yes"])))  # pyright: ignore

    def sample_easy(self, rng: np.random.Generator) -> ToySpec:
        """Rarely loud."""
        spec = self.sample(rng)
        return spec if rng.random() < 0.2 else spec.model_copy(update={"loud": "no"})

    def features(self, spec: Any) -> dict[str, str]:
        return {"which": str(spec.which), "loud": spec.loud}

    def difficulty(self, spec: Any) -> float:
        return spec.which
