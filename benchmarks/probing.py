"""Probes: small programs that find out what a library does. Standard library only: peers' environments use it too.

A probe returns a verdict (yes, partly or no) and a few words, or a number and its words. It must run what it says yes
to; a no must come from a search of all public names, or from a call that failed.
"""

import importlib
import json
import math
import pkgutil
import re
import sys
from collections.abc import Callable
from typing import Any

AWKWARD = ("no bounds", "reversed bounds", "no rows", "a missing value", "ε = 0", "ε = −1", "ε = NaN")
"""What the probe of awkward inputs tries, in this order."""

Answer = tuple[str, str]


def yes(words: str = "") -> Answer:
    """It does."""
    return "yes", words


def partly(words: str) -> Answer:
    """It does some of it."""
    return "partly", words


def no(words: str = "") -> Answer:
    """It does not."""
    return "no", words


def number(value: float, words: str = "") -> Answer:
    """A figure, to three digits."""
    return f"{value:.3g}", words


def public_names(package: str, pattern: str) -> list[str]:
    """Public names that match, of a package and of all its modules that can be imported."""
    found = set()
    wanted = re.compile(pattern, re.IGNORECASE)
    root = importlib.import_module(package)
    modules = [package, *(info.name for info in pkgutil.walk_packages(root.__path__, package + ".", lambda _: None))]
    for name in modules:
        if any(part.startswith("_") for part in name.split(".")):
            continue
        try:
            module = importlib.import_module(name)
        except BaseException:  # an extra that is not installed
            continue
        found |= {f"{name}.{one}" for one in dir(module) if not one.startswith("_") and wanted.search(one)}
    return sorted(found)


def absent(package: str, pattern: str, control: str) -> Answer:
    """No, because nothing public has such a name; the control shows that the search works."""
    assert public_names(package, control), f"the search of {package} finds nothing"
    found = public_names(package, pattern)
    assert not found, f"{package} may have it: {found}"
    return no()


def refused(call: Callable[[], Any]) -> str | None:
    """The kind of error a call raises, or None."""
    try:
        call()
    except Exception as problem:
        return type(problem).__name__
    return None


def awkward(calls: list[Callable[[], Any]], *, fine: tuple[str, ...] = ()) -> Answer:
    """How many awkward inputs end in an error or a finite private answer; those in ``fine`` may answer.

    A call must return a plain number. An answer without bounds, with reversed bounds or without a valid ε is no
    answer: the guarantee that was asked for does not exist.
    """
    failed = []
    for name, call in zip(AWKWARD, calls, strict=True):
        try:
            answer = float(call())
        except Exception:
            continue
        if name not in fine or not math.isfinite(answer):
            failed.append(name)
    done = len(AWKWARD) - len(failed)
    return f"{done} of {len(AWKWARD)}", f"all but {', '.join(failed)}" if failed else ""


def impossible(draw: Callable[[float], float], draws: int = 20_000) -> Answer:
    """Share of outputs for the truth 0 that the truth 1 can never give (mironov2012), for Laplace noise of scale 1.

    Outputs in [1/8, 1/4) are compared: doubles there are multiples of 2⁻⁵⁵. The finest step on which all outputs of
    the truth 1 lie is found, and outputs of the truth 0 off that step are counted.
    """
    zero, one = ([x for x in (draw(truth) for _ in range(draws)) if 1 / 8 <= x < 1 / 4] for truth in (0.0, 1.0))
    assert min(len(zero), len(one)) > draws / 100
    wholes = [int(math.ldexp(x, 55)) for x in one]
    step = math.gcd(*wholes)
    share = sum(int(math.ldexp(x, 55)) % step != 0 for x in zero) / len(zero)
    return ("none" if share == 0 else f"{100 * share:.0f} %"), ""


def tell(version: str, probes: dict[str, Callable[[], Answer]]) -> None:
    """Run the probes and print what they found for the process that asked."""
    found = {}
    for name, probe in probes.items():
        try:
            verdict, words = probe()
        except BaseException:
            print(f"the probe {name!r} failed", file=sys.stderr)
            raise
        found[name] = {"verdict": verdict, "words": words}
    print(json.dumps({"version": version, "features": found}))
