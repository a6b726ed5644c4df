"""How many rows a test needs: the plan with so many rows detects the effect, and with fewer it does not."""

from typing import Any

import pytest

from discreet import Bounds, Categories, Schema
from discreet.core.errors import InvalidParameter
from discreet.core.protection import Neighbours
from discreet.plans.planner import Planner
from discreet.questions import asked

PLANNER = Planner(
    Schema(
        columns={
            "arm": Categories(["old", "new"]),
            "score": Bounds(0, 100, grid=1),
            "before": Bounds(0, 100, grid=1),
            "done": Categories(["no", "yes"]),
        }
    )
)
ASKED: dict[str, tuple[tuple[Any, ...], dict[str, Any], float]] = {
    "compare_means": (("score",), {"by": "arm", "expected_sd": 15}, 3.0),
    "compare_arms": (("score",), {"by": "arm", "expected_sd": 15}, 3.0),
    "regression": (("score", ["before"]), {}, 0.1),
    "logistic_regression": (("done", ["before"]), {}, 0.01),
    "goodness_of_fit": (("done", [0.5, 0.5]), {}, 0.1),
    "homogeneity": (("done",), {"by": "arm"}, 0.1),
    "independence": ((["done", "arm"],), {}, 0.1),
    "rank_test": (("score",), {"by": "arm", "bins": 5}, 0.05),
    "kolmogorov_smirnov": (("score",), {"by": "arm", "bins": 5}, 0.05),
    "rank_correlation": ((["score", "before"],), {"bins": {"score": 5, "before": 5}}, 0.1),
    "signed_rank": (("score",), {"against": "before"}, 0.05),
}


def test_every_test_has_an_answer() -> None:
    assert {name for name, kind in asked().items() if kind.detects} == set(ASKED)


@pytest.mark.parametrize("ask", ASKED)
def test_so_many_rows_are_enough_and_not_too_many(ask: str) -> None:
    settings, named, effect = ASKED[ask]
    found = PLANNER.sample_size(ask, *settings, effect=effect, epsilon=1.0, **named)
    assert found.rows % found.groups == 0
    assert found.groups == (2 if "by" in named else 1)

    def detected(rows: int) -> float:
        planned = getattr(PLANNER, ask)(*settings, epsilon=1.0, expected_rows=rows, **named)
        return float(planned.smallest_effect)

    assert detected(found.rows) == found.smallest_effect
    assert detected(round(1.02 * found.rows)) <= effect < detected(round(0.97 * found.rows))


@pytest.mark.parametrize(("ask", "words"), [("mean", "must be a test"), ("t_test", "Here it is 'compare_means'")])
def test_other_questions_are_refused(ask: str, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        PLANNER.sample_size(ask, "score", by="arm", effect=1.0, epsilon=1.0)


def test_what_no_number_of_rows_detects_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="is not detected with 1,000,000,000,000 rows"):
        PLANNER.sample_size("compare_means", "score", by="arm", effect=1e-9, epsilon=1.0)


def test_a_public_number_of_rows_is_not_looked_for() -> None:
    schema = Schema(columns=PLANNER.schema.columns, neighbours=Neighbours.REPLACE_ONE, size=100)
    with pytest.raises(InvalidParameter, match="public number of rows"):
        Planner(schema).sample_size("compare_means", "score", by="arm", effect=1.0, epsilon=1.0)
