"""What diffprivlib does, by running it."""

import math
import warnings

import numpy as np
from diffprivlib import BudgetAccountant, __version__, mechanisms, models, tools
from scipy.optimize import brentq

import probing
from probing import absent, no, number, partly, refused, yes

warnings.simplefilter("ignore")  # it warns where bounds are taken from the data
BOUNDS = (18.0, 100.0)
ages = np.arange(1000) % 83 + 18.0


def missing(pattern):
    """Nothing public has such a name."""
    return lambda: absent("diffprivlib", pattern, "mean")


def mean(rows=ages, bounds=BOUNDS, epsilon=1.0):
    """A private mean."""
    return tools.mean(rows, epsilon=epsilon, bounds=bounds)


def variance():
    """The noise shrinks with the number of rows, so the noise tells it."""
    few, many = (np.std([tools.mean([59.0] * n, bounds=BOUNDS) for _ in range(200)]) for n in (10, 1000))
    assert few > 20 * many
    assert tools.var(ages, bounds=BOUNDS) >= 0
    return no("the number is public")


def bounded():
    """Noise conditioned on its domain."""
    draw = mechanisms.LaplaceBoundedDomain(epsilon=1.0, sensitivity=1.0, lower=0.0, upper=1.0)
    assert all(0 <= draw.randomise(0.9) <= 1 for _ in range(100))
    return yes("conditioned law")


def fitted():
    """Every estimator that is exported."""
    names = [name for name in dir(models) if name[0].isupper() and hasattr(getattr(models, name), "fit")]
    models.GaussianNB(bounds=([18.0], [100.0])).fit(ages[:, None], ages > 60)
    return yes(f"{len(names)} kinds")


def composed():
    """Gaussian releases as (ε, δ) pairs, the total by the accountant with its slack; the best of a few splits."""

    def total(share):
        delta = 1e-6 * share / 100
        each = brentq(
            lambda e: mechanisms.GaussianAnalytic(epsilon=e, delta=delta, sensitivity=1.0)._scale - 10, 1e-3, 5
        )
        accountant = BudgetAccountant(slack=1e-6 * (1 - share) * 0.999)
        for _ in range(100):
            accountant.spend(each, delta)
        return accountant.total()[0]

    return number(min(total(share) for share in (0.5, 0.6, 0.7, 0.8)))


def overspending():
    """A third release of 0.4 under a budget of 1."""
    accountant = BudgetAccountant(epsilon=1.0)
    for _ in range(2):
        tools.mean(ages, epsilon=0.4, bounds=BOUNDS, accountant=accountant)
    assert refused(lambda: tools.mean(ages, epsilon=0.4, bounds=BOUNDS, accountant=accountant)) == "BudgetError"
    return yes("if an accountant is passed")


def outliving():
    """A new accountant can be told what was spent; nothing is stored."""
    accountant = BudgetAccountant(epsilon=1.0)
    tools.mean(ages, epsilon=0.4, bounds=BOUNDS, accountant=accountant)
    assert math.isclose(BudgetAccountant(epsilon=1.0, spent_budget=accountant.spent_budget).total()[0], 0.4)
    return no("spends can be passed on by hand")


def planned():
    """The variance of some mechanisms."""
    assert mechanisms.Laplace(epsilon=1.0, sensitivity=1.0).variance(0.0) == 2
    assert refused(lambda: mechanisms.Snapping(epsilon=1.0, sensitivity=1.0, lower=0, upper=1).variance(0.0))
    return partly("variance of some mechanisms")


def guarantees():
    """One mechanism of each kind."""
    mechanisms.Laplace(epsilon=1.0, sensitivity=1.0).randomise(0.0)
    mechanisms.GaussianAnalytic(epsilon=1.0, delta=1e-6, sensitivity=1.0).randomise(0.0)
    absent("diffprivlib", "zcdp|concentrated|renyi|rho", "mean")
    return "ε, (ε, δ)", ""


def quantiles():
    """Two quantiles."""
    assert tools.quantile(ages, [0.1, 0.9], bounds=BOUNDS).shape == (2,)
    return yes("budget split evenly")


def covariance():
    """Eigenvalues and eigenvectors of Σxxᵀ, behind its principal components."""
    from diffprivlib.models.utils import covariance_eig

    assert len(covariance_eig(np.ones((100, 2)), epsilon=1.0, norm=2.0)) == 2
    return partly("eigenvectors")


def choice():
    """Exponential mechanism and permute-and-flip."""
    assert mechanisms.PermuteAndFlip(epsilon=50.0, sensitivity=1, utility=[1, 99]).randomise() == 1
    return yes()


def responses():
    """A flipped bit."""
    assert mechanisms.Binary(epsilon=1.0, value0="no", value1="yes").randomise("yes") in ("no", "yes")
    return yes()


def bounded_scale():
    """Its own choice of the scale; there is no public name for it."""
    return number(
        float(mechanisms.LaplaceBoundedDomain(epsilon=1.0, delta=0.01, sensitivity=0.1, lower=0, upper=1)._find_scale())
    )


def impossible():
    """Its Laplace mechanism; another one, by rounding, leaves no gaps."""
    share, _ = probing.impossible(mechanisms.Laplace(epsilon=1.0, sensitivity=1.0).randomise)
    snapping = mechanisms.Snapping(epsilon=1.0, sensitivity=1.0, lower=-64.0, upper=64.0)
    assert all(float(snapping.randomise(truth)).is_integer() for truth in (0.0, 1.0) for _ in range(500))
    return share, "none from its Snapping mechanism"


def awkward():
    """A mean of awkward inputs."""
    gap = np.append(ages, math.nan)
    return probing.awkward(
        [
            lambda: mean(bounds=None),
            lambda: mean(bounds=BOUNDS[::-1]),
            lambda: mean(rows=[]),
            lambda: mean(rows=gap),
            lambda: mean(epsilon=0),
            lambda: mean(epsilon=-1),
            lambda: mean(epsilon=math.nan),
        ],
        fine=("no rows", "a missing value"),
    )


def regression():
    """Coefficients only."""
    bounds = ([18.0], [100.0])
    line = models.LinearRegression(bounds_X=bounds, bounds_y=bounds).fit(ages[:, None], ages)
    assert line.coef_.size == 1
    assert not [name for name in dir(line) if "bse" in name or "interval" in name or "error" in name]
    return partly("without errors")


probing.tell(
    __version__,
    {
        "quantiles": quantiles,
        "variance": variance,
        "covariance": covariance,
        "distinct": missing("distinct|unique"),
        "choice": choice,
        "bounded": bounded,
        "responses": responses,
        "models": fitted,
        "running": missing("continual|running_?total|stream|tree_?aggregat"),
        "synthetic": missing("synth|generate"),
        "many rows": missing("contribution|privacy_?id|identifier|per_?user"),
        "groups": missing("partition|threshold|keyset|stability"),
        "bounds": missing("(get|find|private|calculate).*bounds"),
        "joins": missing("join|merge"),
        "engines": lambda: ("numpy", "") if isinstance(mean(), float) else no(),
        "planning": planned,
        "noise interval": missing("interval|confidence"),
        "population interval": missing("interval|confidence"),
        "regression": regression,
        "tests": missing("chi_?2|chi_?sq|hypothesis|goodness|independence|p_?value"),
        "number tests": missing("kruskal|mann_?whitney|smirnov|rank_?test|wilcoxon"),
        "experiments": missing("ab_?test|compare|t_?test|experiment"),
        "guarantees": guarantees,
        "composition": composed,
        "bounded scale": bounded_scale,
        "impossible": impossible,
        "awkward": awkward,
        "overspending": overspending,
        "ledger": outliving,
        "audit": missing("audit|attack|verify"),
    },
)
