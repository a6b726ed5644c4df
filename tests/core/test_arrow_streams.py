"""Objects of other libraries that give an Arrow stream are read as frames are."""

import pyarrow as pa
import pytest

from discreet import Bounds, Schema, Session
from discreet.core.errors import DiscreetError, ReleaseFailed


class Stream:
    """What any library may give: it has a stream, and is no frame that discreet knows."""

    def __init__(self, table: pa.Table, failing: bool = False) -> None:
        self.table, self.failing, self.read = table, failing, 0

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.RecordBatchReader.from_batches(self.table.schema, self._batches()).__arrow_c_stream__()

    def _batches(self):
        for batch in self.table.to_batches():
            self.read += 1
            if self.failing:
                raise ValueError("a secret")
            yield batch


SCHEMA = Schema(columns={"age": Bounds(0, 100, grid=1)})


def test_a_stream_is_read_once_and_after_the_payment():
    stream = Stream(pa.table({"age": [30, 40] * 500, "other": ["x"] * 1000}))
    session = Session(stream, SCHEMA, ledger=":memory:", epsilon=20.0)
    session.plan.mean("age", epsilon=9.0)
    assert stream.read == 0
    assert abs(session.mean("age", epsilon=9.0).mean - 35) < 2
    assert abs(session.count(epsilon=9.0).value - 1000) < 20
    assert stream.read == 1


def test_a_missing_column_costs_nothing_and_reads_nothing():
    stream = Stream(pa.table({"years": [30]}))
    session = Session(stream, SCHEMA, ledger=":memory:", epsilon=1.0)
    with pytest.raises(DiscreetError, match="has no column 'age'"):
        session.mean("age", epsilon=0.5)
    assert stream.read == 0
    assert session.ledger.remaining().epsilon == 1.0


def test_a_stream_that_breaks_was_paid_for_and_says_nothing():
    session = Session(Stream(pa.table({"age": [30]}), failing=True), SCHEMA, ledger=":memory:", epsilon=1.0)
    with pytest.raises(ReleaseFailed) as failed:
        session.mean("age", epsilon=0.5)
    assert "secret" not in str(failed.value)
    assert session.ledger.remaining().epsilon == 0.5
