"""Choose bounds and ε before any data is touched: what would each choice cost in accuracy?"""

from __future__ import annotations

from discreet import Neighbours, PureDP
from discreet.mechanisms import Laplace
from discreet.plans.advice import advise
from discreet.questions import Mean

ROWS = 4000


def main() -> None:
    """A table of expected errors, what ε means to an attacker, and whether a sample would help."""
    print(f"Error of a mean of {ROWS:,} incomes, exceeded once in 20 releases\n")
    limits = (100_000, 250_000, 1_000_000)
    print(f"{'ε':>5}" + "".join(f"{f'up to {limit:,}':>18}" for limit in limits) + f"{'attacker':>12}")
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        errors = []
        for limit in limits:
            moved = Mean(bounds=(0, limit)).sensitivity(n=ROWS, neighbours=Neighbours.REPLACE_ONE)
            errors.append(float(Laplace.calibrate(PureDP(epsilon), moved).error(0.95)))
        found = 1 - PureDP(epsilon).tradeoff(0.05)
        print(f"{epsilon:>5}" + "".join(f"{error:>18,.0f}" for error in errors) + f"{found:>11.0%} ")
    print("\nattacker: how often somebody with 5 % false alarms recognises a person, at most\n")
    print(advise("mean", ROWS, PureDP(0.5), bounds=(0, 250_000), expected_sd=40_000))


if __name__ == "__main__":
    main()
