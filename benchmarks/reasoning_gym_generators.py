"""List the generators of reasoning-gym whose scorers can be trusted, and the problems of the others.

    pip install '.[reasoning-gym]'
    python benchmarks/reasoning_gym_generators.py

Prints Markdown. Each generator is validated on uniform tasks, as before a run: its scorer must give 1 to the
generator's own answer and 0 to known wrong ones, and must not execute any reply as code.
"""

import argparse
from importlib.metadata import version

import numpy as np

from envgen.coevolution.domains.reasoning_gym.domain import ReasoningGymDomain
from envgen.coevolution.domains.reasoning_gym.package import load_factory
from envgen.coevolution.tasks import DomainError, validate
from envgen.runs.tables import markdown_table


def find_problem(generator: str, num_tasks: int) -> str:
    """Why a generator cannot be a domain; empty if it can."""
    rng = np.random.default_rng(0)
    try:
        domain = ReasoningGymDomain(generator)
        validate(domain, (domain.make_task(domain.sample(rng)) for _ in range(num_tasks)))
    except DomainError as error:
        return str(error)
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=20, help="tasks on which each generator is validated")
    args = parser.parse_args()
    problems = {name: find_problem(name, args.tasks) for name in sorted(load_factory().DATASETS)}
    trusted = [name for name, problem in problems.items() if not problem]
    print(
        f"reasoning-gym {version('reasoning-gym')}: {len(trusted)} of {len(problems)} generators, "
        f"{args.tasks} tasks each\n"
    )
    rows = [[name, " ".join(problem.split())[:160]] for name, problem in problems.items() if problem]
    print(markdown_table(["refused", "reason"], rows))
    print(f"\nTrusted: {', '.join(trusted)}.")


if __name__ == "__main__":
    main()
