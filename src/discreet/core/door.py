"""Release: the one door between private and public.

``release`` validates, reserves the cost in the ledger, draws, and returns, in that order. A crash can therefore
cost budget, but no value ever leaves without its cost on record.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.core import requirements
from discreet.core.contract import Mechanism, mechanism_from_dict
from discreet.core.display import Facts, number
from discreet.core.errors import InvalidParameter, NoConversion, NotCertified
from discreet.core.guarantee import ApproxDP, Guarantee
from discreet.core.interval import Interval
from discreet.core.noise.law import Floats, Truth, float_truth, generator
from discreet.core.result import Result
from discreet.core.sensitivity import Neighbours, Sensitivity
from discreet.core.statistic import Statistic, statistic_from_dict

if TYPE_CHECKING:
    from discreet.core.ledger import Ledger

__all__ = ["Exact", "Release", "check_simulation", "release"]

FORMAT = 1


@dataclass(frozen=True)
class Exact:
    """A true, still private value with what is known of it. Its repr never shows the value.

    Parameters
    ----------
    value
        A number, a `fractions.Fraction`, or an array of them; exact as it stands.
    sensitivity
        How far one unit can move it.
    neighbours, unit
        Between which data sets, and whose data counts as one unit.
    statistic
        The public description of what was measured.
    public
        Public facts that inference needs, such as n under replace-one neighbours.

    Examples
    --------
    >>> Exact(10.0, Sensitivity(l1=1.0))
    Exact(value=‹private›, sensitivity=ℓ₁ = 1, ℓ₂ = 1, neighbours=add_remove, unit='row')
    """

    value: Truth = field(repr=False)
    sensitivity: Sensitivity
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    unit: str = "row"
    statistic: Statistic | None = None
    public: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        requirements.instance("sensitivity", self.sensitivity, Sensitivity, "Sensitivity(l1=1.0), for example")
        requirements.instance("neighbours", self.neighbours, Neighbours, "Neighbours.ADD_REMOVE, for example")
        requirements.instance("unit", self.unit, str, 'a name such as unit="row"')
        if float_truth(self.value).size == 0:
            raise InvalidParameter("value", "…", "must not be empty", "Pass a number or a non-empty array.")

    def __repr__(self) -> str:
        return (
            f"Exact(value=‹private›, sensitivity={self.sensitivity}, "
            f"neighbours={self.neighbours.value}, unit={self.unit!r})"
        )


@dataclass(frozen=True)
class Release(Result):
    """A published value that knows how it was protected.

    Attributes
    ----------
    value
        The noisy value.
    mechanism, sensitivity, guarantee, neighbours, unit
        How it was protected, and what that guarantees to whom.
    statistic, public
        What was measured, and the public facts that came with it.
    release_id, created
        Identity and time, as in the ledger.
    simulated
        True where a seeded generator made the noise; such a value protects nobody.
    measurement
        The noisy measurement, where the mechanism post-processed it (shrunk, clipped, rounded) into the value;
        conclusions are drawn from it. None where the value is the measurement.
    """

    value: Floats
    mechanism: Mechanism
    sensitivity: Sensitivity
    guarantee: Guarantee | None
    neighbours: Neighbours
    unit: str
    statistic: Statistic | None
    public: Mapping[str, Any]
    release_id: str
    created: str
    simulated: bool
    measurement: Floats | None = None

    @property
    def measured(self) -> Floats:
        """The noisy measurement behind the value."""
        return self.value if self.measurement is None else self.measurement

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """Interval for the true value in the data, from the known law of the noise."""
        checked = requirements.level(level)
        low, high = self.mechanism.confidence_interval(self.measured, checked)
        return Interval(low, high, checked)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {
            "discreet": "release",
            "format": FORMAT,
            "value": np.asarray(self.value).tolist(),
            "statistic": None if self.statistic is None else self.statistic.to_dict(),
            "public": dict(self.public),
            "mechanism": self.mechanism.to_dict(),
            "sensitivity": self.sensitivity.to_dict(),
            "guarantee": None if self.guarantee is None else self.guarantee.to_dict(),
            "neighbours": self.neighbours.value,
            "unit": self.unit,
            "release_id": self.release_id,
            "created": self.created,
            "simulated": self.simulated,
            "measurement": None if self.measurement is None else np.asarray(self.measurement).tolist(),
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """JSON text; `from_json` reads it back."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> Release:
        """Read what `to_json` wrote; files of another kind or a newer format are refused."""
        try:
            data = json.loads(text)
        except (TypeError, ValueError):
            raise InvalidParameter("text", text, "must be JSON", "Pass what to_json returned.") from None
        return Release.from_dict(data)

    @staticmethod
    def from_dict(data: Any) -> Release:
        """Read what `to_dict` wrote."""
        if not isinstance(data, dict) or data.get("discreet") != "release" or data.get("format") != FORMAT:
            raise InvalidParameter("data", data, f"must be a release of format {FORMAT}", "Check the file.")
        try:
            return _from_dict(data)
        except KeyError as missing:
            raise InvalidParameter("data", data, f"has no field {missing}", "Check the file.") from None

    def facts(self) -> Facts:
        """What to show of a release."""
        interval = self.confidence_interval()
        promise = "none" if self.guarantee is None else f"{self.guarantee}: {self.guarantee.sentence()}"
        facts = [
            ("value", number(self.value)),
            ("95 % interval", f"{number(interval.low)} to {number(interval.high)}"),
            ("guarantee", promise),
            ("protects", f"one {self.unit} ({self.neighbours.value.replace('_', '/')} neighbours)"),
            ("mechanism", f"{self.mechanism.name}, {_parameters(self.mechanism)}"),
            ("release", f"{self.release_id[:8]}, {self.created}"),
        ]
        return [*facts, ("simulated", "yes: protects nobody")] if self.simulated else facts

    def chart(self) -> Any:
        """Altair chart of every number with its 95 % intervals: thick for noise, thin for noise and sampling."""
        from discreet.publish.charts import interval_chart
        from discreet.publish.readings import readings

        return interval_chart(self.heading(), [reading.to_dict() for reading in readings(self)])

    def heading(self) -> str:
        return f"Release of {self.statistic.title if self.statistic else 'a value'}"


def _parameters(mechanism: Mechanism) -> str:
    """The numbers of a mechanism; lists and what is not so are left to `to_dict`."""
    told = mechanism.parameters().items()
    shown = {name: value for name, value in told if value is not None and value is not False and np.ndim(value) == 0}
    return ", ".join(f"{name} {number(v) if isinstance(v, int | float) else v}" for name, v in shown.items())


def _from_dict(data: dict[str, Any]) -> Release:
    value = np.asarray(data["value"])
    statistic = None if data["statistic"] is None else statistic_from_dict(data["statistic"])
    kind = Release if statistic is None else statistic.release_type()
    return kind(
        value=float(value) if value.ndim == 0 else value,
        mechanism=mechanism_from_dict(data["mechanism"]),
        sensitivity=Sensitivity.from_dict(data["sensitivity"]),
        guarantee=None if data["guarantee"] is None else Guarantee.from_dict(data["guarantee"]),
        neighbours=Neighbours(data["neighbours"]),
        unit=data["unit"],
        statistic=statistic,
        public=data["public"],
        release_id=data["release_id"],
        created=data["created"],
        simulated=data["simulated"],
        measurement=None if data.get("measurement") is None else np.asarray(data["measurement"]),
    )


def release(
    exact: Exact,
    mechanism: Mechanism,
    *,
    ledger: Ledger | None = None,
    guarantee: Guarantee | None = None,
    rng: int | np.random.Generator | None = None,
    request: str | None = None,
) -> Release:
    """Publish a protected value: validate, reserve in the ledger, draw, return.

    Parameters
    ----------
    exact
        The private value, from a statistic or built by hand.
    mechanism
        How to protect it.
    ledger
        Where the cost is recorded; required unless ``rng`` makes it a simulation.
    guarantee
        The guarantee to claim and charge, verified against the mechanism's exact profile. By default the tightest one
        of the ledger's own kind.
    rng
        A seed or generator simulates: the result is stamped ``simulated``, and a ledger on disk refuses it.
    request
        A name for this release that makes it repeatable: asking again returns the stored answer, draws nothing and
        spends nothing.

    Examples
    --------
    >>> from discreet import Exact, Laplace, Ledger, PureDP, Sensitivity, release
    >>> ledger = Ledger(":memory:", budget=PureDP(2.0))
    >>> noisy = release(Exact(10.0, Sensitivity(l1=1.0)), Laplace(scale=2.0), ledger=ledger)
    >>> noisy.guarantee, ledger.remaining()
    (PureDP(epsilon=0.5), PureDP(epsilon=1.5))
    """
    requirements.instance("exact", exact, Exact, "an Exact, such as Exact(10.0, Sensitivity(l1=1.0))")
    requirements.instance("mechanism", mechanism, Mechanism, "a mechanism such as Laplace(scale=1.0)")
    check_simulation(ledger, rng)
    mechanism.check(exact)
    claim = claimed(mechanism, exact.sensitivity, ledger, guarantee)
    if claim is None and rng is None:
        raise NotCertified(
            f"{mechanism.name} has no proved guarantee with these parameters, so it may not touch real data. "
            "Use the certified form, or pass rng=… to simulate."
        )
    draft = _draft(exact, mechanism, claim, simulated=rng is not None)
    if ledger is None or claim is None:
        return _drawn(draft, exact, rng)
    reservation = ledger.reserve(
        claim,
        statistic=exact.statistic.to_dict() if exact.statistic else "value",
        mechanism=mechanism.to_dict(),
        sensitivity=exact.sensitivity.to_dict(),
        neighbours=exact.neighbours,
        unit=exact.unit,
        release_id=draft.release_id,
        request=request,
    )
    if reservation.answered:
        return Release.from_dict(reservation.answer)
    drawn = _drawn(replace(draft, release_id=reservation.release_id), exact, rng)
    return _recorded(drawn, ledger, reservation, request)


def _drawn(draft: Release, exact: Exact, rng: int | np.random.Generator | None) -> Release:
    """Fill in the value, and the measurement behind it where the two differ."""
    source = None if rng is None else generator(rng)  # one stream for the noise and what follows it
    measurement = draft.mechanism.measure(exact.value, rng=source)
    value = draft.mechanism.present(measurement, rng=source)
    return replace(draft, value=value, measurement=None if value is measurement else measurement)


def _recorded(drawn: Release, ledger: Ledger, reservation: Any, request: str | None) -> Release:
    """Store the answer where it can be asked for again; the first of two racing answers is the only one."""
    if request is None:
        return drawn
    return Release.from_dict(ledger.record_answer(reservation, drawn.to_dict()))


def check_simulation(ledger: Ledger | None, rng: Any) -> None:
    """Refuse a real release without a ledger, and simulated noise on a ledger that lasts."""
    if rng is None and ledger is None:
        raise InvalidParameter(
            "ledger", None, "is required for a real release", "Pass ledger=Ledger(…), or rng=… to simulate."
        )
    if rng is not None and ledger is not None and ledger.path != ":memory:":
        raise InvalidParameter(
            "rng",
            rng,
            "seeded noise protects nobody, so a ledger on disk refuses it",
            'Leave rng out, or simulate with Ledger(":memory:", …).',
        )


def _draft(exact: Exact, mechanism: Mechanism, claim: Guarantee | None, *, simulated: bool) -> Release:
    """The release without its value: everything that is known before the draw."""
    kind = Release if exact.statistic is None else exact.statistic.release_type()
    return kind(
        value=float("nan"),
        mechanism=mechanism,
        sensitivity=exact.sensitivity,
        guarantee=claim,
        neighbours=exact.neighbours,
        unit=exact.unit,
        statistic=exact.statistic,
        public=exact.public,
        release_id=uuid.uuid4().hex,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        simulated=simulated,
    )


def claimed(
    mechanism: Mechanism, sensitivity: Sensitivity, ledger: Ledger | None, guarantee: Guarantee | None
) -> Guarantee | None:
    """The guarantee to charge: the caller's, once verified; else the tightest of the ledger's kind."""
    if guarantee is None:
        kind = None if ledger is None else ledger.currency
        try:
            return mechanism.guarantee(sensitivity, None if kind is ApproxDP else kind)
        except NoConversion as refusal:
            counts = f"The ledger counts in {kind.__name__}: ask with that kind of guarantee. " if kind else ""
            raise NoConversion(f"{refusal} {counts}Nothing was spent.") from None
    requirements.instance("guarantee", guarantee, Guarantee, "a guarantee such as PureDP(1.0)")
    if not mechanism.profile(sensitivity).within(guarantee):
        raise InvalidParameter(
            "guarantee",
            guarantee,
            f"is more than {mechanism.name} with these parameters gives",
            f"It gives {mechanism.guarantee(sensitivity)}; calibrate it to the guarantee you need.",
        )
    return guarantee
