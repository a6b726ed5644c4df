"""Columns: what is publicly known of a column's values, and what happens to those that do not fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, Literal

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.numbers import decimal
from discreet.core.requirements import one_of

# ---- Row expression: a condition or a derived value, as a tree of operations on the declared columns of one row.
#
# Whatever language a tree was written in, nothing in it can reach another row: there are no sums over rows, no windows
# and no queries. Proof: ``docs/proofs/rows.md``.


@dataclass(frozen=True)
class Term:
    """One operation of a tree, with its operands: terms and plain values."""

    op: str
    parts: tuple[Any, ...]

    def names(self) -> frozenset[str]:
        """The columns that it reads."""
        if self.op == "column":
            return frozenset(self.parts)
        return frozenset(name for part in self.parts if isinstance(part, Term) for name in part.names())


class RowExpression(ABC):
    """A text as one language reads it."""

    text: str
    term: Term

    @abstractmethod
    def check(self, columns: Mapping[str, Any], name: str, kinds: tuple[str, ...]) -> None:
        """Refuse, under this name, what does not fit the declared columns or gives none of these kinds of values."""

    def names(self) -> frozenset[str]:
        """The columns that it reads."""
        return self.term.names()


def label_of(term: Term) -> Any:
    """The label that a plain value stands for."""
    value = term.parts[0]
    return int(value) if isinstance(value, float) and value.is_integer() else value


# ---- Columns: what is publicly known of a column's values, and what happens to those that do not fit.


LARGEST_INDEX = 2**40
"""Grid points stay below this, so that sums of squares of 2⁴⁰ rows fit the 38 digits every engine can add."""
MOST_CELLS = 1_000_000

LONGEST_LABEL = 2000
"""Texts beyond are no label whose case is ignored, and no word for a missing value."""
ASCII_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
"""Engines agree on the case of these letters alone."""

Label = str | int | bool
Policy = Literal["drop", "refuse"]


@dataclass(frozen=True, kw_only=True)
class ForReaders(ABC):
    """What readers are told in the place of a name. It changes no release, and no comparison of declarations.

    Parameters
    ----------
    label
        The name for readers, such as ``"yearly income"``.
    measured_in
        The unit of its numbers, such as ``"dollars"``.
    """

    label: str = field(default="", compare=False, repr=False)
    measured_in: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        for key in ("label", "measured_in"):
            requirements.words(key, getattr(self, key))

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The declaration as plain data, without what readers are told."""

    def named(self) -> dict[str, str]:
        """What is said, as plain data."""
        return _given(label=self.label, measured_in=self.measured_in)

    def name_for_readers(self, name: str) -> str:
        """What readers are told: the label, or this name where there is none, and the unit."""
        return (self.label or name) + (f" in {self.measured_in}" if self.measured_in else "")


_LARGEST = 1e60
"""Fourth powers of such numbers, summed over all rows there are, are floats; so are their reciprocals."""


@dataclass(frozen=True)
class Bounds(ForReaders):
    """A numeric column: values are clipped to [low, high] and rounded to multiples of ``grid``.

    Parameters
    ----------
    low, high
        Public bounds, multiples of the grid. Values outside are moved to the nearer bound.
    grid
        Public resolution: sums are sums of whole numbers of grid steps, hence exact and the same on every engine.
        By default a power of ten: the coarsest one that makes 1,000 steps or more and of which both bounds are
        multiples. 0.1 means exactly one tenth.
    nulls
        What to do with missing values, NaN and text that is not a number: ``"drop"`` the row, ``"refuse"`` the data
        set (an error then reveals that there is one), or a number in [low, high] that takes their place.
    value
        A formula of other declared columns, such as ``Formula("log1p(income)")``, instead of a column of the source.
    missing
        Numbers and words that stand for a missing value, such as ``[-9, "NA"]``.
    label, measured_in
        What readers are told: ``label="yearly income", measured_in="dollars"``. They change no release.

    Examples
    --------
    >>> age = Bounds(0, 120, grid=1)
    >>> age.lowest, age.highest, age.cells
    (0, 120, 121)
    >>> Bounds(0, 9.99, grid=0.01).cells
    1000
    >>> Bounds(70, 230).grid, Bounds(0, 250_000).grid, Bounds(-0.5, 0.25).grid
    (0.1, 100.0, 0.0001)
    """

    low: float
    high: float
    grid: float = None  # type: ignore[assignment]  # the default follows from the limits
    nulls: str | float = "drop"
    value: RowExpression | None = None
    missing: Sequence[str | float] = ()
    computed_kinds: ClassVar[tuple[str, ...]] = ("number",)
    private: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("low", "high"):
            object.__setattr__(self, name, requirements.finite(name, getattr(self, name)))
        low, high = requirements.ordered_bounds("bounds", (self.low, self.high))
        given: float | None = self.grid
        grid = _default_grid(decimal(low), decimal(high)) if given is None else given
        object.__setattr__(self, "grid", requirements.positive("grid", grid))
        for name in ("low", "high"):
            self._on_grid(name, getattr(self, name))
        if self.reach > LARGEST_INDEX:
            raise InvalidParameter(
                "grid",
                self.grid,
                f"a limit is more than 2^40 grid steps from zero ({self.low:g} to {self.high:g})",
                "Use a coarser grid.",
            )
        if max(abs(low), abs(high)) > _LARGEST or self.grid < 1 / _LARGEST:
            raise InvalidParameter(
                "bounds", (low, high), f"must lie within ±{_LARGEST:g}, on a grid of {1 / _LARGEST:g} or more",
                "Declare the column in a larger or smaller unit, such as thousands.",
            )  # fmt: skip
        self._check_nulls()
        object.__setattr__(self, "missing", _words(self.missing, (str, int, float)))

    def _on_grid(self, name: str, value: float) -> int:
        steps = decimal(value) / self.step
        if steps.denominator != 1:
            beside = float((steps // 1 + (name != "low")) * self.step)  # outwards
            fix = f"Write {name}={beside:.15g}, or a finer grid."
            raise InvalidParameter(name, value, f"is not a multiple of grid = {self.grid:g}", fix)
        return int(steps)

    def _check_nulls(self) -> None:
        if isinstance(self.nulls, str):
            one_of("nulls", self.nulls, ("drop", "refuse"), 'Write "drop", "refuse" or a number inside the bounds.')
            return
        replacement = requirements.finite("nulls", self.nulls)
        if not self.low <= replacement <= self.high:
            raise InvalidParameter("nulls", self.nulls, "must lie inside the bounds", "Pass a number inside them.")
        self._on_grid("nulls", replacement)
        object.__setattr__(self, "nulls", replacement)

    @property
    def step(self) -> Fraction:
        """The grid as an exact decimal fraction."""
        return decimal(self.grid)

    @property
    def lowest(self) -> int:
        """The lower limit in grid steps."""
        return int(decimal(self.low) / self.step)

    @property
    def highest(self) -> int:
        """The upper limit in grid steps."""
        return int(decimal(self.high) / self.step)

    @property
    def reach(self) -> int:
        """The largest size of a value, in grid steps."""
        return max(abs(self.lowest), abs(self.highest))

    @property
    def cells(self) -> int:
        """Number of values on the grid."""
        return self.highest - self.lowest + 1

    @property
    def keeps_every_row(self) -> bool:
        """True where no row can drop out because of this column."""
        return self.nulls != "drop"

    def index(self, value: float) -> int:
        """Grid step of a single value, as the engines compute it: clip, then floor(x/g + ½)."""
        clipped = min(max(float(value), self.low), self.high)
        return min(max(int((clipped / self.grid + 0.5) // 1), self.lowest), self.highest)

    def null_index(self) -> int | None:
        """Grid step that takes the place of a missing value; None where it has none."""
        return None if isinstance(self.nulls, str) else self._on_grid("nulls", self.nulls)

    def words(self) -> str:
        """What is declared, in a line."""
        return f"{_made(self.value)}numbers from {self.low:.6g} to {self.high:.6g}, in steps of {self.grid:.6g}"

    def to_dict(self) -> dict[str, Any]:
        """The declaration as plain data."""
        plain = {"low": self.low, "high": self.high, "grid": self.grid, "nulls": self.nulls}
        return plain | _given(value=self.value and self.value.text, missing=list(self.missing))


def _words(words: Any, kinds: tuple[type, ...] = (str,)) -> tuple[Any, ...]:
    listed = isinstance(words, list | tuple)
    if not listed or not all(isinstance(one, kinds) and not isinstance(one, bool) for one in words):
        raise WrongType("missing", words, "must be a list of what stands for a missing value", 'Pass ["N", "NA"].')
    _check_lengths("missing", words)
    return tuple(words)


def _made(value: RowExpression | None) -> str:
    """The formula of a computed column, before what is said of it."""
    return "" if value is None else f"{value.text}: "


def _check_lengths(name: str, words: Iterable[Any]) -> None:
    if any(len(str(word)) > LONGEST_LABEL for word in words):
        raise InvalidParameter(name, "…", f"must have at most {LONGEST_LABEL:,} characters each", "Shorten them.")


def _given(**settings: Any) -> dict[str, Any]:
    """The settings that are not at their default."""
    return {name: value for name, value in settings.items() if value}


def _default_grid(low: Fraction, high: Fraction) -> float:
    """The coarsest power of ten that makes 1,000 steps or more and divides both limits, which are decimals."""
    power = len(str(int(high - low)))
    while any(end % Fraction(10) ** power for end in (low, high)) or high - low < 1000 * Fraction(10) ** power:
        power -= 1
    return float(Fraction(10) ** power)


@dataclass(frozen=True)
class Categories(ForReaders):
    """A column of labels from a public list.

    Parameters
    ----------
    labels
        All possible values, in the order in which cells are numbered: all text, all whole numbers, or all booleans.
    nulls, unknown
        What to do with missing values, and with values that are not on the list: ``"drop"`` the row, ``"refuse"``
        the data set, or the label that takes their place, written ``"=label"`` or as a whole number or boolean.
    value
        A formula of other declared columns, such as ``Formula("year(born)")``, instead of a column of the source.
    missing
        Words that stand for a missing value, such as ``["N", "NA"]``.
    aliases
        Other spellings, with the label that each means: ``{"Nroth": "north"}``.
    ignore_case
        Ignore the case of the letters A to Z, and blanks around a label.
    label
        What readers are told in the place of the column's name.

    Examples
    --------
    >>> Categories(["a", "b", "other"], unknown="=other").replacement("unknown")
    2
    """

    labels: Sequence[Label]
    nulls: Label = "drop"
    unknown: Label = "drop"
    value: RowExpression | None = None
    missing: Sequence[str] = ()
    aliases: Mapping[str, str] = field(default_factory=dict, hash=False)
    ignore_case: bool = False
    computed_kinds: ClassVar[tuple[str, ...]] = ("number", "condition", "label")

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.labels, str) or not isinstance(self.labels, Sequence):
            raise WrongType("labels", self.labels, "must be a list of labels", 'Pass ["north", "south"].')
        labels = tuple(self.labels)
        kinds = {type(label) for label in labels}
        if not labels or len(kinds) != 1 or not kinds <= {str, int, bool}:
            raise WrongType(
                "labels",
                self.labels,
                "must be a non-empty list of only text, only whole numbers or only booleans",
                "Write numbers with decimals as text.",
            )
        if len(set(labels)) != len(labels):
            raise InvalidParameter("labels", self.labels, "must not repeat a label", "List every label once.")
        if len(labels) > MOST_CELLS:
            raise InvalidParameter("labels", "…", f"must be at most {MOST_CELLS:,}", "Group the labels.")
        object.__setattr__(self, "labels", labels)
        self.replacement("nulls")
        self.replacement("unknown")
        object.__setattr__(self, "missing", _words(self.missing))
        self.spellings()
        object.__setattr__(self, "aliases", requirements.Frozen(self.aliases))

    @staticmethod
    def coded(codes: Mapping[Any, str], *, aliases: Mapping[str, str] | None = None, **settings: Any) -> Categories:
        """Labels of coded data, by their codes; the other settings are those of `Categories`.

        Examples
        --------
        >>> Categories.coded({1: "men", 2: "women"}, missing=["N"]).labels
        ('men', 'women')
        """
        requirements.instance("codes", codes, Mapping, '{1: "men", 2: "women"}')
        spelled = {str(code): label for code, label in codes.items()}
        return Categories(list(dict.fromkeys(spelled.values())), aliases=spelled | dict(aliases or {}), **settings)

    def spellings(self) -> dict[str, int]:
        """The other spellings of labels, each with its code; letters A to Z in lower case where case is ignored."""
        requirements.instance("ignore_case", self.ignore_case, bool, "True or False")
        aliases: Any = self.aliases
        if not isinstance(aliases, Mapping) or not all(isinstance(one, str) for one in aliases):
            raise WrongType("aliases", aliases, "must give the label of each spelling", 'Pass {"Nroth": "north"}.')
        if (aliases or self.ignore_case) and not isinstance(self.labels[0], str):
            raise WrongType("labels", self.labels, "must be text where they have other spellings", 'Write "1" for 1.')
        if self.ignore_case:
            _check_lengths("labels", [*self.labels, *aliases])
        found: dict[str, int] = {}
        own = {label: label for label in self.labels if self.ignore_case}
        for spelling, label in [*own.items(), *aliases.items()]:
            if label not in self.labels or (spelling in self.labels and spelling != label):
                raise InvalidParameter("aliases", {spelling: label}, "must lead to a label", "Add it to the labels.")
            key, code = self.folded(spelling), self.labels.index(label)
            if found.setdefault(key, code) != code:
                raise InvalidParameter("aliases", spelling, "would mean two labels", "Spell the labels apart.")
        return found

    def folded(self, text: str) -> str:
        """The text under which a spelling is looked up."""
        return text.strip(" \t").translate(ASCII_LOWER) if self.ignore_case else text

    def replacement(self, policy: Literal["nulls", "unknown"]) -> int | None:
        """Code of the label that takes the place of a missing or unknown value; None where it is dropped or refused."""
        value = getattr(self, policy)
        if value in ("drop", "refuse"):
            return None
        label = value[1:] if isinstance(value, str) and value.startswith("=") else value
        same_kind = type(label) is type(self.labels[0]) and (not isinstance(value, str) or value.startswith("="))
        if not same_kind or label not in self.labels:
            raise InvalidParameter(
                policy,
                value,
                'must be "drop", "refuse", or one of the labels written "=label"',
                f'Write {policy} = "=…" with a label from the list.',
            )
        return self.labels.index(label)

    @property
    def cells(self) -> int:
        """Number of labels."""
        return len(self.labels)

    @property
    def keeps_every_row(self) -> bool:
        """True where no row can drop out because of this column."""
        return "drop" not in (self.nulls, self.unknown)

    def words(self) -> str:
        """What is declared, in a line."""
        return f"{_made(self.value)}{self.cells} labels: {', '.join(map(str, self.labels))}"

    def to_dict(self) -> dict[str, Any]:
        """The declaration as plain data."""
        plain = {"categories": list(self.labels), "nulls": self.nulls, "unknown": self.unknown}
        others = {"aliases": dict(self.aliases), "ignore_case": self.ignore_case}
        return plain | _given(value=self.value and self.value.text, missing=list(self.missing), **others)


@dataclass(frozen=True)
class PrivateLabels(ForReaders):
    """A column of labels whose list is not public, such as place names or search words; whole numbers count as text.

    Nothing can be released by it, except which of its labels are common: `Session.groups`. The released list then
    declares the column. Rows without a label count nowhere.

    Examples
    --------
    >>> PrivateLabels().to_dict()
    {'unlisted': True}
    """

    keeps_every_row: ClassVar[bool] = False
    value: ClassVar[None] = None
    computed_kinds: ClassVar[tuple[str, ...]] = ()

    def words(self) -> str:
        """What is declared, in a line."""
        return "labels that are not public"

    def to_dict(self) -> dict[str, Any]:
        """The declaration as plain data."""
        return {"unlisted": True}


Column = Bounds | Categories | PrivateLabels


# ---- Bands: a number that is published in classes, such as ages 0–15, 16–24 and 25–64


@dataclass(frozen=True, kw_only=True)
class Bands(Categories):
    """A column of numbers, read as the band that each falls into.

    A band holds its lower edge and not its upper one; the last band holds both. Numbers outside all bands are
    ``unknown``.

    Parameters
    ----------
    edges
        The edges of the bands, in order.
    labels
        What the bands are called; by default what they hold.
    nulls, unknown, value
        As for `Categories`.

    Examples
    --------
    >>> Bands(edges=[0, 16, 25, 65, 120]).labels
    ('0–15', '16–24', '25–64', '65–120')
    >>> Bands(edges=[0, 0.5, 1]).labels
    ('0–<0.5', '0.5–1')
    """

    labels: Sequence[Label] = ()
    edges: Sequence[float]
    computed_kinds: ClassVar[tuple[str, ...]] = ("number",)

    def __post_init__(self) -> None:
        edges: Any = self.edges
        listed = isinstance(edges, list | tuple) and len(edges) > 2
        numbers = [requirements.finite("bands", edge) for edge in edges] if listed else []
        if not listed or any(low >= high for low, high in pairwise(numbers)):
            raise InvalidParameter("bands", edges, "must be three or more increasing numbers", "Pass [0, 16, 25, 65].")
        object.__setattr__(self, "edges", tuple(numbers))
        labels: Any = self.labels
        if isinstance(labels, list | tuple) and not labels:
            object.__setattr__(self, "labels", _labels(numbers))
        super().__post_init__()
        if self.cells != len(numbers) - 1:
            raise InvalidParameter(
                "labels", self.labels, f"must be {len(numbers) - 1}, one per band", "Name each band."
            )
        if self.aliases or self.ignore_case or self.missing:
            raise InvalidParameter(
                "bands", edges, "have no other spellings or missing words", "Set them on the number."
            )

    def to_dict(self) -> dict[str, Any]:
        """The declaration as plain data."""
        return {"bands": list(self.edges), **super().to_dict()}


def _labels(edges: Sequence[float]) -> tuple[str, ...]:
    """The name of each band; bands between whole numbers are named as ages are."""
    whole = all(edge.is_integer() for edge in edges)
    named = []
    for place, (low, high) in enumerate(pairwise(edges), start=2):
        last, before = place == len(edges), "" if whole else "<"
        high = high if last or not whole else high - 1
        named.append(f"{low:.15g}" if high == low else f"{low:.15g}–{'' if last else before}{high:.15g}")
    return tuple(named)


# ---- Dates: a column of days, months or years between two public dates, counted in whole numbers


Order = Literal["ymd", "dmy", "mdy"]
EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Dates(Bounds):
    """A column of dates: clipped to [low, high] and counted in days since 1970-01-01, months since then, or years.

    Questions about numbers release these counts: the median of dates is a day's number, and `day` is its date. Formulas
    read the date: ``"year(born)"``, ``"age(born, 2024-06-30)"``, ``"left - entered"`` in days.

    Parameters
    ----------
    low, high
        Public bounds: dates, or text such as ``"2024-01-31"``. Dates outside are moved to the nearer limit.
    grid
        ``"day"``, ``"month"`` or ``"year"``.
    nulls
        What to do with missing values and text that is not a date: ``"drop"`` the row, ``"refuse"`` the data set, or
        the date that takes their place.
    value, missing
        As for `Bounds`.
    order
        How text is written: ``"ymd"``, ``"dmy"`` or ``"mdy"``, between dashes, dots or slashes. A time after the date
        is ignored.

    Examples
    --------
    >>> born = Dates("1900-01-01", "2024-12-31")
    >>> born.day(born.lowest), born.cells
    (datetime.date(1900, 1, 1), 45656)
    """

    low: Any
    high: Any
    grid: Any = "day"
    nulls: Any = "drop"
    value: RowExpression | None = None
    missing: Sequence[str | float] = ()
    unit: str = "day"
    order: Order = "ymd"
    computed_kinds: ClassVar[tuple[str, ...]] = ("date",)

    def __post_init__(self) -> None:
        if isinstance(self.grid, str):  # a copy with other settings holds counts already
            object.__setattr__(self, "unit", one_of("grid", self.grid, ("day", "month", "year"), 'Write "month".'))
            for name in ("low", "high", "nulls"):
                given = getattr(self, name)
                if name != "nulls" or not (isinstance(given, str) and given in ("drop", "refuse")):
                    object.__setattr__(self, name, _count(_date(name, given), self.unit))
        one_of("order", self.order, ("ymd", "dmy", "mdy"), 'Write "dmy" for 31.01.2024.')
        object.__setattr__(self, "grid", 1.0)
        super().__post_init__()

    def day(self, count: float) -> date:
        """The date of a count; the first day of a month or year.

        Examples
        --------
        >>> Dates("2020-01-01", "2024-12-01", grid="month").day(649)
        datetime.date(2024, 2, 1)
        """
        whole = round(count)
        if self.unit == "day":
            return date.fromordinal(EPOCH.toordinal() + whole)
        return date(whole, 1, 1) if self.unit == "year" else date(1970 + whole // 12, whole % 12 + 1, 1)

    def words(self) -> str:
        return f"{_made(self.value)}dates from {self.day(self.low)} to {self.day(self.high)}, by {self.unit}"

    def to_dict(self) -> dict[str, Any]:
        """The declaration as plain data."""
        said = super().to_dict() | {"low": self.day(self.low), "high": self.day(self.high), "grid": self.unit}
        if not isinstance(self.nulls, str):
            said["nulls"] = self.day(self.nulls)
        order = {} if self.order == "ymd" else {"order": self.order}
        return {name: str(value) if isinstance(value, date) else value for name, value in said.items()} | order


def _count(day: date, unit: str) -> int:
    if unit == "day":
        return day.toordinal() - EPOCH.toordinal()
    return day.year if unit == "year" else (day.year - 1970) * 12 + day.month - 1


def _date(name: str, given: Any) -> date:
    try:
        return date.fromisoformat(str(given)[:10])
    except ValueError:
        raise WrongType(name, given, "must be a date", 'Write "2024-01-31".') from None
