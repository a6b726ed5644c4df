"""Tables for print: markdown, LaTeX and notebooks show the numbers that a release has, and obey no label."""

import re

import numpy as np
import pyarrow
import pytest

from discreet import Bounds, Categories, Schema, Session
from discreet.results.printed import named_reading

HOSTILE = r"a&b|<i>_%$#{}\~^[x]"


@pytest.fixture
def session() -> Session:
    sexes = np.array(["f", HOSTILE])[np.arange(3000) % 2]
    hours = 20.0 + np.arange(3000) % 31 + 4 * (sexes == "f")
    rows = pyarrow.table({"hours": hours, "age": (np.arange(3000) % 60 + 20).astype(float), "sex": sexes})
    columns = {"hours": Bounds(0, 60, grid=1), "age": Bounds(18, 90, grid=1), "sex": Categories(["f", HOSTILE])}
    return Session(rows, Schema(columns=columns), ledger=":memory:", epsilon=100.0)


def cells(line: str) -> list[str]:
    return [one.strip() for one in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_markdown_has_a_line_for_every_number(session: Session) -> None:
    found = session.mean("hours", by="sex", epsilon=1.0, variance=False)
    head, rule, *lines = found.to_markdown().splitlines()
    assert cells(head) == ["sex", "estimate", "noise interval", "population interval"]
    assert len(cells(rule)) == 4
    assert [float(cells(line)[1]) for line in lines] == pytest.approx(list(found.estimate.values()), abs=0.01)
    assert "<i>" not in "".join(lines)


def test_what_is_measured_stands_beside_the_numbers_where_it_differs(session: Session) -> None:
    head, _, *lines = session.variance("hours", epsilon=1.0).to_markdown().splitlines()
    assert cells(head)[0] == "measure"
    assert len({cells(line)[0] for line in lines}) == len(lines) > 1


@pytest.mark.parametrize("ask", ["mean", "regression"])
def test_latex_obeys_no_label(session: Session, ask: str) -> None:
    found = session.mean("hours", by="sex", epsilon=1.0) if ask == "mean" else None
    text = (found or session.regression("hours", ["age", "sex"], epsilon=1.0)).to_latex()
    body = text[text.index(r"\midrule") : text.index(r"\bottomrule")]
    assert r"a\&b$|$$<$i$>$\_\%\$\#\{\}\textbackslash{}\textasciitilde{}\textasciicircum{}{[}x]" in body
    columns = text.partition(r"\begin{tabular}{")[2].partition("}")[0]
    lines = body.splitlines()[1:]
    assert all(len(re.split(r"(?<!\\)&", line)) == len(columns) for line in lines)
    assert all(line.endswith(r" \\") and not line.startswith("[") for line in lines)


def test_a_summary_is_text_and_a_table(session: Session) -> None:
    found = session.regression("hours", ["age", "sex"], epsilon=1.0)
    summary = found.summary()
    assert isinstance(summary, str)
    shown = summary._repr_html_()
    assert shown.count("<tr>") == 1 + len(found.params)
    assert "<i>" not in shown
    for name, value in found.params.items():
        (line,) = [one for one in summary.lines if one[0] == name]
        assert float(line[1]) == pytest.approx(value, rel=0.01)
    assert found.to_markdown() == summary.to_markdown()


INTERNAL = re.compile(r"mechanism|scale|laplace|geometric|nested|sensitivity|contingency|_|\d\.\d{5}|\de[+-]?\d|=\(")
"""Words of the library and digits that the noise does not leave."""


def asked(session: Session) -> dict[str, object]:
    on = {"epsilon": 1.0}
    return {
        "Mean hours": session.mean("hours", **on),
        "Mean hours by sex": session.mean("hours", by="sex", **on),
        "Total hours": session.sum("hours", **on),
        "Number of rows": session.count(**on),
        "Number of rows by sex": session.table("sex", **on),
        "Median hours": session.median("hours", **on),
        "Variance of hours": session.variance("hours", **on),
        "Distribution of hours": session.histogram("hours", edges=[0, 20, 40, 60], **on),
        "How hours and age vary together": session.covariance_matrix(["hours", "age"], **on),
        "Does mean hours differ by sex?": session.compare_means("hours", by="sex", **on),
        "Number of rows in tables that add up": session.tables([["sex"], []], **on),
    }


def test_what_is_printed_says_what_was_asked_in_the_words_of_its_reader(session: Session) -> None:
    for heading, answer in asked(session).items():
        first, *facts = str(answer).splitlines()
        assert first == heading
        told = " ".join(" ".join(fact for fact in facts if not fact.startswith("  release")).split())
        assert not INTERNAL.search(told.replace(HOSTILE, "")), answer
        assert "one row's data makes no outcome more than" in told
        html = answer._repr_html_()
        assert f"<strong>{heading.replace('&', '&amp;')}</strong>" in html
        assert "\t" not in html


def test_columns_of_numbers_are_aligned_and_fit_the_screen(session: Session) -> None:
    lines = str(session.where("age >= 40").mean("age", by="sex", epsilon=1.0)).splitlines()
    head = next(line for line in lines if "noise interval" in line)
    rows = [line for line in lines if re.match(r"  (f|a&b)", line)]
    assert len(rows) == 4  # a mean and a standard deviation for each
    assert {len(line) for line in rows} == {len(head)} != {0}
    assert len(head) <= 80
    wide = str(session.covariance_matrix(["hours", "age"], epsilon=0.01))  # whose numbers do not fit beside each other
    assert max(map(len, wide.splitlines())) <= 80


def test_details_say_how_the_noise_was_made(session: Session) -> None:
    answer = session.mean("hours", epsilon=1.0)
    told = str(answer.details())
    assert all(one in told for one in ("laplace", "scale", "sensitivity", answer.release_id, "mean and variance"))


def test_names_that_readers_are_told_are_said_once_for_all_answers() -> None:
    rows = pyarrow.table({"INC": [30_000.0, 50_000.0] * 500, "S": ["1", "2"] * 500})
    columns = {
        "INC": Bounds(0, 100_000, label="Yearly income", measured_in="dollars"),
        "S": Categories(["1", "2"], label="Sex"),
    }
    schema = Schema(columns=columns, noun="person")
    session = Session(rows, schema, ledger=":memory:", epsilon=10.0)
    mean = session.mean("INC", by="S", epsilon=1.0)
    assert str(mean).startswith("Mean yearly income in dollars by sex\n")
    assert str(mean["2"]).startswith("Mean yearly income in dollars by sex: 2\n")
    count = session.where("INC > 10").count(epsilon=1.0, name="once")
    assert str(count).startswith("Number of people\n")
    assert "one person's data" in " ".join(str(count).split())
    assert str(session.where("INC > 10").count(epsilon=1.0, name="once")) == str(count)


def test_a_chart_of_counts_has_bars_from_zero_and_bins_in_words(session: Session) -> None:
    drawn = session.histogram("hours", edges=[0, 30, 60], epsilon=1.0).plot().to_dict()
    marks = [one["mark"]["type"] for one in drawn["layer"]]
    assert marks[0] == "bar"
    assert all(one["encoding"]["x"]["scale"]["zero"] for one in drawn["layer"])
    assert [row["label"] for row in next(iter(drawn["datasets"].values()))] == ["0 to under 30", "30 to 60"]
    means = session.mean("hours", by="sex", epsilon=1.0, variance=False).plot().to_dict()
    assert "bar" not in [one["mark"]["type"] for one in means["layer"]]
    assert means["title"] == "Mean hours by sex"


def test_charts_terms_and_tables_call_columns_as_readers_know_them() -> None:
    rng = np.random.default_rng(1)
    rows = pyarrow.table({"INC": rng.uniform(0, 1e5, 500), "AGEP": rng.integers(18, 90, 500), "S": ["1", "2"] * 250})
    columns = {
        "INC": Bounds(0, 100_000, label="Yearly income", measured_in="dollars"),
        "AGEP": Bounds(0, 120, grid=1, label="Age"),
        "S": Categories.coded({1: "men", 2: "women"}, label="Sex"),
    }
    session = Session(rows, Schema(columns=columns, noun="person"), ledger=":memory:", epsilon=100.0)
    drawn = session.std("INC", by="S", epsilon=1.0).plot().to_dict()
    axes = {one["encoding"]["x"]["title"] for one in drawn["layer"]}
    assert axes == {"standard deviation of yearly income in dollars, 95 % intervals"}
    assert str(session.plan.mean("INC", epsilon=1.0)).startswith("Plan: mean yearly income in dollars\n")
    fit = session.regression("INC", ["AGEP", "S"], epsilon=50.0)
    assert str(fit).startswith("What goes along with yearly income in dollars?\n")
    assert {"Age", "Sex: women"} < {line.split("  ")[1] for line in str(fit).splitlines() if line.startswith("  ")}
    tables = session.tables([["S"], ["S", "AGEP"]], bins={"AGEP": [0, 40, 120]}, epsilon=1.0)
    assert str(tables.table("S", "AGEP")).startswith("Number of people by sex and age\n")
    margins = str(tables)
    assert "\n  Sex\n" in margins
    assert "\n  Sex × Age\n" in margins
    together = session.covariance_matrix(["INC", "AGEP"], epsilon=1.0)
    told = [named_reading(one.to_dict(), together.words["names"]) for one in together.readings(["INC", "AGEP"])]
    assert not {"INC", "AGEP"} & {*told[2]["label"].split(" · "), *told[2]["labels"].values()}
    compared = " ".join(str(session.compare_means("INC", by="S", epsilon=1.0)).split())
    assert "Does mean yearly income in dollars differ by sex?" in compared
    assert "one person's data" in compared
    assert str(session.median("INC", epsilon=1.0)).splitlines()[1].split()[0] == "median"
