"""A private table and a test on it: are people equally satisfied in all regions?"""

from __future__ import annotations

from pathlib import Path

from discreet import Categories, GaussianDP, Schema, Session

SURVEY = Path(__file__).parent / "survey.csv"


def main() -> None:
    """Release a table once; the test and the margins use the release and cost nothing more."""
    schema = Schema(columns={"region": Categories(["north", "south", "west"]), "satisfied": Categories(["yes", "no"])})
    survey = Session(SURVEY, schema, ledger=":memory:", budget=GaussianDP(0.5))
    answer = survey.homogeneity("satisfied", "region", mu=0.3)
    print(answer.result)
    print(answer.release.margin("region"))
    print(answer.release.proportions("satisfied"))


if __name__ == "__main__":
    main()
