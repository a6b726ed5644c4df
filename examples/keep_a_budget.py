"""Keep a budget: what was asked before is free, what no longer fits is refused, and nothing can be rewritten unseen."""

from __future__ import annotations

import tempfile
from pathlib import Path

from discreet import Bounds, Categories, PureDP, Schema, Session
from discreet.core.errors import InsufficientBudget

SURVEY = Path(__file__).parent / "survey.csv"


def main() -> None:
    """Spend, ask again, ask for too much, and check the ledger against a head that was noted."""
    schema = Schema(columns={"age": Bounds(18, 100, grid=1), "region": Categories(["north", "south", "west"])})
    with tempfile.TemporaryDirectory() as directory:  # a real ledger belongs beside its data, for good
        survey = Session(SURVEY, schema, ledger=Path(directory) / "survey.ledger", budget=PureDP(1.0))
        first = survey.count(epsilon=0.4, by="region", name="people by region")
        again = survey.count(epsilon=0.4, by="region", name="people by region")
        print(f"asked twice, answered alike: {first.release_id == again.release_id}; left: {survey.ledger.remaining()}")
        noted = survey.ledger.head
        survey.mean("age", epsilon=0.5)
        try:
            survey.mean("age", epsilon=0.5)
        except InsufficientBudget as refused:
            print(f"refused: {refused}")
        print(survey.ledger.statement())
        print(survey.ledger.verify(anchor=noted))


if __name__ == "__main__":
    main()
