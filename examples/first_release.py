"""A first private statistic: the mean age in a made-up survey, with its intervals and its cost."""

from __future__ import annotations

import tempfile
from pathlib import Path

from discreet import Bounds, PureDP, Schema, Session

SURVEY = Path(__file__).parent / "survey.csv"


def main() -> None:
    """Plan, release, look at the ledger."""
    schema = Schema(columns={"age": Bounds(18, 100, grid=1)})
    with tempfile.TemporaryDirectory() as directory:  # a real ledger belongs beside its data, for good
        ledger = Path(directory) / "survey.ledger"
        survey = Session(SURVEY, schema, ledger=ledger, budget=PureDP(1.0))
        print(survey.plan.mean("age", epsilon=0.5, expected_rows=4000))
        print(survey.mean("age", epsilon=0.5))
        print(survey.ledger.statement())


if __name__ == "__main__":
    main()
