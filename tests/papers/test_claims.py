"""Claims: verdicts follow from the stored rows and their Monte-Carlo error, and the shipped list is what they give."""

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from discreet.cli.main import main
from discreet.core.errors import InvalidParameter
from discreet.papers import load, load_all, run_one
from discreet.papers.claims.miranda2026_claims import _cut_at_half, _cut_farthest_half
from discreet.papers.gallery import decided_in, shipped
from discreet.papers.study import (
    DEPENDS,
    FAILS,
    HOLDS,
    OPEN,
    VERDICTS,
    MeasuredRange,
    PaperClaim,
    compared,
    decide,
    votes,
)

STORED = Path(__file__).parents[2] / "docs" / "studies"
DECIDED = ("holohan2018", "lee2022", "liu2019", "liu2023", "miranda2026")
"""Papers whose every sentence on a page is a claim."""


def _claim(measured: MeasuredRange, low: float, high: float) -> PaperClaim:
    return PaperClaim(
        paper="toy", place="here", claim="so", statistic="s", measure=lambda: measured, low=low, high=high
    )  # fmt: skip


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        (MeasuredRange.of(0.5, 0.01), HOLDS),
        (MeasuredRange.of(0.5, 0.04), OPEN),
        (MeasuredRange.of(0.7, 0.01), FAILS),
        (MeasuredRange.of(0.7, 0.05), OPEN),
        (MeasuredRange.exact(0.6), HOLDS),
        (MeasuredRange.exact(0.61), FAILS),
    ],
)
def test_a_verdict_is_sure_only_where_the_whole_range_is(measured: MeasuredRange, verdict: str) -> None:
    assert _claim(measured, 0.4, 0.6).decide([]).verdict == verdict


def test_a_claim_beside_another_part_needs_the_rows_of_both() -> None:
    claim = PaperClaim("toy", "here", "so it is", "s", lambda rows, other: len(rows) - len(other), 1.0, 1.0,
                       part="one", beside="two")  # fmt: skip
    assert decide([claim], {"one": [{}]}) == []
    (found,) = decide([claim], {"one": [{}, {}], "two": [{}]})
    assert found.verdict == HOLDS


def test_neighbours_of_deterministic_suppression_by_a_loop_over_records() -> None:
    """B.2 and B.3 on the sets themselves, with average distances to all records, ties deleted together."""

    def average(one: str, rows: list[str]) -> Fraction:
        return Fraction(sum(one != other for other in rows), len(rows))

    def near(rows: list[str]) -> list[str]:
        return [one for one in rows if average(one, rows) <= Fraction(1, 2)]

    def without_farthest(rows: list[str]) -> list[str]:
        ranked = sorted((average(one, rows) for one in rows), reverse=True)
        limit = ranked[len(rows) // 2 - 1]
        return [one for one in rows if average(one, rows) < limit]

    for count in (3, 10):
        large, small = ["a"] * count + ["b"] * count, ["a"] * (count - 1) + ["b"] * count
        for rule, claimed in ((near, _cut_at_half), (without_farthest, _cut_farthest_half)):
            first, second = Counter(rule(large)), Counter(rule(small))
            assert ((first - second) + (second - first)).total() == claimed(count)


def test_votes_count_settings_that_surely_and_that_may_agree() -> None:
    found = votes([MeasuredRange.of(1.0, 0.1), MeasuredRange.of(0.1, 0.1), MeasuredRange.of(-1.0, 0.1)], low=0.0)
    assert (found.value, found.low, found.high) == pytest.approx((2 / 3, 1 / 3, 2 / 3))
    with pytest.raises(InvalidParameter, match="settings"):
        votes([])


def test_errors_of_a_difference_add_up() -> None:
    assert compared(MeasuredRange.of(2.0, 0.1), MeasuredRange.of(1.0, 0.2)) == MeasuredRange(
        1.0, pytest.approx(0.1), pytest.approx(1.9)
    )


def test_a_proportion_of_no_failures_is_not_certain() -> None:
    found = MeasuredRange.proportion(1.0, 500)
    assert found.low == pytest.approx(500 / 509)
    assert found.high == 1.0


def test_shipped_verdicts_follow_from_the_stored_rows() -> None:
    again = decided_in(load_all(STORED), STORED).claims
    kept = shipped().claims
    assert [(one["paper"], one["place"], one["claim"]) for one in again] == [
        (one["paper"], one["place"], one["claim"]) for one in kept
    ]
    for one, other in zip(again, kept, strict=True):
        words = f"{one['paper']} {one['place']}: {one['claim']}"
        assert one["verdict"] == other["verdict"], words
        assert [one["value"], *one["range"]] == pytest.approx([other["value"], *other["range"]], rel=1e-6, abs=1e-9), (
            words
        )


def test_no_claim_is_made_twice_and_each_has_words() -> None:
    claims = [claim for study in load_all() for claim in study.claims]
    assert len({(one.paper, one.place, one.claim) for one in claims}) == len(claims)
    for one in claims:
        assert len(one.claim) > 5, one
        assert one.part is None or load(one.paper).part(one.part), one


@pytest.mark.parametrize("paper", DECIDED)
def test_pages_report_nothing_that_no_claim_decides(paper: str) -> None:
    study = load(paper)
    assert [
        part.name for part in study.parts if part.reported and not part.reported.startswith("Not in the paper")
    ] == []


def test_the_command_lists_claims(tmp_path, capsys) -> None:
    main(["reproduce", "claims"])
    assert "claims: " in capsys.readouterr().out
    main(["reproduce", "claims", "--json"])
    listed = json.loads(capsys.readouterr().out)["claims"]
    assert {one["verdict"] for one in listed} <= set(VERDICTS)
    assert {"paper", "place", "claim", "verdict", "value", "range"} <= listed[0].keys()
    with pytest.raises(SystemExit):
        main(["reproduce", "claims", "--out", str(tmp_path)])
    assert "holds no full run" in capsys.readouterr().err


ERRATA = {
    "E1": ("liu2019", "Definition 2 (a)"),
    "E2": ("liu2023", "Algorithm 1"),
    "E3": ("liu2023", "Algorithm 1, line 3"),
    "E4": ("liu2023", "Equations (16), (17)"),
    "E5": ("liu2023", "Section 3.4"),
    "E12": ("liu2023", "Theorem 4 (48)"),
    "S1": ("liu2019", "(5)"),
    "T1": ("holohan2018", "Corollary 4.6"),
}


@pytest.mark.parametrize("entry", ERRATA)
def test_an_erratum_is_decided_again_from_the_paper_alone(entry: str) -> None:
    """By the paper's own formulas, written out in the claims apart from the mechanisms of the library."""
    paper, place = ERRATA[entry]
    decided = [claim.decide([]).verdict for claim in load(paper).claims if claim.place == place and claim.part is None]
    stored = [one["verdict"] for one in shipped().claims if (one["paper"], one["place"]) == (paper, place)]
    assert FAILS in (decided or stored)
    page = (STORED.parent / "errata.md").read_text(encoding="utf-8")
    assert f"## {entry} · {paper}" in page


def test_one_figure_computes_only_its_cells(tmp_path: Path) -> None:
    steps = []
    result = run_one(load("liu2023"), "figure-3", tmp_path, quick=True, progress=steps.append)
    assert result.computed == 1  # one pair, one law, one effect, one guarantee
    assert [path.name for path in result.figures] == ["figure-3.svg"]
    assert result.page.name == "liu2023-figure-3.md"
    assert steps[-1].left == 0
    with pytest.raises(InvalidParameter, match="part"):
        run_one(load("liu2023"), "figure-99", tmp_path, quick=True)


def test_a_verdict_that_turns_with_a_choice_of_ours_says_so():
    """What a paper leaves open is named, and no such claim is counted as one that does not hold."""
    settings = {"paper": "p", "place": "1", "claim": "c", "statistic": "s", "measure": lambda: 0.2, "low": 0.9}
    assert PaperClaim(**settings).decide([]).verdict == FAILS
    decided = PaperClaim(**settings, depends="No bounds are stated").decide([])
    assert decided.verdict == DEPENDS
    assert decided.figures().endswith("at least 0.9. No bounds are stated")
    open_ones = [one for one in shipped().claims if one["verdict"] == DEPENDS]
    assert len(open_ones) >= 10
    assert all(one["depends"] for one in open_ones)
    assert not any(one["depends"] for one in shipped().claims if one["verdict"] != DEPENDS)
