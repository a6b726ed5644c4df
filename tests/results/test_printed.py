"""Tables for print: markdown, LaTeX and notebooks show the numbers that a release has, and obey no label."""

import re

import numpy as np
import pyarrow
import pytest

from discreet import Bounds, Categories, Schema, Session

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
