"""How often rounding makes a calibrated mechanism weaker than it claims: evaluated with mpmath, apart from the library.

Every guarantee kind, ordinary and extreme parameters, Laplace (one shift, and a record that moves between two
cells) and Gaussian noise. A *violation* is a scale whose true parameter exceeds the claim.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable

import mpmath  # type: ignore[import-untyped]
import numpy as np

from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.gaussian import gaussian_scale
from discreet.mechanisms.laplace import laplace_scale

TABLE = Sensitivity(moves=(1, 1))
_PLACES = 50


def _claim(number: float) -> mpmath.mpf:
    return mpmath.mpf(repr(number))


def _gaussian_delta(mu: mpmath.mpf, epsilon: mpmath.mpf) -> mpmath.mpf:
    first = mpmath.ncdf(mu / 2 - epsilon / mu)
    return first - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def _table_delta(t: mpmath.mpf, epsilon: mpmath.mpf) -> mpmath.mpf:
    """δ(ε) of the trade-off function lee2022 (14) at (t, −t)."""
    return 1 - mpmath.exp(epsilon / 2 - t) * (4 + 2 * t - epsilon) / 4 if epsilon < 2 * t else mpmath.mpf(0)


def laplace_is_weaker(guarantee: Guarantee, scale: float, size: float) -> bool:
    """Whether Laplace noise of this scale on one coordinate breaks the claim."""
    t = mpmath.mpf(size) / mpmath.mpf(scale)
    if isinstance(guarantee, PureDP):
        return bool(t > _claim(guarantee.epsilon))
    if isinstance(guarantee, ApproxDP):
        return bool(1 - mpmath.exp((_claim(guarantee.epsilon) - t) / 2) > _claim(guarantee.delta))
    if isinstance(guarantee, GaussianDP):
        return bool(mpmath.ncdf(-_claim(guarantee.mu) / 2) > mpmath.exp(-t / 2) / 2)
    assert isinstance(guarantee, ZeroConcentratedDP)
    return bool(t + mpmath.expm1(-t) > _claim(guarantee.rho))


def gaussian_is_weaker(guarantee: Guarantee, scale: float, size: float) -> bool:
    """Whether Gaussian noise of this standard deviation breaks the claim."""
    mu = mpmath.mpf(size) / mpmath.mpf(scale)
    if isinstance(guarantee, ApproxDP):
        return bool(_gaussian_delta(mu, _claim(guarantee.epsilon)) > _claim(guarantee.delta))
    if isinstance(guarantee, GaussianDP):
        return bool(mu > _claim(guarantee.mu))
    assert isinstance(guarantee, ZeroConcentratedDP)
    return bool(mu**2 / 2 > _claim(guarantee.rho))


def table_is_weaker(guarantee: Guarantee, scale: float, size: float) -> bool:
    """Whether Laplace noise of this scale on a table breaks the claim for a record that changes its cell."""
    t = mpmath.mpf(size) / mpmath.mpf(scale)
    if isinstance(guarantee, PureDP):
        return bool(2 * t > _claim(guarantee.epsilon))
    if isinstance(guarantee, ApproxDP):
        return bool(_table_delta(t, _claim(guarantee.epsilon)) > _claim(guarantee.delta))
    if isinstance(guarantee, ZeroConcentratedDP):
        return bool(2 * (t + mpmath.expm1(-t)) > _claim(guarantee.rho))
    assert isinstance(guarantee, GaussianDP)
    mu, grid = _claim(guarantee.mu), [2 * t * j / 40 for j in range(40)]
    return any(_table_delta(t, epsilon) > _gaussian_delta(mu, epsilon) for epsilon in grid)


Kind = Callable[[np.random.Generator], Guarantee]


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


_KINDS: dict[str, Kind] = {
    "PureDP": lambda rng: PureDP(_log_uniform(rng, 1e-4, 20)),
    "ApproxDP": lambda rng: ApproxDP(_log_uniform(rng, 1e-4, 20), _log_uniform(rng, 1e-14, 0.3)),
    "ZeroConcentratedDP": lambda rng: ZeroConcentratedDP(_log_uniform(rng, 1e-6, 20)),
    "GaussianDP": lambda rng: GaussianDP(_log_uniform(rng, 1e-3, 8)),
}


def check(count: int, seed: int = 1) -> tuple[Counter[str], Counter[str]]:
    """Settings and violations, by noise and kind, over ``count`` random settings."""
    rng = np.random.default_rng(seed)
    seen: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    names = list(_KINDS)
    with mpmath.workdps(_PLACES):
        for i in range(count):
            name = names[i % len(names)]
            guarantee, size = _KINDS[name](rng), _log_uniform(rng, 1e-3, 1e3)
            noise = ("Laplace", "Gaussian", "table")[(i // len(names)) % 3]
            if noise == "Gaussian" and name == "PureDP":
                noise = "Laplace"
            if noise == "table" and name == "GaussianDP" and i % 25:  # the certified search takes longer
                noise = "Gaussian"
            if noise == "table":
                moved = Sensitivity(moves=(size, size))
                wrong = table_is_weaker(guarantee, laplace_scale(guarantee, moved), size)
            elif noise == "Laplace":
                wrong = laplace_is_weaker(guarantee, laplace_scale(guarantee, Sensitivity(l1=size)), size)
            else:
                wrong = gaussian_is_weaker(guarantee, gaussian_scale(guarantee, Sensitivity(l2=size)), size)
            label = f"{noise} {name}"
            seen[label] += 1
            broken[label] += wrong
    return seen, broken


def main() -> None:
    """Print one row per noise and kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=12_000)
    seen, broken = check(parser.parse_args().count)
    print(f"{'calibration':28} {'settings':>9} {'violations':>11} {'target':>7}  met")
    for label in sorted(seen):
        print(f"{label:28} {seen[label]:9} {broken[label]:11} {0:7}  {'yes' if not broken[label] else 'NO'}")
    print(f"{'all':28} {seen.total():9} {broken.total():11} {0:7}  {'yes' if not broken.total() else 'NO'}")


if __name__ == "__main__":
    main()
