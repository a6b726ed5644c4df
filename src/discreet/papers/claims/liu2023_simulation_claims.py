"""Claims of liu2023 section 5, decided from the stored simulations at the paper's own 500 repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import inf, sqrt
from statistics import median
from typing import Any

from discreet.papers.paper_claim import Claim, Measured, Rows, compared, votes

__all__ = ["SIMULATION_CLAIMS"]

_REPEATS = 500
_RMSE_ERROR = 1 / sqrt(2 * _REPEATS)
"""Relative standard error of an RMSE over normal errors."""
_SIMILAR = 1.25
"""Methods whose RMSE or width differs by less than a quarter count as similar."""
_MAIN = ((100_000, 100), (1_000_000, 100), (1_000_000, 300), (1_000_000, 700), (1_000_000, 1_000))
_PRIVATE = ("2S", "4S", "4SDD", "6S", "6SDD")
_PAIRED = {0.5: 0.005, 1.0: 0.02, 2.0: 0.08, 5.0: 0.32}
"""Table 2 sets these ε and ρ side by side."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One subsection of section 5.2: a law, with or without effect, with equal or unequal censoring."""

    section: str
    law: str
    different: bool
    symmetric: bool

    def rows(self, rows: Rows, guarantee: str = "ε-DP") -> list[Row]:
        """The subsection's rows on the pairs of the main text."""
        return [
            row
            for row in rows
            if row["law"] == self.law
            and (row["θ"] != 0) == self.different
            and (row["α"] == row["β"]) == self.symmetric
            and row["guarantee"] == guarantee
            and (row["n"], row["P"]) in _MAIN
        ]

    def methods(self) -> tuple[str, ...]:
        """The private methods that the paper draws there, the negative control left out."""
        return (*_PRIVATE, "winsorized", "trimmed") if self.symmetric else _PRIVATE


_CASES = tuple(
    Case(f"5.2.{first + place}", law, different, symmetric)
    for law, first in (("Gaussian", 1), ("ZINB", 5), ("ZILN", 9))
    for place, (symmetric, different) in enumerate(((True, False), (True, True), (False, False), (False, True)))
)


def _settings(rows: Iterable[Row]) -> Iterator[tuple[tuple[int, int, float], dict[str, Row]]]:
    """The methods' rows, setting by setting."""
    found: dict[tuple[int, int, float], dict[str, Row]] = {}
    for row in rows:
        found.setdefault((row["n"], row["P"], row["budget"]), {})[row["method"]] = row
    yield from found.items()


def _ratio(one: float, other: float) -> Measured:
    """A ratio of two RMSEs or widths."""
    value = one / other
    return Measured.of(value, value * sqrt(2) * _RMSE_ERROR)


def _near_the_best(case: Case, method: str, column: str) -> Callable[[Rows], Measured]:
    def measure(rows: Rows) -> Measured:
        ratios = [
            _ratio(by[method][column], min(by[name][column] for name in case.methods()))
            for _, by in _settings(case.rows(rows))
        ]
        return votes(ratios, high=_SIMILAR)

    return measure


def _worst(case: Case, method: str, small: bool) -> Callable[[Rows], Measured]:
    """How often a method has the largest RMSE; ``small`` is P = 100 and ε ≤ 1."""

    def measure(rows: Rows) -> Measured:
        others = [name for name in case.methods() if name != method]
        ratios = [
            _ratio(by[method]["rmse"], max(by[name]["rmse"] for name in others))
            for (_, p, budget), by in _settings(case.rows(rows))
            if not small or (p == 100 and budget <= 1)
        ]
        return votes(ratios, low=1.0)

    return measure


def _below(row: Row) -> bool:
    """Whether a coverage is significantly below 95 %: by three standard errors."""
    return bool(row["coverage"] < 0.95 - 3 * sqrt(0.95 * 0.05 / _REPEATS))


def _undercovered(case: Case, methods: Iterable[str], pairs: Iterable[tuple[int, int]] = _MAIN) -> Any:
    kept, where = tuple(methods), tuple(pairs)

    def measure(rows: Rows) -> Measured:
        found = [row for row in case.rows(rows) if row["method"] in kept and (row["n"], row["P"]) in where]
        return Measured.exact(sum(_below(row) for row in found) / len(found))

    return measure


def _mean_coverage(rows: Iterable[Row], method: str) -> Measured:
    found = [row["coverage"] for row in rows if row["method"] == method]
    error = sqrt(sum(value * (1 - value) / _REPEATS for value in found)) / len(found)
    return Measured.of(sum(found) / len(found), error)


def _naive_against_the_next(case: Case) -> Callable[[Rows], Measured]:
    def measure(rows: Rows) -> Measured:
        here = case.rows(rows)
        others = [_mean_coverage(here, name) for name in case.methods()]
        return compared(_mean_coverage(here, "naive"), min(others, key=lambda one: one.value))

    return measure


def _concentrated(case: Case) -> Callable[[Rows], Measured]:
    """Median over methods and settings of the RMSE under ρ-zCDP over that at the ε beside it in Table 2."""

    def measure(rows: Rows) -> Measured:
        pure = dict(_settings(case.rows(rows)))
        other = dict(_settings(case.rows(rows, "ρ-zCDP")))
        ratios = [
            other[n, p, _PAIRED[budget]][name]["rmse"] / by[name]["rmse"]
            for (n, p, budget), by in pure.items()
            if budget in _PAIRED
            for name in case.methods()
        ]
        return Measured.of(median(ratios), sqrt(2) * _RMSE_ERROR * 1.25 / sqrt(len(ratios)))

    return measure


def _power(case: Case, methods: Iterable[str], pairs: Iterable[tuple[int, int]] = _MAIN) -> Callable[[Rows], Measured]:
    kept, where = tuple(methods), tuple(pairs)

    def measure(rows: Rows) -> Measured:
        found = [row for row in case.rows(rows) if row["method"] in kept and (row["n"], row["P"]) in where]
        least = min(found, key=lambda row: row["rejected"])
        return Measured.proportion(least["rejected"], _REPEATS)

    return measure


def _of(case: Case, claim: str, statistic: str, measure: Any, low: float = -inf, high: float = inf) -> Claim:
    alike = "α = β" if case.symmetric else "α ≠ β"
    effect = "θ ≠ 0" if case.different else "θ = 0"
    return Claim(
        paper="liu2023", place=f"Section {case.section} ({case.law}, {effect}, {alike})", claim=claim,
        statistic=statistic, measure=measure, low=low, high=high, part="simulation",
    )  # fmt: skip


def _best(case: Case) -> Iterator[Claim]:
    """Which method the subsection calls the best."""
    best = "winsorized" if case.symmetric and case.different else "4S"
    called = "The winsorized mean" if best == "winsorized" else "4S"
    for column, words in (("rmse", "RMSE"), ("width", "interval width")):
        yield _of(
            case, f"{called} is the best performer, or similar to the best, in {words}.",
            f"share of 25 settings in which its mean {words} is at most {_SIMILAR} times the least",
            _near_the_best(case, best, column), 0.9,
        )  # fmt: skip


def _covers(case: Case, methods: Iterable[str]) -> Claim:
    names = tuple(methods)
    return _of(
        case, f"{', '.join(names)} provide nominal-level coverage, or slight over-coverage.",
        "share of settings with a coverage significantly below 95 %", _undercovered(case, names), 0.0, 0.02,
    )  # fmt: skip


def _undercovers(case: Case, method: str, pairs: Any = _MAIN, low: float = 0.2, words: str = "") -> Claim:
    return _of(
        case, f"{method} shows significant under-coverage{words}.",
        "share of settings with a coverage significantly below 95 %", _undercovered(case, [method], pairs), low,
    )  # fmt: skip


def _naive_is_worst(case: Case) -> Claim:
    return _of(
        case, "The naïve method is the worst in coverage.", "its mean coverage, minus that of the next",
        _naive_against_the_next(case), high=0.0,
    )  # fmt: skip


def _two_is_worst(case: Case, *, small: bool) -> Claim:
    where = " at P = 100 and ε ≤ 1" if small else ""
    return _of(
        case, f"2S is the worst of the valid methods in RMSE{where}.",
        "share of settings in which no other valid method has a larger RMSE", _worst(case, "2S", small), 0.9,
    )  # fmt: skip


def _powerful(case: Case, methods: Iterable[str], claim: str, pairs: Any = _MAIN) -> Claim:
    return _of(case, claim, "least power over these methods and settings", _power(case, methods, pairs), 0.9)


def _concentrated_is_no_better(case: Case) -> Claim:
    return _of(
        case, "The Gaussian mechanism of ρ-zCDP does not seem to be advantageous compared to the Laplace mechanism.",
        "median RMSE under ρ-zCDP over that at the ε beside it in Table 2 (an advantage of a tenth would be seen)",
        _concentrated(case), 0.9,
    )  # fmt: skip


def _width(case: Case, one: str, other: str, claim: str) -> Claim:
    return _of(
        case, claim, f"median ratio of the widths of {one} and {other}",
        lambda rows: _median_ratio(case.rows(rows), one, other, "width"), high=1.0,
    )  # fmt: skip


def _rmse(case: Case, one: str, other: str, claim: str, high: float = 1.0) -> Claim:
    return _of(
        case, claim, f"median ratio of the RMSEs of {one} and {other}",
        lambda rows: _median_ratio(case.rows(rows), one, other, "rmse"), high=high,
    )  # fmt: skip


def _naive_coverage(case: Case, pair: tuple[int, int]) -> Callable[[Rows], Measured]:
    def measure(rows: Rows) -> Measured:
        found = [
            row["coverage"] for row in case.rows(rows) if row["method"] == "naive" and (row["n"], row["P"]) == pair
        ]
        return Measured.proportion(min(found), _REPEATS)

    return measure


def _said() -> Iterator[Claim]:
    """What each subsection says, in its order."""
    one, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve = _CASES
    valid = ("2S", "6S", "6SDD", "4S", "4SDD")
    yield from (*_best(one), _naive_is_worst(one), _two_is_worst(one, small=False))
    yield _rmse(one, "4SDD", "6S", "4SDD is in the second best group, before 6S and 6SDD.")
    yield _covers(one, (*valid, "winsorized", "trimmed"))
    yield from (*_best(two), _rmse(two, "4S", "winsorized", "4S is similar to the winsorized mean.", _SIMILAR))
    yield _covers(two, ("winsorized", "4S", "trimmed", "2S"))
    yield _undercovers(two, "naive", _MAIN[3:], 0.3, " at n = 1m and P ≥ 700 (for ε ≥ 5)")
    yield _undercovers(two, "4SDD", low=0.8, words=" for almost all cases")
    every = ("2S", "6S", "4S", "4SDD", "winsorized", "trimmed")
    yield _powerful(two, every, "All methods except 6SDD (at n = 100k, P = 100) provide power close to 1.")
    yield from (*_best(three), _naive_is_worst(three), _covers(three, valid))
    for name in ("4SDD", "6S", "6SDD"):
        yield _rmse(three, name, "2S", f"{name} is superior or not inferior to 2S in RMSE.")
    yield from (*_best(four), _covers(four, ("4S", "6S", "2S")))
    yield _of(
        four, "The coverage of the naïve method approaches 0 at n = 1m as P increases.",
        "least coverage at n = 1m, P = 1000", _naive_coverage(four, (1_000_000, 1_000)), high=0.05,
    )  # fmt: skip
    for name in ("4SDD", "6S", "6SDD"):
        yield _width(four, "2S", name, f"2S provides narrower intervals than {name}.")
    yield from (_undercovers(four, name, _MAIN[:2], words=" at P = 100") for name in ("4SDD", "6SDD"))
    yield _powerful(four, every[:4], "All methods except 6SDD (at n = 100k, P = 100) provide power close to 1.")
    yield from (*_best(five), _naive_is_worst(five), _two_is_worst(five, small=True))
    yield _covers(five, (*valid, "winsorized", "trimmed"))
    yield _rmse(five, "trimmed", "winsorized", "Trimmed and winsorized means are quite similar.", _SIMILAR)
    yield from (*_best(six), _covers(six, ("2S", "6S", "4S", "winsorized", "trimmed", "naive")))
    yield from (_undercovers(six, name) for name in ("4SDD", "6SDD"))
    remaining = "All methods provide power close to 1 at n = 1m and P ≥ 300."
    yield _powerful(six, (*every, "6SDD"), remaining, _MAIN[2:])
    yield from (*_best(seven), _naive_is_worst(seven), _two_is_worst(seven, small=True), _covers(seven, valid))
    yield _rmse(seven, "4SDD", "4S", "4S is followed closely by 4SDD.", _SIMILAR)
    yield from (*_best(eight), _naive_is_worst(eight), _covers(eight, ("4S", "6S", "2S")))
    yield from (_undercovers(eight, name) for name in ("4SDD", "6SDD"))
    yield _rmse(eight, "4S", "2S", "4S significantly outperforms the others: 2S.", 0.8)
    yield _rmse(eight, "4S", "6S", "4S significantly outperforms the others: 6S.", 0.8)
    yield from (*_best(nine), _naive_is_worst(nine), _two_is_worst(nine, small=False))
    yield _covers(nine, (*valid, "winsorized", "trimmed"))
    yield from (*_best(ten), _two_is_worst(ten, small=False))
    yield _covers(ten, ("2S", "6S", "4S", "winsorized", "trimmed"))
    yield from (_undercovers(ten, name) for name in ("4SDD", "6SDD"))
    yield _powerful(ten, (*every[1:], "6SDD"), "All methods provide power close to 1 except for 2S.")
    yield from (*_best(eleven), _naive_is_worst(eleven), _covers(eleven, valid))
    yield _rmse(eleven, "4SDD", "4S", "4S is followed closely by 4SDD.", _SIMILAR)
    yield from (*_best(twelve), _naive_is_worst(twelve), _covers(twelve, ("4S", "6S", "2S")))
    yield from (_undercovers(twelve, name) for name in ("4SDD", "6SDD"))
    yield _powerful(twelve, ("4S", "4SDD", "6S", "6SDD"), "All methods can provide power close to 1 except for 2S.")
    yield from (_concentrated_is_no_better(case) for case in _CASES)


def _all(
    place: str, claim: str, statistic: str, measure: Callable[[Rows], Measured], low: float = -inf, high: float = inf
) -> Claim:
    return Claim(
        paper="liu2023", place=place, claim=claim, statistic=statistic, measure=measure, low=low, high=high,
        part="simulation",
    )  # fmt: skip


def _median_ratio(rows: Iterable[Row], one: str, other: str, column: str) -> Measured:
    ratios = [by[one][column] / by[other][column] for _, by in _settings(rows)]
    return Measured.of(median(ratios), sqrt(2) * _RMSE_ERROR * 1.25 / sqrt(len(ratios)) * median(ratios))


def _over_cases(rows: Rows, one: str, other: str, column: str, cases: Iterable[Case] = _CASES) -> Measured:
    """The largest, over cases, of the median ratio of two methods."""
    found = [_median_ratio(case.rows(rows), one, other, column) for case in cases]
    return max(found, key=lambda ratio: ratio.value)


def _small(rows: Rows, column: str, one: str, other: str, most: float = 1.0) -> Measured:
    """The ratio for n = 100k, P = 100 and ε ≤ ``most``, over the cases with equal censoring, ZINB and ZILN."""
    kept = [
        row
        for case in _CASES
        if case.symmetric and case.law != "Gaussian"
        for row in case.rows(rows)
        if row["n"] == 100_000 and row["budget"] <= most
    ]
    ratios = [
        by[one][column] / by[other][column]
        for law in ("ZINB", "ZILN")
        for different in (False, True)
        for _, by in _settings(row for row in kept if row["law"] == law and (row["θ"] != 0) == different)
    ]
    value = sum(ratios) / len(ratios)
    return Measured.of(value, sqrt(2) * _RMSE_ERROR / sqrt(len(ratios)) * value)


def _converged(rows: Rows) -> Measured:
    """How far the RMSE of 4S at ε = 50 is from that without privacy, over cases and the main pairs."""
    ratios = [
        _ratio(by["4S"]["rmse"], by["original"]["rmse"])
        for case in _CASES
        if case.symmetric
        for (_, _, budget), by in _settings(case.rows(rows))
        if budget == 50.0
    ]
    return votes(ratios, high=_SIMILAR)


def _naive_forms(rows: Rows) -> Measured:
    ratios = [
        _ratio(by[name]["rmse"], by["naive"]["rmse"])
        for case in _CASES
        for _, by in _settings(case.rows(rows))
        for name in ("naiveDD", "naive5", "naive5DD")
    ]
    return votes(ratios, low=1 / _SIMILAR, high=_SIMILAR)


def _rate(rows: Rows) -> Measured:
    """P·E(θ̂ − θ)² of 4S at ε = 50 in units of a partition's variance, largest over P ≥ 1000 on normal data."""
    found = [
        row["rmse"] ** 2 * row["n"] / (2 * 6.0**2)
        for row in rows
        if row["law"] == "Gaussian" and row["guarantee"] == "ε-DP" and row["method"] == "4S"
        and row["budget"] == 50.0 and row["P"] >= 1_000
    ]  # fmt: skip
    return Measured.of(max(found), 2 * _RMSE_ERROR * max(found))


SIMULATION_CLAIMS: tuple[Claim, ...] = (
    _all(
        "Section 5.2", "4S has a smaller RMSE than 2S, 6S, 6SDD and 4SDD.",
        "largest median ratio of the RMSE of 4S to one of these, over twelve cases",
        lambda rows: max(
            (_over_cases(rows, "4S", other, "rmse") for other in ("2S", "6S", "6SDD", "4SDD")), key=lambda r: r.value
        ),
        high=1.0,
    ),
    _all(
        "Section 5.2", "4S has narrower intervals than 2S, 6S, 6SDD and 4SDD.",
        "largest median ratio of the mean width of 4S to one of these, over twelve cases",
        lambda rows: max(
            (_over_cases(rows, "4S", other, "width") for other in ("2S", "6S", "6SDD", "4SDD")), key=lambda r: r.value
        ),
        high=1.0,
    ),
    _all(
        "Section 5.2", "The winsorized mean yields slightly narrower intervals than 4S for ZINB and ZILN at n = 100k, "
        "P = 100, α = β.", "mean ratio of the widths over the five ε",
        lambda rows: _small(rows, "width", "winsorized", "4S", 50.0), high=1.0,
    ),
    _all(
        "Section 5.2", "… and so does the trimmed mean.", "mean ratio of the widths over the five ε",
        lambda rows: _small(rows, "width", "trimmed", "4S", 50.0), high=1.0,
    ),
    _all(
        "Section 5.2", "The other three naïve forms perform similarly to the one that is shown.",
        f"share of settings in which their RMSE is within a factor of {_SIMILAR}", _naive_forms, 0.9,
    ),
    _all(
        "Section 5.1", "At ε = 50 the private inferences come close to the original ones.",
        f"share of settings in which the RMSE of 4S is at most {_SIMILAR} times that without privacy", _converged, 0.9,
    ),
    _all(
        "Section 7", "For α = β, n ≤ 100k and ε ≤ 1 the winsorized mean performs slightly better than 4S.",
        "mean ratio of the RMSEs at n = 100k, P = 100, ε ≤ 1, ZINB and ZILN",
        lambda rows: _small(rows, "rmse", "winsorized", "4S"), high=1.0,
    ),
    _all(
        "Theorem 6", "The mean squared error of the likelihood-based estimators is O(P⁻¹) for a constant ε.",
        "P·MSE over a partition's variance, 4S, ε = 50, largest over P = 1000 to 100,000", _rate, high=1.5,
    ),
    *_said(),
)  # fmt: skip
