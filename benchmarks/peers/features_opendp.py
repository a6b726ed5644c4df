"""What OpenDP does, by running it with its polars extra."""

import math
import pickle
import warnings
from importlib.metadata import version

import opendp.prelude as dp
import polars as pl

import probing
from probing import absent, no, number, partly, refused, yes

warnings.simplefilter("ignore")  # of names about to change
dp.enable_features("contrib")
people = pl.LazyFrame(
    {
        "person": [i // 3 for i in range(3000)],
        "age": [18 + i % 83 for i in range(3000)],
        "place": [f"place {i % 7}" for i in range(3000)],
    }
)
nobody = people.clear()
age = pl.col.age.cast(int).fill_null(59)


def context(data=people, *, unit=None, loss=None, queries=1, margins=None):
    """A compositor over some rows."""
    return dp.Context.compositor(
        data=data,
        privacy_unit=unit or dp.unit_of(contributions=1),
        privacy_loss=loss or dp.loss_of(epsilon=1.0),
        split_evenly_over=queries,
        margins=[dp.polars.Margin(max_length=10_000)] if margins is None else margins,
    )


def first(query):
    """The number that a query releases."""
    return query.release().collect().row(0)[-1]


def missing(pattern, control="make_laplace"):
    """Nothing public has such a name."""
    return lambda: absent("opendp", pattern, control)


def quantiles():
    """A median among candidates."""
    assert 18 <= first(context().query().select(age.dp.median(candidates=list(range(18, 101))))) <= 100
    return yes("among candidates")


def variance():
    """Sized data only."""
    free = dp.vector_domain(dp.atom_domain(bounds=(18.0, 100.0))), dp.symmetric_distance()
    sized = dp.vector_domain(dp.atom_domain(bounds=(18.0, 100.0)), size=1000), dp.symmetric_distance()
    assert refused(lambda: free >> dp.t.then_variance())
    assert sized >> dp.t.then_variance()
    assert not hasattr(pl.col.age.dp, "var")
    assert not hasattr(pl.col.age.dp, "variance")
    return no("the number is public")


def covariance():
    """Eigenvectors for principal components."""
    assert probing.public_names("opendp", "make_private_np_eigendecomposition|make_private_pca")
    assert not probing.public_names("opendp", "make_(private_)?(np_)?cov")
    return partly("principal components")


def distinct():
    """The number of distinct values of a column."""
    assert first(context().query().select(pl.col.place.dp.n_unique())) >= 0
    return yes()


def choice():
    """Report noisy max."""
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)
    assert dp.m.make_noisy_max(*space, dp.max_divergence(), scale=0.01)([1, 99]) == 1
    return yes()


def bounded():
    """A mean of no rows leaves its bounds; counts can be held at zero."""
    found = [first(context(nobody).query().select(age.dp.mean((18, 100)))) for _ in range(8)]
    assert any(not 18 <= value <= 100 for value in found)
    return partly("counts at zero")


def responses():
    """A flipped answer."""
    assert dp.m.make_randomized_response_bool(prob=0.75)(True) in (True, False)
    return yes()


def models():
    """A line by Theil and Sen, and principal components."""
    names = [dp.sklearn.linear_model.LinearRegression, dp.sklearn.decomposition.PCA]
    assert all(names)
    return yes("a line, principal components")


def synthetic():
    """Tables fitted to margins, from which rows are drawn; an extra is needed."""
    assert hasattr(dp.polars.ContingencyTable, "synthesize")
    query = context(loss=dp.loss_of(rho=0.5, delta=1e-7)).query().select("place")
    assert "mbi" in str(_problem(lambda: query.contingency_table(keys={"place": ["place 1"]}).release()))
    return yes("with its mbi extra")


def _problem(call):
    try:
        call()
    except Exception as problem:
        return problem
    return None


def many_rows():
    """Two of each person's three rows."""
    unit = dp.unit_of(contributions=1, identifier="person")
    total = first(context(unit=unit).query().truncate_per_group(2).select(age.dp.sum((18, 100))))
    assert 80_000 < total < 160_000
    return yes()


def groups():
    """Places are shown by their own size."""
    query = context(loss=dp.loss_of(epsilon=1.0, delta=1e-7)).query().group_by("place").agg(dp.len())
    assert query.release().collect().height == 7
    return yes()


def joins():
    """A join with public rows is not recognised either."""
    other = pl.LazyFrame({"place": ["place 1"], "size": [1]})
    assert refused(lambda: context().query().join(other, on="place").select(dp.len()).release())
    return no()


def planned():
    """The accuracy of every part of a query."""
    shown = context().query().select(dp.len(), age.dp.sum((18, 100))).summarize(alpha=0.05)
    assert shown["accuracy"].min() > 0
    return yes("parts of a query")


def noise_interval():
    """From a scale, by a helper; one kind of release has standard deviations."""
    assert math.isclose(dp.laplacian_scale_to_accuracy(1.0, 0.05), math.log(20))
    assert hasattr(dp.polars.ContingencyTable, "std")
    return partly("helpers for a scale")


def population():
    """A share, from canonical noise."""
    from opendp.extras.numpy.canonical import BinomialCND

    low, high = BinomialCND(40.0, 1.0, (1.0, 1e-6), 100).noise_interval(alpha=0.05)
    assert low < 0.4 < high
    return partly("one share, public number")


def tests():
    """The same share against a value."""
    from opendp.extras.numpy.canonical import BinomialCND

    assert 0 <= BinomialCND(40.0, 1.0, (1.0, 1e-6), 100).p_value(0.3) <= 1
    absent("opendp", "chi_?2|chi_?sq|goodness|homogene|independence", "make_laplace")
    return no("one share against a value")


def guarantees():
    """One measurement of each kind."""
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    laplace, gaussian = space >> dp.m.then_laplace(1.0), space >> dp.m.then_gaussian(1.0)
    assert laplace.map(1.0) == 1
    assert gaussian.map(1.0) == 0.5
    assert dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(gaussian), 1e-6).map(1.0)[1] == 1e-6
    assert dp.renyi_divergence()
    return "ε, (ε, δ), ρ, Rényi", ""


def composed():
    """Composition under ρ, converted in the end."""
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    together = dp.c.make_composition([space >> dp.m.then_gaussian(10.0)] * 100)
    return number(dp.c.make_zCDP_to_approxDP(together).map(1.0).epsilon(1e-6))


def engines():
    """Polars is run here; the ibis extra is not."""
    words = "its ibis extra: ungrouped counts and sums in SQL"
    return ("polars", words) if first(context().query().select(dp.len())) else no()


def impossible():
    """Laplace noise on a float."""
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    return probing.impossible(space >> dp.m.then_laplace(1.0))


def awkward():
    """A mean of awkward inputs."""

    def mean(data=people, bounds=(18, 100), epsilon=1.0):
        return first(context(data, loss=dp.loss_of(epsilon=epsilon)).query().select(age.dp.mean(bounds)))

    gap = pl.LazyFrame({"age": [18.0, math.nan, 50.0] * 100})
    return probing.awkward(
        [
            lambda: first(context().query().select(age.sum().dp.noise())),
            lambda: mean(bounds=(100, 18)),
            lambda: mean(nobody),
            lambda: first(context(gap).query().select(pl.col.age.fill_null(59.0).dp.mean((18.0, 100.0)))),
            lambda: mean(epsilon=0.0),
            lambda: mean(epsilon=-1.0),
            lambda: mean(epsilon=math.nan),
        ],
        fine=("no rows", "a missing value"),
    )


def overspending():
    """A second query where one was promised."""
    spent = context()
    spent.query().select(dp.len()).release()
    assert refused(lambda: spent.query().select(dp.len()).release())
    return yes()


def outliving():
    """A context cannot be stored."""
    assert refused(lambda: pickle.dumps(context()))
    assert refused(lambda: dp.serialize(context()))
    return no()


def regression():
    """The line of Theil and Sen has coefficients only."""
    line = dp.sklearn.linear_model.LinearRegression
    assert not [name for name in dir(line) if "bse" in name or "interval" in name or "error" in name]
    return partly("a line, without errors")


probing.tell(
    version("opendp"),
    {
        "quantiles": quantiles,
        "variance": variance,
        "covariance": covariance,
        "distinct": distinct,
        "choice": choice,
        "bounded": bounded,
        "responses": responses,
        "models": models,
        "running": missing("continual|running_?total|stream|tree_?aggregat"),
        "synthetic": synthetic,
        "many rows": many_rows,
        "groups": groups,
        "bounds": missing("(get|find|private|calculate|estimate)_?bounds"),
        "joins": joins,
        "engines": engines,
        "planning": planned,
        "noise interval": noise_interval,
        "population interval": population,
        "regression": regression,
        "tests": tests,
        "number tests": missing("kruskal|mann_?whitney|smirnov|rank_?test|wilcoxon"),
        "experiments": missing("ab_?test|compare|t_?test|experiment"),
        "guarantees": guarantees,
        "composition": composed,
        "bounded scale": lambda: ("–", "") if missing("truncated_?laplace|bounded_?laplace")() else no(),
        "impossible": impossible,
        "awkward": awkward,
        "overspending": overspending,
        "ledger": outliving,
        "audit": missing("audit|attack"),
    },
)
