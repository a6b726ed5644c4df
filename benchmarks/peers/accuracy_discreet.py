"""Many releases of the same statistics with discreet's session."""

import json
import math
import sys

import pyarrow

from discreet import (
    ApproxDP,
    Bounds,
    Categories,
    Contribution,
    Neighbours,
    PrivacyUnit,
    PureDP,
    Schema,
    Session,
    ZeroConcentratedDP,
    __version__,
)

data = json.load(sys.stdin)
low, high = data["bounds"]
size, repeats = len(data["ages"]), data["repeats"]
one = PureDP(1.0)
columns = {
    "age": Bounds(low, high, grid=1, nulls=(low + high) // 2),
    "income": Bounds(0, data["richest"], grid=data["step"]),
    "heaped": Bounds(0, data["richest"], grid=data["step"]),
    "thousands": Bounds(0, data["richest"] / 1000, grid=data["step"] / 1000),
    "wide": Bounds(-data["wide"], data["wide"], grid=1),
    "arm": Categories(["A", "B"]),
    "old": Categories(["no", "yes"], nulls="=no", unknown="=no"),
    "row": Categories(range(4)),
    "column": Categories(range(5)),
}
rows = pyarrow.table(
    {
        "age": data["ages"],
        "income": data["incomes"],
        "heaped": data["heaped"],
        "thousands": [income / 1000 for income in data["incomes"]],
        "wide": data["ages"],
        "arm": ["AB"[place % 2] for place in range(size)],
        "old": ["yes" if age >= 65 else "no" for age in data["ages"]],
        "row": data["rows"],
        "column": data["columns"],
    }
)
known = {"neighbours": Neighbours.REPLACE_ONE, "size": size}
# one row for each yes
said = [
    (person, question) for person, answers in enumerate(data["answers"]) for question, yes in enumerate(answers) if yes
]
replies = pyarrow.table({"person": [str(person) for person, _ in said], "question": [question for _, question in said]})
asked = Schema(
    columns={"question": Categories(range(20))},
    unit=PrivacyUnit("person", Contribution(groups=20, rows=1)),
)


def told(call, ask, times=repeats, **public):
    """The call and what it answered, from a ledger with enough for all of them."""
    session = Session(rows, Schema(columns=columns, **public), ledger=":memory:", budget=PureDP(2.0 * times))
    return {"call": call, "values": [ask(session) for _ in range(times)]}


def answers(times):
    """Totals of twenty answers of each person."""
    each = ApproxDP(1.0, 1e-6)
    session = Session(replies, asked, ledger=":memory:", budget=ApproxDP(float(times), 2e-6 * times))
    return {
        "call": "session.count(by=…)",
        "values": [flat(session.count(guarantee=each, by="question")) for _ in range(times)],
    }


def sharp(ledgers):
    """A count at ε = 2, whose error varies more from release to release: from several ledgers."""
    ask = "session.count(by=…)", lambda session: float(session.count(epsilon=2.0, by="old").value[1])
    return {"call": ask[0], "values": [value for _ in range(ledgers) for value in told(*ask)["values"]]}


def concentrated():
    """A count under ρ, from a ledger that counts in it."""
    schema, each = Schema(columns=columns), ZeroConcentratedDP(2.0)
    session = Session(rows, schema, ledger=":memory:", budget=ZeroConcentratedDP(2.0 * repeats))
    counts = [float(session.count(guarantee=each, by="old").measured[1]) for _ in range(repeats)]
    return {"call": "session.count(by=…)", "values": counts}


def sampled():
    """The medians of many samples; each is a group with its own people."""
    people = data["samples"]
    frame = pyarrow.table(
        {
            "copy": [copy for copy, sample in enumerate(people) for _ in sample],
            "income": [income for sample in people for income in sample],
        }
    )
    schema = Schema(columns={"income": columns["income"], "copy": Categories(range(len(people)))})
    session = Session(frame, schema, ledger=":memory:", budget=one)
    release = session.quantile("income", 0.5, guarantee=one, by="copy", interval=None)
    return {"call": "session.quantile(by=…)", "values": [float(value) for value in release.value]}


def correlated(release):
    """The correlation that is read from a covariance matrix."""
    (first, between), (_, second) = release.matrix
    return float(between / math.sqrt(first * second))


def flat(release):
    """The cells of a table."""
    return [float(cell) for cell in release.value.ravel()]


found = {
    "count": told("session.count(by=…)", lambda session: float(session.count(guarantee=one, by="old").value[1])),
    "sharp count": sharp(4),
    "sum": told("session.sum", lambda session: float(session.sum("age", guarantee=one).value)),
    "mean": told("session.mean", lambda session: session.mean("age", guarantee=one, variance=False).mean),
    "variance": told("session.variance", lambda session: session.variance("age", guarantee=one).variance),
    "median": told(
        "session.quantile", lambda session: float(session.quantile("income", 0.5, guarantee=one, interval=None).value)
    ),
    "concentrated count": concentrated(),
    "share": told(
        "session.proportion",
        lambda session: 100 * float(session.proportion("old", "yes", guarantee=one).measured),
        **known,
    ),
    "sampled median": sampled(),
    "heaped median": told(
        "session.quantile", lambda session: float(session.quantile("heaped", 0.5, guarantee=one, interval=None).value)
    ),
    "grouped median": told(
        "session.quantile(by=…)",
        lambda session: flat(session.quantile("income", 0.5, guarantee=one, by="row", interval=None)),
        repeats // 5,
    ),
    "tied median": told(
        "session.quantile", lambda session: float(session.quantile("age", 0.5, guarantee=one, interval=None).value)
    ),
    "wide median": told(
        "session.quantile", lambda session: float(session.quantile("wide", 0.5, guarantee=one, interval=None).value)
    ),
    "covariance": told(
        "session.covariance_matrix",
        lambda session: float(session.covariance_matrix(["age", "thousands"], guarantee=one).matrix[0, 1]),
        repeats // 5,
    ),
    "correlation": told(
        "session.covariance_matrix",
        lambda session: correlated(session.covariance_matrix(["age", "thousands"], guarantee=one)),
        repeats // 5,
    ),
    "difference": told(
        "session.compare_means",
        lambda session: session.compare_means("age", by="arm", guarantee=one).estimate,
        repeats // 5,
    ),
    "histogram": told(
        "session.histogram",
        lambda session: flat(session.histogram("age", guarantee=one, edges=data["edges"])),
        repeats // 5,
    ),
    "table": told("session.table", lambda session: flat(session.table(["row", "column"], guarantee=one)), repeats // 5),
    "answers": answers(repeats // 5),
    "public mean": told(
        "session.mean", lambda session: float(session.mean("age", guarantee=one, variance=False).value), **known
    ),
    "public variance": told(
        "session.variance", lambda session: session.variance("age", guarantee=one).variance, **known
    ),
}
print(json.dumps({"version": __version__, "answers": found}))
