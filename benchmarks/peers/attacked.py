"""Draws of a function on two neighbouring inputs, printed for an auditor in another environment."""

import json
import math

NO_NUMBER = -1e300
"""What stands for an answer that is not a number, and for an error: both are outcomes."""


def number(value):
    """A float in full, with one outcome for everything that is not a number."""
    value = float(value)
    return (value if math.isfinite(value) else NO_NUMBER).hex()


def tell(library, name, neighbours, claim, ask, here, there, draws):
    """Ask the same question of two data sets again and again; ``ask`` returns one number or several."""
    sides = []
    for data in (here, there):
        rows = []
        for _ in range(draws):
            try:
                answer = ask(data)
            except (ValueError, ZeroDivisionError, ArithmeticError, RuntimeError):
                answer = NO_NUMBER
            rows.append([number(one) for one in (answer if isinstance(answer, list | tuple) else [answer])])
        width = max(map(len, rows))
        sides.append([row + row[-1:] * (width - len(row)) for row in rows])
    width = max(len(side[0]) for side in sides)
    here, there = ([row + row[-1:] * (width - len(row)) for row in side] for side in sides)
    told = {"library": library, "name": name, "neighbours": neighbours, "claim": claim, "here": here, "there": there}
    print(json.dumps(told), flush=True)
