"""How often the paper's difficulty filter accepts a task, and how often GRPO has a gradient from it.

    python benchmarks/genenv_filter.py

Prints Markdown. A task of true success rate p is answered n times; it is accepted if the observed rate is within k_min
of alpha. GRPO has a gradient if the n replies do not all have the same score.
"""

import argparse

from envgen.coevolution.reward import acceptance_rate
from envgen.coevolution.settings import AlphaCurriculumSettings
from envgen.runs.tables import markdown_table

NUM_REPLIES = (4, 8, 16)
SUCCESS_RATES = [k / 20 for k in range(1, 20)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alpha", type=float, default=0.5)
    parser.add_argument("--k-min", type=float, default=0.1)
    args = parser.parse_args()
    curriculum = AlphaCurriculumSettings(alpha=args.alpha, filter_tolerance=args.k_min)
    rows = []
    for p in SUCCESS_RATES:
        accepted = [acceptance_rate(n, p, curriculum) for n in NUM_REPLIES]
        has_gradient = [1 - p**n - (1 - p) ** n for n in NUM_REPLIES]
        rows.append([f"{p:.2f}", *(f"{probability:.3f}" for probability in accepted + has_gradient)])
    header = ["p", *(f"accepted, n={n}" for n in NUM_REPLIES), *(f"gradient, n={n}" for n in NUM_REPLIES)]
    print(f"alpha {args.alpha:g}, k_min {args.k_min:g}\n")
    print(markdown_table(header, rows))


if __name__ == "__main__":
    main()
