"""The corpus of known bugs: real ones of this field, from their public descriptions, each as a small re-creation.

Some are planted among the other faults and listed here by name; the rest follow below. `CORPUS` says of each where such
a bug was described.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np

import tests.planted_session_faults  # noqa: F401  (plants its own)
from discreet import Ledger, Neighbours, PureDP
from discreet.audit.catalogue import _mixed
from discreet.audit.exact_losses import audit_cells
from discreet.audit.ledgers import audit_ledger_programs
from discreet.core.protection import Protection
from discreet.mechanisms import Laplace
from discreet.mechanisms.omission.amplification import poisson_sampling
from tests.planted_faults import FAULTS, Finding, drawn, exact, fault, measured, replayed

__all__ = ["CORPUS", "FAULTS"]

REPLACED = {"protection": Protection(neighbours=Neighbours.REPLACE_ONE)}


@fault("a sample without replacement charged as one with")
def _() -> Finding:
    """One of two rows, each −1 or 1, is drawn: a replaced row moves what is kept by two."""
    claim = poisson_sampling(PureDP(1.0), 0.5)
    both, mixed = np.array([0.0, 0.0, 1.0]), np.array([0.5, 0.0, 0.5])  # chances of the sums −1, 0 and 1
    return exact(audit_cells(claim, [_mixed(both, mixed, Laplace(1.0))]))


@fault("class means of naive Bayes with the noise of the mean of all rows")
def _() -> Finding:
    def mean_of_class(rows: list[tuple[str, float]]) -> float:
        own = [value for label, value in rows if label == "a"]
        return sum(own) / len(own)

    here = [("a", 0.0), ("b", 0.0), ("b", 0.0), ("b", 0.0)]
    return replayed(measured(mean_of_class, 1 / 4, **REPLACED), (here, [("a", 1.0), *here[1:]]))


@fault("a regression whose responses are not clipped")
def _() -> Finding:
    def products(rows: list[tuple[float, float]]) -> float:
        return float(sum(min(max(x, 0.0), 1.0) * y for x, y in rows))

    return replayed(measured(products, 1.0), ([(1.0, 0.5)], [(1.0, 0.5), (1.0, 4.0)]))


@fault("a regression that centres on the means of its data")
def _() -> Finding:
    def products(rows: list[float]) -> float:
        return float(sum((x - np.mean(rows)) ** 2 for x in rows)) if rows else 0.0

    return replayed(measured(products, 0.25), ([0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]))


@fault("a budget that is shown as spent to zero after two spends")
def _() -> Finding:
    original = Ledger.spent

    def spent(self: Any) -> Any:
        return (
            type(original(self))(*[0.0] * len(original(self).parameters()))
            if len(self.events()) >= 2
            else original(self)
        )

    with patch.object(Ledger, "spent", spent):
        found = audit_ledger_programs(programs=1, steps=10).findings
    return Finding("ledger", "as the model", found[0] if found else "agree", bool(found))


@fault("sparse vector technique without noise on its queries")
def _() -> Finding:
    def answers(queries: tuple[float, ...]) -> Any:
        def draw(n: int) -> Any:
            threshold = np.asarray(Laplace(1.0).law(0.5).sample(n))
            return np.column_stack([query >= threshold for query in queries]).astype(float)

        return draw

    return drawn(PureDP(1.0), answers((0.0, 1.0)), answers((1.0, 0.0)))


@fault("sparse vector technique that pays for one query of eight")
def _() -> Finding:
    def answers(queries: tuple[float, ...]) -> Any:
        def draw(n: int) -> Any:
            return np.column_stack([np.asarray(Laplace(1.0).law(query).sample(n)) >= 0 for query in queries]).astype(
                float
            )

        return draw

    return drawn(PureDP(1.0), answers((0.0,) * 8), answers((1.0,) * 8), 60_000)


CORPUS: dict[str, str] = {
    "a biased integer sampler": "a big-number library whose random integers were biased",
    "the last bit of a vector is never randomised": "randomised response in a published library",
    "a max that returns the min": "report noisy max in a published library",
    "Laplace noise in floating point": "Mironov 2012",
    "Gaussian noise in floating point": "Jin et al. 2022",
    "a grid that follows the secret value": "snapping with a data-dependent precision, Jin et al. 2022",
    "float sum in the order of the rows": "Casacuberta et al. 2022",
    "integer sum that wraps": "Casacuberta et al. 2022",
    "NaN passes a clamp": "several libraries",
    "a sample without replacement charged as one with": "amplification theorems applied to the wrong neighbours",
    "bounded law without its normaliser in the calibration": "Holohan et al. 2020, of earlier ones",
    "truncated Laplace with liu2019's scale (E1)": "errata of this project",
    "the number of rows leaks as a public fact": "means of a private number of rows",
    "a grouped mean whose counts are published as they are": "means of a private number of rows",
    "class means of naive Bayes with the noise of the mean of all rows": "naive Bayes in a published library",
    "a regression whose responses are not clipped": "linear regression in a published library",
    "a regression that centres on the means of its data": "linear regression in a published library",
    "a budget that is shown as spent to zero after two spends": "an accountant in a published library",
    "sparse vector technique without noise on its queries": "Lyu, Su and Li 2017",
    "sparse vector technique that pays for one query of eight": "Lyu, Su and Li 2017",
    "sensitivity of clipped data, sum of raw data": "several libraries",
    "a bound read from the data": "defaults of several libraries",
    "domain inferred from the data": "defaults of several libraries",
    "groups that nobody is in are left out": "histograms of early libraries",
    "a threshold on the exact count": "small-count rules before noise",
    "exponential mechanism without the 2": "a common slip",
    "two quantiles, each with the whole ε": "a common slip",
    "classical Gaussian scale at ε = 8": "the classical calibration beyond ε = 1, Balle and Wang 2018",
    "discrete Gaussian claimed as μ-GDP": "notes on exact noise",
    "bisection that stops just below the right scale": "calibration by bisection in a published library",
    "Poisson sampling with a public sample": "amplification of a sample that is published",
    "overlapping groups charged in parallel": "parallel composition of overlapping queries",
    "a seed used for every release": "seeds left in production",
    "entropy shared after a fork": "generators with state, copied by fork",
    "the global random state": "noise from a global generator",
    "bounded noise by rejection": "timing of rejection loops",
    "work that grows with the count": "timing of geometric samplers, Ratliff and Vadhan 2024",
    "a budget checked, then spent": "a race between processes",
    "a quantile that crashes on an empty column": "quantiles that fail on duplicates or on nothing",
}
"""Known bug, and where such a bug was described."""
