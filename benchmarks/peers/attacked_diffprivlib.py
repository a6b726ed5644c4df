"""diffprivlib's mechanisms, tools and models on worst neighbours."""

import sys
from functools import partial

import numpy as np
from attacked import tell
from diffprivlib import __version__, mechanisms, models, tools

LIBRARY = f"diffprivlib {__version__}"
SCALE = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
REPLACED, ADDED = "one row replaced", "one row added"
zeros = np.zeros(10)
one = np.array([*np.zeros(9), 1.0])
half = np.array([0.0] * 5 + [1.0] * 5)


def pure(epsilon):
    """A claim of ε-DP."""
    return {"kind": "pure", "epsilon": epsilon}


def attack(name, neighbours, claim, ask, here, there, draws=20_000):
    """Tell draws of one function."""
    tell(LIBRARY, name, neighbours, claim, ask, here, there, int(draws * SCALE))


plain = mechanisms.Laplace(epsilon=1.0, sensitivity=1.0)
inside = mechanisms.LaplaceBoundedDomain(epsilon=1.0, sensitivity=1.0, lower=0.0, upper=3.0)
whole = mechanisms.Geometric(epsilon=1.0, sensitivity=1)
analytic = mechanisms.GaussianAnalytic(epsilon=1.0, delta=0.01, sensitivity=1.0)
attack("Laplace", "0 and 1", pure(1.0), plain.randomise, 0.0, 1.0, 100_000)
attack("bounded Laplace", "0 and 1", pure(1.0), inside.randomise, 0.0, 1.0, 50_000)
attack("geometric", "0 and 1", pure(1.0), whole.randomise, 0, 1, 50_000)
attack(
    "analytic Gaussian",
    "0 and 1",
    {"kind": "approx", "epsilon": 1.0, "delta": 0.01},
    analytic.randomise,
    0.0,
    1.0,
    50_000,
)

for epsilon in (1.0, 0.1):
    attack(
        f"tools.mean, ε {epsilon}",
        REPLACED,
        pure(epsilon),
        partial(tools.mean, epsilon=epsilon, bounds=(0, 1)),
        zeros,
        one,
    )
    attack(
        f"tools.var, ε {epsilon}",
        REPLACED,
        pure(epsilon),
        partial(tools.var, epsilon=epsilon, bounds=(0, 1)),
        zeros,
        one,
    )
attack(
    "tools.sum, beyond its bounds",
    REPLACED,
    pure(1.0),
    lambda x: tools.sum(x, epsilon=1.0, bounds=(0, 1)),
    zeros,
    1e9 * one,
)
attack(
    "tools.mean of NaN",
    REPLACED,
    pure(1.0),
    lambda x: tools.mean(x, epsilon=1.0, bounds=(0, 1)),
    zeros,
    np.where(one, np.nan, 0),
    5000,
)
attack(
    "tools.nanmean of NaN",
    REPLACED,
    pure(1.0),
    lambda x: tools.nanmean(x, epsilon=1.0, bounds=(0, 1)),
    zeros[:2],
    np.array([0.0, np.nan]),
)
attack(
    "tools.median",
    REPLACED,
    pure(1.0),
    lambda x: tools.median(x, epsilon=1.0, bounds=(0, 1)),
    half,
    np.array([*half[1:], 1.0]),
)
attack(
    "tools.histogram",
    ADDED,
    pure(1.0),
    lambda x: tools.histogram(x, epsilon=1.0, bins=2, range=(0, 1))[0].tolist(),
    zeros[:3],
    zeros[:2],
)


def bayes(epsilon):
    """Everything that a fitted naive Bayes model shows."""

    def fit(data):
        model = models.GaussianNB(epsilon=epsilon, bounds=(0, 1)).fit(*data)
        return [*model.theta_.ravel(), *model.var_.ravel(), *model.class_count_]

    return fit


def line(data):
    """Slope and intercept."""
    model = models.LinearRegression(epsilon=1.0, bounds_X=(0, 1), bounds_y=(0, 1)).fit(*data)
    return [*np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])]


def logistic(data):
    """Coefficient and intercept."""
    model = models.LogisticRegression(epsilon=1.0, data_norm=1.0).fit(*data)
    return [*np.ravel(model.coef_), *np.ravel(model.intercept_)]


column = np.array([[0.0], [0.0], [0.0], [0.0], [0.0], [0.0]])
classes = np.array([0, 0, 0, 1, 1, 1])
moved = column.copy()
moved[0] = 1.0
attack("GaussianNB, ε 1", REPLACED, pure(1.0), bayes(1.0), (column, classes), (moved, classes), 6000)
attack("GaussianNB, ε 0.1", REPLACED, pure(0.1), bayes(0.1), (column, classes), (moved, classes), 6000)
attack(
    "GaussianNB, another class",
    REPLACED,
    pure(1.0),
    bayes(1.0),
    (column, classes),
    (column, np.array([1, 0, 0, 1, 1, 1])),
    6000,
)
first = (np.array([[0.0], [1.0], [0.0], [1.0]]), np.array([0.0, 1.0, 0.0, 1.0]))
second = (np.array([[1.0], [1.0], [0.0], [1.0]]), np.array([0.0, 1.0, 0.0, 1.0]))
attack("LinearRegression", REPLACED, pure(1.0), line, first, second, 6000)
labels = np.array([0, 1, 0, 1])
attack("LogisticRegression", REPLACED, pure(1.0), logistic, (first[0], labels), (second[0], labels), 1000)
