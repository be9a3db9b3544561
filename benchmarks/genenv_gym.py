"""Which generators of reasoning-gym make domains whose scorers can be trusted.

    python benchmarks/genenv_gym.py

Prints Markdown. Each generator is proven on tasks drawn evenly, as it would be before a run: its scorer gives 1 to the
generator's own answer and 0 to known wrong ones, without evaluating any reply as code. Needs `envgen[reasoning-gym]`.
"""

import argparse
from importlib.metadata import version

import numpy as np

from envgen.coevolve.domains.reasoning_gym.domain import ReasoningGymDomain
from envgen.coevolve.domains.reasoning_gym.package import load_factory
from envgen.coevolve.tasks import DomainError, validate
from envgen.runs.tables import markdown_table


def refused(generator: str, tasks: int) -> str:
    """Why it cannot be a domain; nothing if it can."""
    random = np.random.default_rng(0)
    try:
        domain = ReasoningGymDomain(generator)
        validate(domain, (domain.make_task(domain.sample(random)) for _ in range(tasks)))
    except DomainError as error:
        return str(error)
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=20, help="tasks that each is proven on")
    asked = parser.parse_args()
    told = {name: refused(name, asked.tasks) for name in sorted(load_factory().DATASETS)}
    fit = [name for name, why in told.items() if not why]
    print(f"reasoning-gym {version('reasoning-gym')}: {len(fit)} of {len(told)} generators, {asked.tasks} tasks each\n")
    print(
        markdown_table(["refused", "why"], [[name, " ".join(why.split())[:160]] for name, why in told.items() if why])
    )
    print(f"\nTrusted: {', '.join(fit)}.")


if __name__ == "__main__":
    main()
