"""Release: a published value that knows how it was protected, and the call that makes one."""

from __future__ import annotations

import json
from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.door import Allowance, Claim, Passed, Rng, Step, check_simulation, pass_through
from discreet.core.errors import DiscreetError, InvalidParameter, NoPopulationInterval, NotCertified
from discreet.core.guarantee import Guarantee
from discreet.core.noise.sampler import Floats, generator
from discreet.core.protection import Neighbours, Protection, Unit
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms.mechanism import Mechanism, Registry, charged_guarantee, mechanism_from_dict
from discreet.results.answer import Readable, protection_published
from discreet.results.display import Facts, Interval, number
from discreet.results.frames import Reading
from discreet.results.ledger import Ledger
from discreet.results.printed import Printed, told_numbers
from discreet.results.wording import moment, promise_words

# ---- Statistic: what is measured. A public description that holds no data.


REGISTRY: Registry[Statistic] = Registry("statistic", "discreet.questions")


class Statistic(ABC):
    """A rule for aggregating rows, with the public facts about its result.

    A subclass is a frozen dataclass with a ``name``, under which it registers itself so that releases can be read
    back. Its ``sensitivity`` and ``exact`` methods take what that statistic needs (the public n, the data).
    """

    name: ClassVar[str]
    kinds: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Where one class is several statistics: the name that each is stored under, and the settings that make it."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        REGISTRY.add(cls)

    @property
    def title(self) -> str:
        """The name in words, for people who read a release."""
        return self.name.replace("_", " ")

    def release_type(self) -> type[Any] | None:
        """The class of a release of this statistic, where it adds what can be concluded from one."""
        return None

    def shown_value(self, value: Floats) -> Floats:
        """The value to publish for a noisy one: post-processing to a value that the statistic can take."""
        return value

    def shown_interval(self, low: Floats, high: Floats, shown: Floats) -> tuple[Floats, Floats]:
        """The ends of an interval that the statistic can take, around the value that is shown."""
        return low, high

    def shared(self, values: Floats) -> Mapping[str, Any] | None:
        """What a group's release must know of the released values of all groups; mostly nothing."""
        return None

    def parameters(self) -> dict[str, Any]:
        """The public parameters as JSON-ready data; the constructor takes them back. By default the fields."""
        known = self.kinds.get(self.name, ())  # which the name tells
        own = [one.name for one in fields(cast(Any, self)) if one.init and one.name not in known]
        told = {name: getattr(self, name) for name in own}
        # The order of labels matters, and objects of JSON have none: a mapping is a list of pairs.
        pairs = {name: list(value.items()) for name, value in told.items() if isinstance(value, Mapping)}
        return {name: _plain(value) for name, value in (told | pairs).items()}

    def to_dict(self) -> dict[str, Any]:
        """Name and parameters; `statistic_from_dict` reads them back."""
        return {"name": self.name, **self.parameters()}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value.to_dict() if hasattr(value, "to_dict") else value


def statistic_from_dict(data: dict[str, Any]) -> Statistic:
    """Read what `Statistic.to_dict` wrote; unknown names are refused."""
    return REGISTRY.read(data)


# ---- Release: a published value that knows how it was protected, and the call that makes one.


FORMAT = 2


@dataclass(frozen=True)
class Release(Readable):
    """A published value that knows how it was protected.

    Attributes
    ----------
    value
        The noisy value.
    mechanism, sensitivity, guarantee, protection
        How it was protected, and what that guarantees to whom.
    statistic, public
        What was measured, and the public facts that came with it.
    release_id, created
        Identity and time, as in the ledger.
    simulated
        True where a seeded generator made the noise; such a value protects nobody.
    measurement
        The noisy measurement, where it was post-processed (shrunk, clipped, rounded) into the value;
        conclusions are drawn from it. None where the value is the measurement.
    titled
        The question that a session asked, the names that readers are told, and the group; no part of what is kept.
    """

    value: Floats
    mechanism: Mechanism
    sensitivity: Sensitivity
    guarantee: Guarantee | None
    protection: Protection
    statistic: Statistic | None
    public: Mapping[str, Any]
    release_id: str
    created: str
    simulated: bool
    measurement: Floats | None = None
    titled: tuple[Any, Mapping[str, str], str] | None = field(default=None, compare=False, repr=False)

    @property
    def words(self) -> Mapping[str, Any]:
        if self.titled is None:
            return {}
        question, words, group = self.titled
        told: Mapping[str, Any] = question.told_words(words, group)
        return told

    @property
    def neighbours(self) -> Neighbours:
        """Which data sets are hard to tell apart."""
        return self.protection.neighbours

    @property
    def unit(self) -> Unit:
        """Whose data counts as one."""
        return self.protection.unit

    @property
    def measured(self) -> Floats:
        """The noisy measurement behind the value."""
        return self.value if self.measurement is None else self.measurement

    @property
    def clipped(self) -> str | None:
        """Which shares of values lie beyond their bounds, where that was told, too."""
        return self.public.get("clipped")

    def noise_interval(self, level: float = 0.95) -> Interval:
        """Interval for the true value in the data, from the known distribution of the noise."""
        checked = requirements.level(level)
        ends = self.mechanism.noise_interval(self.measured, checked)
        if self.statistic is not None:
            ends = self.statistic.shown_interval(*ends, self.value)
        return Interval(*ends, checked)

    def population_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population that the data is a sample of: noise and sampling together.

        Raises
        ------
        NoPopulationInterval
            Where the release does not hold enough for one; the message says what to ask instead.
        """
        raise NoPopulationInterval(
            "release",
            self.statistic.title if self.statistic else "a value",
            "describes the rows that were counted, not the population they come from",
            "Ask for a mean, a proportion, a variance or a table.",
        )

    @property
    def sampled(self) -> float | None:
        """Share of the rows that the value is of: below 1 behind a Poisson sample; None behind other omission steps."""
        step = self.public.get("omission")
        return 1.0 if step is None else step.get("rate")

    def require_sample(self) -> None:
        """Refuse an interval for the population where a step chose rows by what they hold."""
        if self.sampled is None:
            raise NoPopulationInterval(
                "release",
                self.statistic.title if self.statistic else "a value",
                "is of rows that a suppression chose by what they hold, which are no sample of the population",
                "Ask without omitting rows, or behind a PoissonSample.",
            )

    def known_population_interval(self) -> Interval | None:
        """The 95 % interval for the population, or None where there is none."""
        try:
            return self.population_interval()
        except NoPopulationInterval:
            return None

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """One reading per number of the value, with its noise interval."""
        values = np.ravel(np.asarray(self.value, dtype=float))
        interval = self.noise_interval()
        low, high = (np.ravel(np.broadcast_to(np.asarray(end, dtype=float), values.shape)) for end in interval)
        errors = self._noise_errors(values)
        several = values.size > 1
        return [
            Reading(
                str(position) if several else "",
                value,
                Interval(a, b, interval.level),
                labels={"position": position} if several else {},
                measure="value" if self.statistic is None else self.statistic.title,
                standard_error=error,
            )
            for position, value, a, b, error in zip(
                range(1, values.size + 1), values.tolist(), low.tolist(), high.tolist(), errors, strict=True
            )
        ]

    @classmethod
    def readings_together(cls, parts: Sequence[Any]) -> list[list[Reading]]:
        """The readings of many groups of one release; a kind of answer may work them out at once."""
        return [part.readings() for part in parts]

    @property
    def estimate(self) -> Any:
        """The released value, or the number that is computed from it."""
        return self.value

    def _noise_errors(self, values: NDArray[np.float64]) -> list[float | None]:
        """Standard error of the noise behind each number, as measured: exact where noise only moves with the truth."""
        measured = np.ravel(np.asarray(self.measured, dtype=float))
        try:
            variance = self.mechanism.law(measured).variance
        except DiscreetError:  # the law needs more than the number to be written down
            return [None] * values.size
        if np.size(variance) not in (1, values.size):
            return [None] * values.size
        errors: list[float | None] = np.sqrt(np.broadcast_to(np.ravel(variance), values.shape)).tolist()
        return errors

    def published(self) -> dict[str, Any]:
        return protection_published(self, self.mechanism.to_dict(), str(self.sensitivity)) | {"clipped": self.clipped}

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
            "protection": self.protection.to_dict(),
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
        """Read what `to_json` wrote; files of another kind or of another format are refused."""
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
        except TypeError:  # a mechanism or a statistic has no such setting
            raise InvalidParameter(
                "data", data, "has settings that this version does not know", "Read it with the version that wrote it."
            ) from None

    def facts(self) -> Facts:
        """The facts to show of a release."""
        return [*told_numbers(self.told_readings()), *self.protection_facts()]

    def protection_facts(self) -> Facts:
        """The protection of the release and its place in the ledger."""
        counted = self.public.get("counted")  # what of each unit the value is about
        facts = [
            *([] if counted is None else [("counted", counted)]),
            # released first
            *((name, self.public[name]) for name in ("bounds", "limit", "clipped") if name in self.public),
            ("guarantee", promise_words(self.guarantee, self.words.get("unit", str(self.unit)))),
            ("protects against", str(self.protection)),
            ("release", f"{self.release_id[:8]}, {moment(self.created)}"),
        ]
        step = self.public.get("omission")
        if step is not None:
            facts.insert(
                0, ("describes", f"the rows that the step {step['name'].replace('_', ' ')} kept, not all rows")
            )
        return [*facts, ("simulated", "yes: protects nobody")] if self.simulated else facts

    def details(self) -> Printed:
        """How the noise was made: the mechanism with its numbers, and how far one unit moves what was measured."""
        told = [
            ("measured", self.statistic.title if self.statistic else "a value"),
            ("mechanism", self.mechanism.name.replace("_", " ")), *_parameters(self.mechanism),
            ("sensitivity", str(self.sensitivity)), ("release", self.release_id), ("created", self.created),
        ]  # fmt: skip
        return Printed.of(f"{self.heading()}: how it was made", [("", ""), *told], note="All of it: to_dict().")

    def heading(self) -> str:
        title = self.statistic.title if self.statistic else "a value"
        return str(self.words.get("heading", title[:1].upper() + title[1:]))


def _parameters(mechanism: Mechanism) -> list[tuple[str, str]]:
    """The numbers of a mechanism; lists and settings that are off are left to `to_dict`."""
    told = mechanism.parameters()
    if {"lowest", "highest", "grid"} <= told.keys():  # bounds in steps of the grid: people know them in their own unit
        ends = {"from": told.pop("lowest") * told["grid"], "to": told.pop("highest") * told["grid"]}
        told = {**ends, "in steps of": told.pop("grid"), **told}
    shown = {
        name: value for name, value in told.items() if value is not None and value is not False and np.ndim(value) == 0
    }
    return [(name.replace("_", " "), number(v) if isinstance(v, int | float) else str(v)) for name, v in shown.items()]


def _from_dict(data: dict[str, Any]) -> Release:
    value = np.asarray(data["value"])
    statistic = None if data["statistic"] is None else statistic_from_dict(data["statistic"])
    kind: type[Release] = _kind(statistic)
    return kind(
        value=float(value) if value.ndim == 0 else value,
        mechanism=mechanism_from_dict(data["mechanism"]),
        sensitivity=Sensitivity.from_dict(data["sensitivity"]),
        guarantee=None if data["guarantee"] is None else Guarantee.from_dict(data["guarantee"]),
        protection=Protection.from_dict(data["protection"]),
        statistic=statistic,
        public=data["public"],
        release_id=data["release_id"],
        created=data["created"],
        simulated=data["simulated"],
        measurement=None if data.get("measurement") is None else np.asarray(data["measurement"]),
    )


def _kind(statistic: Statistic | None) -> type[Release]:
    """The class that the release of a statistic belongs to."""
    return (None if statistic is None else statistic.release_type()) or Release


def release(
    exact: Exact,
    mechanism: Mechanism,
    *,
    ledger: Ledger | None = None,
    guarantee: Guarantee | None = None,
    rng: Rng = None,
    name: str | None = None,
    question: Mapping[str, Any] | None = None,
) -> Release:
    """Publish a protected value: verify, reserve in the ledger, draw, return.

    Most users want `Session`, which computes the value and its sensitivity from rows.

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
    name
        A name for this release that makes it repeatable: asking again returns the stored answer, draws nothing and
        spends nothing.
    question
        What is asked, as JSON-ready data, where more than the statistic tells one question from another.

    Examples
    --------
    >>> from discreet import Ledger, PureDP, release
    >>> from discreet.core.sensitivity import Exact, Sensitivity
    >>> from discreet.mechanisms import Laplace
    >>> ledger = Ledger(":memory:", budget=PureDP(2.0))
    >>> noisy = release(Exact(10.0, Sensitivity(l1=1.0)), Laplace(scale=2.0), ledger=ledger)
    >>> noisy.guarantee, ledger.remaining()
    (PureDP(epsilon=0.5), PureDP(epsilon=1.5))
    """
    requirements.instance("exact", exact, Exact, "an Exact, such as Exact(10.0, Sensitivity(l1=1.0))")
    requirements.instance("mechanism", mechanism, Mechanism, "a mechanism such as Laplace(scale=1.0)")
    check_simulation(ledger, rng)
    mechanism.check(exact)
    charged = charged_guarantee(mechanism, exact.sensitivity, ledger, guarantee)
    source = None if rng is None else generator(rng)  # one stream for the noise and what follows it
    if charged is None and source is not None:
        return _released(
            exact, mechanism, None, Passed(simulated=True), mechanism.measure(exact.value, rng=source), source
        )
    asked = _asked(exact) if question is None else question
    claim = claim_of_one_draw(mechanism, exact.sensitivity, charged, exact.protection, asked)
    return pass_through(
        claim, lambda allowance, passed: drawn(exact, mechanism, claim, allowance, passed),
        write=Release.to_dict, read=Release.from_dict, ledger=ledger, rng=source, request=name,
    )  # fmt: skip


def claim_of_one_draw(
    mechanism: Mechanism,
    sensitivity: Sensitivity,
    charged: Guarantee | None,
    protection: Protection,
    question: Mapping[str, Any],
) -> Claim:
    """The claim of a release by one draw; refused where nothing is proved of the mechanism."""
    if charged is None:
        raise NotCertified(
            f"{mechanism.name} has no proved guarantee with these parameters, so it may not touch real data. "
            "Use the certified form, or pass rng=… to simulate."
        )
    return Claim(
        guarantee=charged,
        protection=protection,
        question=question,
        mechanism=mechanism.to_dict(),
        sensitivity=sensitivity,
        steps=[Step(mechanism, sensitivity, charged)],
    )


def drawn(exact: Exact, mechanism: Mechanism, claim: Claim, allowance: Allowance, passed: Passed) -> Release:
    """The release that one draw makes of an exact value."""
    mechanism.check(exact)
    measurement = allowance.draw(claim.steps[0], exact.value)
    return _released(exact, mechanism, claim.guarantee, passed, measurement, allowance.rng)


def _asked(exact: Exact) -> dict[str, Any]:
    """The question that a value by hand answers: its statistic is all that is known of it."""
    if exact.statistic is None:
        return {"ask": "value"}
    return {"ask": exact.statistic.name, "statistic": exact.statistic.to_dict()}


def _released(
    exact: Exact,
    mechanism: Mechanism,
    guarantee: Guarantee | None,
    passed: Passed,
    measurement: Floats,
    rng: np.random.Generator | None,
) -> Release:
    """The release of a measurement, and of what the mechanism makes of it; from here on everything is public."""
    value = mechanism.present(measurement, rng=rng)
    if exact.statistic is not None:
        value = exact.statistic.shown_value(value)
    return _kind(exact.statistic)(
        value=value, mechanism=mechanism, sensitivity=exact.sensitivity, guarantee=guarantee,
        protection=exact.protection, statistic=exact.statistic, public=exact.public,
        measurement=None if value is measurement else measurement, **vars(passed),
    )  # fmt: skip
