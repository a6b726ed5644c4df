"""Clusters of columns: the model of a question about data that a schema describes."""

from __future__ import annotations

from collections.abc import Sequence

from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.protection import Neighbours
from discreet.core.schema import Schema
from discreet.questions.clusters.kmedian import KMedian
from discreet.questions.clusters.lloyd import DPLloyd
from discreet.questions.clusters.model import ClusterModel

__all__ = ["cluster_model"]


def cluster_model(
    schema: Schema,
    columns: tuple[str, ...],
    n_clusters: int,
    guarantee: Guarantee,
    *,
    universe: Sequence[Sequence[float]] | None,
    iterations: int | None,
    expected_rows: int | None,
) -> ClusterModel:
    """k-means within the columns' bounds, or k-median where a ``universe`` of positions is public."""
    if schema.neighbours is not Neighbours.ADD_REMOVE or schema.unit.column is not None:
        raise InvalidParameter(
            "unit",
            schema.unit.name,
            "clusters are proved for added and removed rows",
            "Declare rows as units and add_remove neighbours.",
        )
    bounds = [(schema.bounds(name).low, schema.bounds(name).high) for name in columns]
    if universe is None:
        return DPLloyd(
            n_clusters, guarantee=guarantee, bounds=bounds, iterations=iterations, expected_rows=expected_rows
        )
    model = KMedian(n_clusters, guarantee=guarantee, universe=universe, swaps=iterations)
    if model.universe.shape[1] != len(columns):
        raise InvalidParameter(
            "universe",
            model.universe.shape,
            f"must have {len(columns)} numbers a position",
            "Give one number per column.",
        )
    return model
