"""The tables of the README and of the documentation are the stored figures, and complete; so are quoted figures."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def benchmarks():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import accuracy
        import features
        import page
        import peer

        yield {"accuracy": accuracy, "features": features, "page": page, "peer": peer}
    finally:
        sys.path.remove(str(BENCHMARKS))


def test_pages_show_what_is_stored(benchmarks):
    page = benchmarks["page"]
    for path in page.PAGES:
        text = path.read_text(encoding="utf-8")
        assert page.filled(text) == text, f"{path.name}: run python benchmarks/page.py"
    shown = "".join(path.read_text(encoding="utf-8") for path in page.PAGES)
    assert all(f"<!-- table: {name} -->" in shown for name in page.tables())


def test_sentences_quote_what_is_stored(benchmarks):
    for path, sentence in benchmarks["page"].quoted():
        assert sentence in " ".join(path.read_text(encoding="utf-8").split()), f"{path.name}: {sentence}"


def test_every_library_answers_every_probe(benchmarks):
    features, found = benchmarks["features"], benchmarks["peer"].stored("features")
    assert list(found) == list(features.SCRIPTS)
    wanted = {key for rows in features.ROWS.values() for key in rows}
    assert all(set(one["features"]) == wanted for one in found.values())
    assert all(answer["verdict"] for one in found.values() for answer in one["features"].values())


def test_every_library_has_an_error_for_what_it_can_release(benchmarks):
    accuracy, found = benchmarks["accuracy"], benchmarks["peer"].stored("accuracy")
    assert list(found) == list(accuracy.SCRIPTS)
    assert set(found["discreet"]["tasks"]) == set(accuracy.TASKS)
    for one in found.values():
        assert set(one["tasks"]) <= set(accuracy.TASKS)
        assert all(task["values"] >= 100 and task["rmse"] >= 0 for task in one["tasks"].values())


def test_errors_are_measured_from_the_truth(benchmarks):
    accuracy = benchmarks["accuracy"]
    exact = accuracy.truths(accuracy.people())
    assert accuracy.figure({"call": "x", "values": [3.0, 5.0]}, 4.0, None) == {"call": "x", "rmse": 1.0, "values": 2}
    assert accuracy.figure({"call": "x", "values": [140.0]}, 100.0, 100)["rmse"] == 0
    assert exact["median"] == 30_000
    assert exact["histogram"].sum() == exact["table"].sum() == 1000
