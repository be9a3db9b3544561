"""How often the paper's difficulty filter accepts a task, and how often GRPO learns anything from it.

    python benchmarks/genenv_filter.py

Prints Markdown. A task of true success rate p is answered n times; it is accepted if the rate that is seen is within
k_min of alpha. Beside it the chance that n replies do not all score the same, so that GRPO has a gradient.
"""

import argparse

from envgen.coevolve.reward import acceptance
from envgen.coevolve.settings import Curriculum

REPLIES = (4, 8, 16)
RATES = [k / 20 for k in range(1, 20)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alpha", type=float, default=0.5)
    parser.add_argument("--k-min", type=float, default=0.1)
    asked = parser.parse_args()
    curriculum = Curriculum(alpha=asked.alpha, filter=asked.k_min)
    heads = [f"accepted, n={n}" for n in REPLIES] + [f"signal, n={n}" for n in REPLIES]
    print(f"alpha {asked.alpha:g}, k_min {asked.k_min:g}\n")
    print("| p | " + " | ".join(heads) + " |")
    print("|---:" * (1 + len(heads)) + "|")
    for p in RATES:
        accepted = [acceptance(n, p, curriculum) for n in REPLIES]
        signal = [1 - p**n - (1 - p) ** n for n in REPLIES]
        print(f"| {p:.2f} | " + " | ".join(f"{chance:.3f}" for chance in accepted + signal) + " |")


if __name__ == "__main__":
    main()
