"""The result of comparing two arms: estimate, interval, p-value, lift and where the uncertainty comes from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from discreet.answers import Readable, protection_published
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.protection import Protection
from discreet.display import Facts, number
from discreet.inference.arm_means import Contrast
from discreet.interval import Interval
from discreet.publish.readings import Reading

__all__ = ["MeanComparison"]

FORMAT = 2


@dataclass(frozen=True, kw_only=True)
class MeanComparison(Readable):
    """How two arms' means differ, with all uncertainty, made from private outputs only.

    Attributes
    ----------
    estimate, standard_error, df, pvalue
        In scipy's words; the p-value tests that the means are equal.
    method
        How it was done, for example ``"direct"``.
    guarantee
        What holds for the whole comparison; None where nothing does (published methods, simulated only).
    protection
        Between which data sets, whose data counts as one unit, and what is taken as public.
    control
        The control arm's mean as a contrast of its own, where the method estimates it; the lift needs it.
    treatment, against
        Names of the two arms.
    noisy
        The released, noisy statistics and the public settings behind the result.
    notes
        What the reader must know: warnings, and what stands in for what could not be certified.
    """

    contrast: Contrast
    method: str
    guarantee: Guarantee | None
    protection: Protection
    release_id: str
    created: str
    simulated: bool
    control: Contrast | None = None
    treatment: str = "treatment"
    against: str = "control"
    noisy: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    simultaneous: int = 1

    @property
    def estimate(self) -> float:
        """Estimated difference: treatment minus control."""
        return float(self.contrast.estimate)

    @property
    def standard_error(self) -> float:
        """Square root of sampling variance plus noise variance."""
        return float(self.contrast.standard_error)

    @property
    def df(self) -> float:
        """Degrees of freedom of the standard error."""
        return float(self.contrast.df)

    @property
    def pvalue(self) -> float:
        """Two-sided p-value of equal means, times the number of simultaneous comparisons."""
        return min(1.0, self.simultaneous * float(self.contrast.pvalue()))

    @property
    def privacy_share(self) -> float:
        """Share of the variance that is due to privacy."""
        contrast = self.contrast
        return float(contrast.noise_variance / (contrast.noise_variance + contrast.sampling_variance))

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """Interval for the difference of means; simultaneous with the other pairs of its family."""
        checked = requirements.level(level)
        half = float(self.contrast.half_width(1 - (1 - checked) / self.simultaneous))
        return Interval(self.estimate - half, self.estimate + half, checked)

    def population_interval(self, level: float = 0.95) -> Interval:
        """The same interval: a comparison is about the populations behind the arms."""
        return self.confidence_interval(level)

    def lift(self, level: float = 0.95) -> tuple[float, Interval]:
        """Relative difference, treatment/control − 1, with Fieller's interval.

        Raises
        ------
        InvalidParameter
            Where the method does not estimate the control's mean, or cannot tell it from zero at this level.
        """
        checked = requirements.level(level)
        if self.control is None:
            raise InvalidParameter("method", self.method, "estimates no mean of the control", 'Use method="direct".')
        base, difference = float(self.control.estimate), self.estimate
        q = float(self.contrast.half_width(checked)) / self.standard_error
        v_base = float(self.control.standard_error) ** 2
        v_all, v_cross = self.standard_error**2, -v_base  # Cov(treatment − control, control)
        a, b, c = base**2 - q**2 * v_base, base * difference - q**2 * v_cross, difference**2 - q**2 * v_all
        if a <= 0 or b * b < a * c:
            raise InvalidParameter(
                "level", level, "the control's mean cannot be told from zero", "Lower the level, or use more data."
            )
        root = math.sqrt(b * b - a * c)
        return difference / base, Interval((b - root) / a, (b + root) / a, checked)

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The difference, with noise and sampling in its interval."""
        label = f"{self.treatment} − {self.against}"
        return [
            Reading(
                label,
                self.estimate,
                population=self.confidence_interval(),
                labels={"treatment": self.treatment, "control": self.against},
                measure="difference of means",
                standard_error=self.standard_error,
                pvalue=self.pvalue,
            )
        ]

    def published(self) -> dict[str, Any]:
        return protection_published(self, {"name": self.method}, None)

    def verdict(self) -> Mapping[str, Any]:
        return {"test": "equal means", "pvalue": self.pvalue}

    def chart(self) -> Any:
        """Diagnostic plot of private outputs: density of the estimate's error, with and without the privacy noise."""
        import altair as alt

        law, plain = self.contrast.law, Contrast(0.0, self.contrast.sampling_variance, self.contrast.df)
        reach = 4 * self.standard_error
        edges = np.linspace(-reach, reach, 161)
        rows = []
        for name, one in (("sampling alone", plain.law), ("sampling and privacy noise", law)):
            tails = np.asarray(one.sf(np.abs(edges)))
            cdf = np.where(edges > 0, 1 - tails, tails)
            for x, density in zip((edges[1:] + edges[:-1]) / 2, np.diff(cdf) / np.diff(edges), strict=True):
                rows.append({"difference": self.estimate + float(x), "density": float(density), "error": name})
        lines = alt.Chart(alt.InlineData(values=rows)).mark_line().encode(
            x=alt.X(field="difference", type="quantitative"),
            y=alt.Y(field="density", type="quantitative"),
            color=alt.Color(field="error", type="nominal", scale=alt.Scale(range=["#0b5cad", "#b4530a"])),
            strokeDash=alt.StrokeDash(field="error", type="nominal"),
        )  # fmt: skip
        zero = alt.Chart(alt.InlineData(values=[{"difference": 0.0}])).mark_rule(strokeDash=[4, 4])
        return (lines + zero.encode(x=alt.X(field="difference", type="quantitative"))).properties(
            title=self.heading(), description="Density of the estimate's error, with and without the privacy noise"
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        interval = self.confidence_interval()
        return {
            "discreet": "mean_comparison",
            "format": FORMAT,
            "treatment": self.treatment,
            "control": self.against,
            "estimate": self.estimate,
            "standard_error": self.standard_error,
            "df": self.df,
            "pvalue": self.pvalue,
            "confidence_interval": interval.to_dict(),
            "privacy_share": self.privacy_share,
            "method": self.method,
            "guarantee": None if self.guarantee is None else self.guarantee.to_dict(),
            "protection": self.protection.to_dict(),
            "noisy": self.noisy,
            "notes": list(self.notes),
            "release_id": self.release_id,
            "created": self.created,
            "simulated": self.simulated,
            "simultaneous": self.simultaneous,
            "contrast": self.contrast.to_dict(),
            "control_mean": None if self.control is None else self.control.to_dict(),
        }

    @staticmethod
    def from_dict(data: Any) -> MeanComparison:
        """Read what `to_dict` wrote."""
        if not isinstance(data, dict) or data.get("discreet") != "mean_comparison" or data.get("format") != FORMAT:
            raise InvalidParameter("data", data, f"must be a comparison of format {FORMAT}", "Check the file.")
        same = ("method", "release_id", "created", "simulated", "treatment", "noisy", "simultaneous")
        return MeanComparison(
            contrast=_contrast(data["contrast"]),
            guarantee=None if data["guarantee"] is None else Guarantee.from_dict(data["guarantee"]),
            protection=Protection.from_dict(data["protection"]),
            control=None if data["control_mean"] is None else _contrast(data["control_mean"]),
            against=data["control"],
            notes=tuple(data["notes"]),
            **{name: data[name] for name in same},
        )

    def facts(self) -> Facts:
        """What to show."""
        interval = self.confidence_interval()
        promise = "none" if self.guarantee is None else f"{self.guarantee}: {self.guarantee.sentence()}"
        private = f"{100 * self.privacy_share:.0f} %"
        facts = [
            ("estimate", number(self.estimate)),
            ("population interval, 95 %", f"{number(interval.low)} to {number(interval.high)}"),
            ("standard error", f"{number(self.standard_error)}; its square is {private} privacy noise"),
            ("p-value", number(self.pvalue)),
            ("method", self.method),
            ("guarantee", promise),
            ("protects against", str(self.protection)),
            ("release", f"{self.release_id[:8]}, {self.created}"),
        ]
        facts += [("note", note) for note in self.notes]
        return [*facts, ("simulated", "yes: protects nobody")] if self.simulated else facts

    def heading(self) -> str:
        return f"Mean of {self.treatment} minus {self.against}"


def _contrast(data: dict[str, Any]) -> Contrast:
    return Contrast(**data | {"noise": np.asarray(data["noise"], dtype=float)})
