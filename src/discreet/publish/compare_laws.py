"""Compare mechanisms at the same guarantee: the bias, variance and error of their noise, and their privacy curves."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.noise.sampler import float_truth
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.mechanism import Mechanism
from discreet.results.charts import drawing_library, offline
from discreet.results.display import Facts, number
from discreet.results.frames import Row, Tidy

Make = Callable[[Guarantee, Sensitivity], Mechanism]
_PLACES, _KNOTS = 21, 25
_LEAST_DELTA = 1e-6
"""The privacy curves are drawn as far as the slowest of them takes to fall to this δ."""
_PANELS = {"bias": "bias", "variance": "variance", "mse": "mean squared error", "delta": "δ(ε)"}


@dataclass(frozen=True)
class LawComparison(Tidy):
    """Several mechanisms, each calibrated to one guarantee, side by side.

    Attributes
    ----------
    guarantee, sensitivity
        What all of them meet, and for which change of the statistic.
    mechanisms
        The calibrated mechanisms by name.
    table
        One row per number: ``mechanism``, ``measure`` (bias, variance, mse, delta, cost or largest cost), ``at`` (the
        true value, or ε for delta) and ``value``. The cost is the mean squared error, averaged over the true values.
    """

    guarantee: Guarantee
    sensitivity: Sensitivity
    mechanisms: Mapping[str, Mechanism]
    table: tuple[Row, ...] = field(repr=False)

    def rows(self) -> list[Row]:
        """One row per number."""
        return [dict(row) for row in self.table]

    def cost(self, mechanism: str) -> float:
        """The mean squared error of one mechanism, averaged over the true values."""
        return self._one(mechanism, "cost")

    def _one(self, mechanism: str, measure: str) -> float:
        if mechanism not in self.mechanisms:
            raise InvalidParameter(
                "mechanism", mechanism, f"must be one of {list(self.mechanisms)}", "Check the spelling."
            )
        found = (row["value"] for row in self.table if (row["mechanism"], row["measure"]) == (mechanism, measure))
        return float(next(found))

    def heading(self) -> str:
        return f"{len(self.mechanisms)} mechanisms at {self.guarantee}, {self.sensitivity}"

    def facts(self) -> Facts:
        cheapest = sorted(self.mechanisms, key=self.cost)
        return [
            (name, f"cost {number(self.cost(name))}, at most {number(self._one(name, 'largest cost'))}")
            for name in cheapest
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {
            "guarantee": self.guarantee.to_dict(),
            "sensitivity": self.sensitivity.to_dict(),
            "mechanisms": {name: one.to_dict() for name, one in self.mechanisms.items()},
            "rows": self.rows(),
        }

    def plot(self) -> Any:
        """Altair chart: bias, variance and mean squared error by true value, and the privacy curves."""
        alt = drawing_library()
        panels = []
        for measure, title in _PANELS.items():
            rows = [row for row in self.table if row["measure"] == measure]
            if measure == "delta":
                rows = [row for row in rows if row["value"] > 0]  # the axis is logarithmic
            one_place = len({row["at"] for row in rows}) == 1
            x = alt.X("mechanism:N", title=None) if one_place else alt.X("at:Q", title=_axis(measure))
            scale = alt.Scale(type="log") if measure == "delta" else alt.Undefined
            y = alt.Y("value:Q", title=title, scale=scale)
            base = alt.Chart(alt.InlineData(values=rows))
            drawn = base.mark_bar() if one_place else base.mark_line()
            shape = {} if one_place else {"strokeDash": alt.StrokeDash("mechanism:N", title=None)}
            panels.append(
                drawn.encode(x=x, y=y, color=alt.Color("mechanism:N", title=None), **shape).properties(
                    width=260, height=180
                )
            )
        return offline(alt.concat(*panels, columns=2).properties(title=self.heading()))


def _axis(measure: str) -> str:
    return "ε" if measure == "delta" else "true value"


def compare_laws(
    mechanisms: Mapping[str, Any] | Sequence[Any],
    *,
    guarantee: Guarantee,
    sensitivity: Sensitivity,
    bounds: tuple[float, float] | None = None,
    truths: Sequence[Any] | None = None,
    epsilons: Sequence[float] | None = None,
) -> LawComparison:
    """Tabulate bias, variance, mean squared error, privacy curve and cost of mechanisms at the same guarantee.

    Reads no data: everything follows from the exact distributions and privacy curves.

    Parameters
    ----------
    mechanisms
        A list of mechanism classes, or a dictionary from names to classes, to ready mechanisms, or to functions of
        (guarantee, sensitivity) that make one. Classes are calibrated to the guarantee, and get the bounds if they take
        them. A ready mechanism that does not meet the guarantee is refused.
    guarantee, sensitivity
        What every mechanism must meet, and for which change of the statistic.
    bounds
        The domain of the statistic.
    truths
        True values at which to compare: numbers, or tables (lists of numbers), whose squared errors are added up. By
        default 21 places from one bound to the other; 0 where there are no bounds. An open end needs truths.
    epsilons
        Where to evaluate δ(ε); by default 25 places from 0 to where the last curve falls to 1e-6.

    Examples
    --------
    >>> from discreet import PureDP
    >>> from discreet.core.sensitivity import Sensitivity
    >>> from discreet.mechanisms import BoundaryInflatedLaplace, BoundedLaplace, Laplace
    >>> kinds = [Laplace, BoundedLaplace, BoundaryInflatedLaplace]
    >>> found = compare_laws(kinds, guarantee=PureDP(1.0), sensitivity=Sensitivity(l1=0.1), bounds=(0, 1))
    >>> print(found)
    3 mechanisms at ε = 1, ℓ₁ = 0.1, ℓ₂ = 0.1
      BoundaryInflatedLaplace  cost 0.0157148, at most 0.0191914
      Laplace                  cost 0.02, at most 0.02
      BoundedLaplace           cost 0.0340245, at most 0.0492674
    """
    requirements.instance("guarantee", guarantee, Guarantee, "a guarantee such as PureDP(1.0)")
    requirements.instance("sensitivity", sensitivity, Sensitivity, "Sensitivity(l1=1.0), for example")
    made = {
        name: _made(name, one, guarantee, sensitivity, bounds) for name, one in _named(mechanisms).items()
    }  # fmt: skip
    places = _places(bounds, truths)
    profiles = {name: one.profile(sensitivity) for name, one in made.items()}
    if epsilons is None:
        reach = max(min(profile.epsilon_at(_LEAST_DELTA), 60.0) for profile in profiles.values())
        knots = np.linspace(0.0, max(reach, 1e-3), _KNOTS).tolist()
    else:
        knots = [
            requirements.non_negative("epsilons", epsilon)
            for epsilon in requirements.listed("epsilons", epsilons, "[0.5, 1]")
        ]
    rows: list[Row] = []
    for name, mechanism in made.items():
        errors = []
        for at, truth in places:
            bias, variance, mse = _moments(mechanism, truth)
            errors.append(mse)
            rows += [_row(name, kind, at, one) for kind, one in (("bias", bias), ("variance", variance), ("mse", mse))]
        rows += [_row(name, "delta", epsilon, profiles[name].delta_at(epsilon)) for epsilon in knots]
        rows.append(_row(name, "cost", None, float(np.mean(errors))))
        rows.append(_row(name, "largest cost", None, max(errors)))
    return LawComparison(guarantee, sensitivity, made, tuple(rows))


def _row(mechanism: str, measure: str, at: float | None, value: float) -> Row:
    return {"mechanism": mechanism, "measure": measure, "at": at, "value": float(value)}


def _named(mechanisms: Any) -> dict[str, Any]:
    if isinstance(mechanisms, Mapping):
        named = {str(name): one for name, one in mechanisms.items()}
    elif isinstance(mechanisms, Sequence) and not isinstance(mechanisms, str):
        named = {_name(one): one for one in mechanisms}
        if len(named) < len(mechanisms):
            raise InvalidParameter(
                "mechanisms", mechanisms, "has a name twice", 'Name them: {"first": …, "second": …}.'
            )
    else:
        named = {}
    if not named:
        raise InvalidParameter("mechanisms", mechanisms, "must be a list or a dictionary", "Pass [Laplace, Gaussian].")
    return named


def _name(one: Any) -> str:
    return str(getattr(one if inspect.isclass(one) else type(one), "__name__", one))


def _made(
    name: str, one: Any, guarantee: Guarantee, sensitivity: Sensitivity, bounds: tuple[float, float] | None
) -> Mechanism:
    if inspect.isclass(one) and issubclass(one, Mechanism):
        takes_bounds = "bounds" in inspect.signature(one.calibrate).parameters
        options: dict[str, Any] = {"bounds": bounds} if takes_bounds and bounds is not None else {}
        mechanism = one.calibrate(guarantee, sensitivity, **options)
    elif isinstance(one, Mechanism):
        mechanism = one
    elif callable(one):
        mechanism = cast(Make, one)(guarantee, sensitivity)
    else:
        raise InvalidParameter(f"mechanisms[{name!r}]", one, "must be a mechanism or a class of them", "Pass Laplace.")
    requirements.instance(f"mechanisms[{name!r}]", mechanism, Mechanism, "a mechanism such as Laplace(scale=1.0)")
    if not mechanism.profile(sensitivity).within(guarantee):
        raise InvalidParameter(
            f"mechanisms[{name!r}]", mechanism, f"does not meet {guarantee}", "Calibrate it, or pass its class."
        )
    return mechanism


def _places(bounds: tuple[float, float] | None, truths: Sequence[Any] | None) -> list[tuple[float, Any]]:
    """Where on the axis, and the truth itself; tables are numbered."""
    if truths is None:
        values = [0.0] if bounds is None else np.linspace(*_ends(bounds), _PLACES).tolist()
        return [(value, value) for value in values]
    listed = requirements.listed("truths", truths, "a list of true values")
    if not listed:
        raise InvalidParameter("truths", truths, "must not be empty", "Pass truths=[0.0].")
    return [
        (float(place) if np.ndim(truth) else requirements.finite("truths", truth), truth)
        for place, truth in enumerate(listed)
    ]


def _ends(bounds: Any) -> tuple[float, float]:
    if not isinstance(bounds, tuple | list) or len(bounds) != 2 or None in bounds:
        raise InvalidParameter(
            "bounds", bounds, "must be two finite ends", "Pass bounds=(0, 1), or say truths=[…] too."
        )
    low, high = (requirements.finite("bounds", end) for end in bounds)
    if low >= high:
        raise InvalidParameter("bounds", bounds, "must have the lower end first", "Pass bounds=(0, 1).")
    return low, high


def _moments(mechanism: Mechanism, truth: Any) -> tuple[float, float, float]:
    """Bias, variance and mean squared error; for a table the length of the bias, and sums over its cells."""
    law = mechanism.law(truth)
    bias = np.asarray(law.bias)
    variance = np.asarray(law.variance)
    if bias.ndim == 0:
        return float(bias), float(variance), float(np.asarray(law.mse))
    exact = getattr(mechanism, "l2_cost", None)  # in closed form where there is one: laws of tables know draws only
    cost = float(np.sum(law.mse)) if exact is None else float(exact(float_truth(truth)))
    return math.sqrt(float(np.sum(bias**2))), float(np.sum(variance)), cost
