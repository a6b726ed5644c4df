"""Form fields: the places of a plan file that a page lets one change, each with its label, help and what is typed."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from discreet.plans.skeleton import GalleryEntry, SettingHelp, gallery
from discreet.studio.desk import Draft
from discreet.studio.toml_document import GONE, Place, value_at

# ---- Typed text: what a person types into a field, as a value of the plan file, and back.
#
# What does not fit stays as it was typed: the plan file then holds text where a number belongs, its reader says so, and
# nothing that was typed is lost.


_DIGITS = 100  # of a number; Python reads none of some thousands
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def typed_value(kind: str, text: str) -> Any:
    """The value that was typed; `GONE` for an empty field.

    Examples
    --------
    >>> typed_value("number", "0.50"), typed_value("numbers", "0, 18, 65"), typed_value("number", "about ten")
    (0.5, [0, 18, 65], 'about ten')
    >>> typed_value("labels", "north, south"), typed_value("bound", "200,000"), typed_value("numbers", "0, 1,000")
    (['north', 'south'], 200000, [0, 1000])
    """
    if not text.strip():
        return GONE
    return _READ.get(kind, lambda typed: typed)(text)


_THOUSANDS = re.compile(r"(?<=\d)[,\s_'’](?=\d{3}(?!\d))")
"""A mark between thousands: 200,000 and 200 000 are numbers."""


def _number(text: str) -> Any:
    stripped = _THOUSANDS.sub("", text.strip())
    for read in (int, float):
        try:
            value = read(stripped)
        except ValueError:
            continue
        return value if abs(value) < 1e300 else text  # infinity and nan are no numbers of a plan
    return text


def _number_or_day(text: str) -> Any:
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        return _number(text)


def _numbers(text: str) -> Any:
    mark = r",\s+" if re.search(r",\s", text) else ","  # with spaces between numbers, a comma inside one is its own
    values = [_number(part) for part in re.split(mark, text.strip().strip("[]")) if part.strip()]
    return text if any(isinstance(value, str) for value in values) else values


def _labels(text: str) -> Any:
    """Labels between commas or line ends; quoted as in TOML where they hold either."""
    given = _toml(f"[{text}]") if '"' in text else None
    if isinstance(given, list):
        return given
    parts = [part.strip() for part in text.replace("\n", ",").split(",")]
    return [_label(part) for part in parts if part]


def _label(text: str) -> Any:
    """Labels that look like whole numbers, true or false are those: files hold them as such."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isdecimal() and len(text) < _DIGITS and text == str(int(text)) else text


def _toml(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError, KeyError):
        return text


def _codes(text: str) -> Any:
    """Codes with their words: 1 = men, 2 = women, between commas or line ends; others stay text."""
    pairs = [part.partition("=") for part in text.replace("\n", ",").split(",") if part.strip()]
    fit = all(mark and code.strip() and word.strip() for code, mark, word in pairs)
    return {code.strip(): word.strip() for code, _, word in pairs} if fit else text


def _flag(text: str) -> Any:
    return {"true": True, "false": False}.get(text, text)


_READ = {
    "number": _number,
    "bound": _number_or_day,
    "numbers": _numbers,
    "labels": _labels,
    "label": _label,
    "codes": _codes,
    "words": lambda text: [str(one) for one in _labels(text)],
    "columns": lambda text: text.split("\n"),
    "flag": _flag,
    "toml": _toml,
}


def shown_text(kind: str, value: Any) -> str:
    """A value of the plan file as a field shows it.

    Examples
    --------
    >>> typed_value("codes", "1 = men, 2 = women"), shown_text("codes", {"1": "men", "2": "women"})
    ({'1': 'men', '2': 'women'}, '1 = men, 2 = women')
    >>> shown_text("numbers", [0, 18.5]), shown_text("labels", ["a", "b, c"]), shown_text("toml", {"low": 0})
    ('0, 18.5', '"a", "b, c"', '{ low = 0 }')
    """
    if value is GONE or value is None:
        return ""
    if kind == "columns":
        return "\n".join(map(str, value)) if isinstance(value, list) else str(value)
    if kind == "words" and isinstance(value, list) and not any(set(str(one)) & set(',"\n') for one in value):
        return ", ".join(map(str, value))
    if kind in ("numbers", "labels", "words") and isinstance(value, list):
        return _listed(kind, value)
    if kind == "codes" and isinstance(value, Mapping):
        named = {str(code): word for code, word in value.items()}
        pairs = ", ".join(f"{code} = {word}" for code, word in named.items())
        return pairs if not named or _codes(pairs) == named else _plain(value)
    return _plain(value) if kind == "toml" else _word(value)


def _listed(kind: str, values: list[Any]) -> str:
    words = [_word(value) for value in values]
    plain = all(typed_value("label", word) == value for word, value in zip(words, values, strict=True))
    if kind == "numbers" or (
        plain and not any(set(word) & set(',"\n') or word != word.strip() or not word.isprintable() for word in words)
    ):
        return ", ".join(words)
    return ", ".join(_plain(value) for value in values)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) >= 10_000:
        return f"{value:,}"
    return repr(value) if isinstance(value, float) else value if isinstance(value, str) else _plain(value)


def _plain(value: Any) -> str:
    """A value as TOML writes it on one line."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(str(key))} = {_plain(one)}" for key, one in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_plain, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    return repr(value) if isinstance(value, int | float) else str(value)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    """Text as TOML quotes it: as JSON does, and without the one control character that JSON lets through."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


# ---- Form fields: the places of a plan file that a page lets one change, each with its label, help and what is typed.


_EPSILONS, _SHARES = (0.01, 10.0), (0.1, 10.0)
_SPENDING = {
    "epsilon": ("number", "How much of the budget this may use (ε). Less is more private and less exact.", _EPSILONS),
    "delta": ("number", "A small chance, such as 0.000001, with which ε may fail. Few questions need one.", None),
    "rho": ("number", "ρ of zero-concentrated differential privacy.", _EPSILONS),
    "mu": ("number", "μ of Gaussian differential privacy.", _EPSILONS),
    "weight": ("number", "How much of the budget this gets, compared with the other questions.", _SHARES),
}
_COLUMN = {
    "low": ("bound", "lowest value", "The lowest that can occur, as everybody knows it: 0 for an age or an income."),
    "high": (
        "bound", "highest value", "120 for an age, 200,000 for a yearly income. Higher values count as this one."
    ),
    "grid": ("toml", "step", "Values are rounded to multiples of it: 1 for years, 0.01 for money. It may stay empty."),
    "categories": ("labels", "labels", "Every label that can occur, with commas between; from the questionnaire, say."),
    "labels": ("codes", "codes and their words", "Every code that can occur, with its word: 1 = men, 2 = women."),
    "bands": ("numbers", "ends of the bands", "0, 18, 65, 120 makes 0–17, 18–64 and 65–120, with 120 in the last."),
    "value": ("text", "computed from", "A column of the plan, or a formula such as income / hours."),
    "label": ("text", "called", "What readers are told: yearly income. It may stay empty."),
    "measured_in": ("text", "measured in", "The unit: years, €, dollars."),
    "unlisted": ("flag", "labels are not public", "Only the question “Which labels occur?” can use the column."),
    "unknown": ("text", "other labels", "What happens to labels that are not on the list: drop, or =other."),
    "missing": ("labels", "read as missing", "Codes that stand for no answer: 99, N, unknown."),
    "nulls": ("toml", "missing values", "Empty: rows without a value are dropped. Or a value that takes their place."),
}  # fmt: skip
_LABELLED = {"categories", "labels", "bands"}
_SHOWN = {
    "number": ("low", "high", "grid"), "labels": ("categories",), "codes": ("labels",), "bands": ("bands",),
    "unlisted": ("unlisted",),
}  # fmt: skip
_MORE = {
    "number": ("nulls", "missing", "label", "measured_in"), "labels": ("nulls", "missing", "label"),
    "codes": ("nulls", "missing", "label"), "bands": ("categories", "label"), "unlisted": (),
}  # fmt: skip
"""What else a column of each kind may have."""
_TOP: dict[Place, tuple[str, str, str]] = {
    ("title",): ("text", "title", "What the report is called."),
    ("budget", "epsilon"): (
        "number", "budget ε", "What everything that you ever publish about these people may use. 1 is a common choice."
    ),
    ("budget", "delta"): (
        "number", "budget δ", "A chance with which the limit ε may fail. Leave it empty unless a question asks for it; "
        "then take less than one in the number of people, such as 0.000001."
    ),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Field:
    """One place of the plan file in a form.

    Attributes
    ----------
    place, kind
        Where it stands, and how it is typed.
    label, words
        What it is called, and what it means.
    text
        What the file says now, as it would be typed.
    options
        What to choose from: of a list, or of several at once where ``several``.
    problem
        What is wrong with it.
    slide
        Ends of a slider, on a logarithmic scale.
    """

    place: Place
    kind: str
    label: str
    words: str
    text: str
    options: tuple[tuple[str, str], ...] = ()
    several: bool = False
    required: bool = False
    problem: str | None = None
    slide: tuple[float, float] | None = None

    @property
    def name(self) -> str:
        """Its name in a form: the place itself, since names of columns may hold anything."""
        return json.dumps([*self.place])

    @property
    def id(self) -> str:
        """Its name in a page."""
        return f"f{hashlib.sha256(self.name.encode()).hexdigest()[:12]}"

    @property
    def chosen(self) -> tuple[str, ...]:
        """The options that are chosen, of several."""
        return tuple(self.text.split("\n")) if self.text else ()

    @property
    def picked(self) -> str:
        """The same in words."""
        named = dict(self.options)
        return " and ".join(named.get(one, one) for one in self.chosen) or ("which?" if self.required else "nothing")

    @property
    def long(self) -> bool:
        """True where the field needs more than a line."""
        return self.kind in ("labels", "codes", "source")


def place_of_name(name: str) -> Place | None:
    """The place that a form's field is about; None for other fields."""
    try:
        place = json.loads(name)
    except (ValueError, RecursionError):
        return None
    fits = isinstance(place, list) and place and all(isinstance(one, str | int) for one in place)
    return tuple(place) if fits and not any(isinstance(one, bool) for one in place) else None


def kind_at(place: Place, data: Mapping[str, Any]) -> str:
    """The kind of field in which the value of a place is typed."""
    if place in _TOP:
        return _TOP[place][0]
    last = place[-1]
    if place[0] == "scenario":
        return "numbers" if last == "shares" else "number"
    if place[0] == "release" and len(place) == 3:
        if last in _SPENDING:
            return "number"
        release = value_at(data, place[:2])
        entry = _entry(release.get("ask")) if isinstance(release, Mapping) else None
        return next((one.kind for one in entry.settings if one.name == last), "text") if entry else "text"
    if place[:2] == ("schema", "columns") and last == "missing" and kind_of(value_at(data, place[:3])) != "number":
        return "words"  # a label is compared as text, whatever it looks like
    if place[:2] == ("schema", "columns") and len(place) == 4:
        return _COLUMN[str(last)][0] if last in _COLUMN else "text" if last == "source" else "toml"
    return "number" if last in ("total", "groups", "rows", "size", *_SPENDING) else "text"


def _entry(ask: Any) -> GalleryEntry | None:
    return next((one for one in gallery() if one.ask == ask), None)


_CODES = re.compile(r"^(release '.*?': )?|( Nothing was (spent|read)\.)$")


def _field(draft: Draft, place: Place, kind: str, label: str, words: str, **more: Any) -> Field:
    value = value_at(draft.data, place)
    text = shown_text(kind, value)
    problem = draft.problems.get(place)
    if kind in ("number", "bound") and isinstance(value, str):
        problem = f"“{text}” is not a number. Write digits, for example 40 or 1,000."
    elif not text or _waits(draft, value):
        problem = None  # nothing was typed, so nothing is wrong yet
    said = None if problem is None else plain_words(problem)
    return Field(place=place, kind=kind, label=label, words=words, text=text, problem=said, **more)


def _waits(draft: Draft, value: Any) -> bool:
    """True where a setting names a column of which too little is known."""
    names = value if isinstance(value, list) else [value]
    return any(("schema", "columns", name) in draft.problems for name in names if isinstance(name, str))


def plain_words(problem: str) -> str:
    """A refusal of the plan file, without what only its text shows."""
    return _CODES.sub("", problem)


def column_note(draft: Draft, name: str) -> tuple[str, bool]:
    """The next thing to do about a column, and whether something that was typed is wrong."""
    given = value_at(draft.data, ("schema", "columns", name))
    problem = draft.problems.get(("schema", "columns", name))
    if isinstance(given, Mapping) and given.get("labels") == {}:
        return f"Give every code of {name} with its word.", False
    if isinstance(given, Mapping) and given.get("bands") == []:
        return f"Give the ends of the bands of {name}.", False
    if problem is None or not isinstance(given, Mapping):
        return (plain_words(problem) if problem else ""), problem is not None
    low, high = given.get("low"), given.get("high")
    if any(isinstance(end, str) for end in (low, high)):
        return "", False  # the field says so
    if "categories" in given:
        return (
            (plain_words(problem), True) if given["categories"] else (f"List the labels that {name} can have.", False)
        )
    if {"categories", "bands", "labels", "value", "unlisted"} & set(given):
        return plain_words(problem), True
    if low is None or high is None:
        return f"Give the {'lowest' if low is None else 'highest'} {name} that can occur.", False
    if low >= high:
        return f"The lowest {name} must be below the highest.", True
    return plain_words(problem), True


def column_summary(given: Any) -> str:
    """A declaration in a line: what a closed part of the page says."""
    if not isinstance(given, Mapping):
        return ""
    if "unlisted" in given:
        return "labels that are not public"
    if isinstance(given.get("labels"), Mapping):
        return ", ".join(map(str, given["labels"].values()))
    if isinstance(given.get("categories"), list):
        return ", ".join(map(str, given["categories"]))
    if isinstance(given.get("bands"), list):
        return f"bands that end at {', '.join(map(_word, given['bands']))}"
    if "low" in given and "high" in given:
        unit = f" {given['measured_in']}" if "measured_in" in given else ""
        return f"{_word(given['low'])} to {_word(given['high'])}{unit}"
    return ", ".join(given)


def fact_fields(draft: Draft) -> list[Field]:
    """Title and budget."""
    budget = draft.data.get("budget")
    others = [key for key in ("rho", "mu") if isinstance(budget, Mapping) and key in budget]
    fields = []
    for place, (kind, label, words) in _TOP.items():
        if place[0] != "budget" or not others:
            slide = _EPSILONS if place[-1] == "epsilon" else None
            fields.append(_field(draft, place, kind, label, words, slide=slide))
    for key in others:
        fields.append(_field(draft, ("budget", key), "number", f"budget {key}", _SPENDING[key][1], slide=_EPSILONS))
    return fields


_EXPECTED = {
    "mean": "A guess: the average that you expect.",
    "sd": "A guess: how far values lie from it, on average. Two thirds of them lie within it.",
    "shares": "A guess: the share of each label, which add up to 1.",
}


def scenario_fields(draft: Draft, read: Sequence[str]) -> list[Field]:
    """The data that a preview makes up: how many rows, and what is expected of the columns that are read."""
    fields = [_field(draft, ("scenario", "rows"), "number", "rows", "About how many there are. Empty: 1,000.")]
    for name in read:
        kind = kind_of(value_at(draft.data, ("schema", "columns", name)))
        for key in {"number": ("mean", "sd"), "labels": ("shares",), "codes": ("shares",)}.get(kind, ()):
            place: Place = ("scenario", "columns", name, key)
            called = "standard deviation" if key == "sd" else key
            fields.append(_field(draft, place, kind_at(place, {}), f"{called} of {name}", _EXPECTED[key]))
    return fields


def unit_fields(draft: Draft, columns: Sequence[str]) -> list[Field]:
    """Who is protected."""
    chosen = value_at(draft.data, ("schema", "unit", "column"))
    names = [*columns] if chosen is GONE or chosen in columns else [*columns, str(chosen)]
    options = (("", "each row is a different person"), *((name, f"a person is told by {name}") for name in names))
    help_words = "Can somebody have several rows? Then choose the column that tells people apart."
    place: Place = ("schema", "unit", "column")
    fields = [_field(draft, place, "text", "who is protected", help_words, options=options)]
    if chosen is GONE:
        return fields
    limits = value_at(draft.data, ("schema", "unit"))
    used = [key for key in ("groups", "rows") if isinstance(limits, Mapping) and key in limits] or ["total"]
    words = {
        "total": ("most rows per person", "Rows beyond are dropped at random. Every row more adds noise."),
        "groups": ("most groups per person", "In how many groups a person counts."),
        "rows": ("most rows per group", "How many rows of a person count in each group."),
    }
    return fields + [_field(draft, ("schema", "unit", key), "number", *words[key]) for key in used]


def kind_of(given: Any) -> str:
    """The kind of a declaration: numbers, labels, codes of labels, bands, or labels that are not public."""
    held = set(given) if isinstance(given, Mapping) else set()
    named = {"bands": "bands", "labels": "codes", "categories": "labels", "unlisted": "unlisted"}
    return next((kind for key, kind in named.items() if key in held), "number")


def column_fields(draft: Draft, name: str) -> tuple[list[Field], list[Field]]:
    """The declaration of one column: what it needs and where that is known from, and the rest."""
    place: Place = ("schema", "columns", name)
    declared = value_at(draft.data, place)
    given = declared if isinstance(declared, Mapping) else {}
    kind = kind_of(given)
    usual = (*_SHOWN[kind], *_MORE[kind])
    shown = [*usual, *(key for key in given if key not in (*usual, "source"))]
    first: list[Field] = []
    rest: list[Field] = []
    for key in shown:
        typed, label, words = _COLUMN.get(key, ("toml", key, "As in a plan file."))
        typed = "words" if key == "missing" and kind != "number" else typed
        if key == "categories" and kind == "bands":
            label, words = "names of the bands", "0–17, 18–64, 65+, if they shall have names of their own."
        needed = key in _SHOWN[kind] and key not in ("grid", "unlisted")
        main = needed or key in ("unlisted", "value")
        (first if main else rest).append(_field(draft, (*place, key), typed, label, words, required=needed))
    words = "Where this is public: a questionnaire, a law, last year's table. Reviewers need it."
    return [*first, _field(draft, (*place, "source"), "source", "known from", words)], rest


_YES_OR_NO = (("", "usual"), ("true", "yes"), ("false", "no"))


def question_fields(draft: Draft, position: int) -> tuple[list[Field], list[Field]]:
    """The settings of one release: what most people need, and the rest."""
    release = draft.data["release"][position]
    entry = _entry(release.get("ask")) if isinstance(release, Mapping) else None
    if entry is None:
        return [], []
    first: list[Field] = []
    rest: list[Field] = []
    for setting in entry.settings:
        main = (
            setting.required
            or setting.name in ("by", "expected_sd", "expected_rows", "bins")
            or setting.name in release
        )
        (first if main else rest).append(_setting(draft, ("release", position, setting.name), setting, release))
    unit = value_at(draft.data, ("schema", "unit", "column"))
    spent = [_spending(draft, position, key) for key in _paid(draft, release)]
    titled = _field(draft, ("release", position, "title"), "text", "title", "What readers are shown.")
    limits = [] if unit is GONE else [
        _field(draft, ("release", position, "total"), "number", "most rows per person", "Here only; 1 counts people.")
    ]  # fmt: skip
    if isinstance(value_at(draft.data, ("schema", "features")), Mapping):
        place: Place = ("release", position, "per_unit")
        words = "Ask of the features that the plan declares: each person counts once, with all rows."
        limits.append(_field(draft, place, "flag", "one row per person", words, options=_YES_OR_NO))
    words = "Drop rows at random first, such as { poisson = 0.2 }: quicker, and less accurate."
    omitted = _field(draft, ("release", position, "omit"), "toml", "omit", words)
    words = "A condition on columns of the plan: age >= 18 and region != 'Islands'. Empty: all rows."
    filtered = _field(draft, ("release", position, "where"), "text", "only rows where", words)
    return [*first, *spent], [titled, filtered, *rest, *limits, omitted]


_CHOICE = re.compile(r"\{(\w+)\}")
_BY_ITS_NAME = re.compile(r"([^{}]+?)(?: of)? \{subject\}")
"""Headings of a number: Mean {subject}, Variance of {subject}."""


def sentence(draft: Draft, position: int, fields: Sequence[Field], noun: str) -> list[str | Field]:
    """A question as people ask it: words, and between them the fields in which they choose; empty for unknown ones."""
    release = draft.data["release"][position]
    entry = _entry(release.get("ask")) if isinstance(release, Mapping) else None
    if entry is None:
        return []
    known: dict[str, str | Field] = {str(field.place[-1]): field for field in fields}
    words = entry.heading.removesuffix("?")
    if alike := _alike(entry):
        place: Place = ("release", position, "ask")
        known["ask"] = _field(draft, place, "text", "which number", entry.answers, options=tuple(alike.items()))
        words = "What is the {ask} of {subject}"
    words = words.replace("{subject}", "{column} = {label}" if "label" in known else "{column}")
    more = {"by": " by {by}", "on": " among {on}" if entry.heading.endswith("?") else " on {on}"}
    words += "".join(said for name, said in more.items() if name in known and f"{{{name}}}" not in words)
    known["noun"] = noun
    parts = _CHOICE.split(words + "?" * (bool(alike) or entry.heading.endswith("?")))
    return [known.get(part, part) if place % 2 else part for place, part in enumerate(parts) if part]


def _alike(entry: GalleryEntry) -> dict[str, str]:
    """Questions that could stand in the place of one, with the number that each asks for; none for most.

    They need a column, may be asked by others, and have that number for a heading.
    """
    found = {}
    for one in gallery():
        named = _BY_ITS_NAME.fullmatch(one.heading)
        needed = [setting.name for setting in one.settings if setting.required]
        if named and needed == ["column"] and one.topic == entry.topic and "by" in {each.name for each in one.settings}:
            found[one.ask] = named[1].lower()
    return found if entry.ask in found and len(found) > 1 else {}


def unfit(ask: str, release: Mapping[str, Any]) -> set[str]:
    """The settings of a release that another question does not take."""
    entry = _entry(ask)
    every = {setting.name for one in gallery() for setting in one.settings}
    return set() if entry is None else {*release} & every - {setting.name for setting in entry.settings}


def _paid(draft: Draft, release: Mapping[str, Any]) -> list[str]:
    """The settings of a release's cost, in the currency of the plan."""
    own = [key for key in ("epsilon", "delta", "rho", "mu") if key in release]
    if not own:
        return ["weight"]
    budget = draft.data.get("budget")
    more = ["delta"] if isinstance(budget, Mapping) and "delta" in budget and "delta" not in own else []
    return own + more


def _spending(draft: Draft, position: int, key: str) -> Field:
    kind, words, slide = _SPENDING[key]
    label = {"epsilon": "ε", "delta": "δ", "rho": "ρ", "mu": "μ", "weight": "weight"}[key]
    return _field(draft, ("release", position, key), kind, label, words, slide=slide)


def _called(name: str, declared: Any) -> str:
    """A column as readers know it, unless another has that name, too."""
    given = declared.values() if isinstance(declared, Mapping) else ()
    labels = [one.get("label") for one in given if isinstance(one, Mapping)]
    label = value_at({"": declared}, ("", name, "label"))
    return label if isinstance(label, str) and label and labels.count(label) == 1 else name


def _setting(draft: Draft, place: Place, setting: SettingHelp, release: Mapping[str, Any]) -> Field:
    label = setting.name.replace("_", " ")
    options: tuple[tuple[str, str], ...] = ()
    declared = value_at(draft.data, ("schema", "columns"))
    names = [*declared] if isinstance(declared, Mapping) else []
    features = value_at(draft.data, ("schema", "features"))
    per_unit = release.get("per_unit") or value_at(draft.data, ("schema", "per_unit")) not in (GONE, False)
    if per_unit and isinstance(features, Mapping):
        names = [*features]
    elif setting.name == "by" and isinstance(declared, Mapping):
        names = [name for name, one in declared.items() if isinstance(one, Mapping) and _LABELLED & set(one)]
    if setting.kind in ("column", "columns"):
        now = value_at(draft.data, place)
        extra = [str(one) for one in (now if isinstance(now, list) else [now]) if one is not GONE and one not in names]
        blank = (("", "–"),) if setting.kind == "column" else ()
        options = (*blank, *((name, _called(name, declared)) for name in [*names, *extra]))
    elif setting.kind == "flag":
        options = _YES_OR_NO
    elif setting.kind == "label":
        about = value_at(declared if isinstance(declared, Mapping) else {}, (str(release.get("column")),))
        codes = about.get("labels") if isinstance(about, Mapping) else None
        labels = [*codes.values()] if isinstance(codes, Mapping) else value_at({"": about}, ("", "categories"))
        if isinstance(labels, list):
            options = (("", "–"), *((shown_text("label", one), shown_text("label", one)) for one in labels))
    return _field(
        draft, place, setting.kind, label, setting.words, options=options, several=setting.kind == "columns",
        required=setting.required,
    )  # fmt: skip
