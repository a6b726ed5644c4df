"""Equal means: Welch's test of any number of arms, with the null distribution simulated through the noise.

The statistic adds up squared distances of the arms' means from their weighted mean, each over its own variance, so arms
may differ in size and spread. Under the hypothesis the means vary with sampling and noise, and the variances with their
degrees of freedom (a parametric bootstrap, as Krishnamoorthy, Lu and Mathew 2007 for means without noise).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from discreet.inference.arm_means import Contrast
from discreet.inference.least_squares import JointTest
from discreet.inference.monte_carlo import MonteCarlo

__all__ = ["equal_means"]

Array = NDArray[np.float64]


def equal_means(arms: Sequence[Contrast], null: MonteCarlo) -> JointTest:
    """Test whether all arms have one mean.

    Parameters
    ----------
    arms
        Independent estimates of every arm's mean.
    null
        How many releases to simulate under the hypothesis, and from which seed.

    Examples
    --------
    >>> alike = [Contrast(2.0, 0.01, 50.0), Contrast(2.1, 0.02, 40.0), Contrast(1.9, 0.01, 50.0)]
    >>> apart = [*alike[:2], Contrast(3.0, 0.01, 50.0)]
    >>> [equal_means(arms, MonteCarlo(rng=1)).pvalue < 0.05 for arms in (alike, apart)]
    [False, True]
    """
    rng, size = null.generator(), null.n_resamples
    variances = np.array([float(one.standard_error) ** 2 for one in arms])
    observed = float(_distance(np.array([float(one.estimate) for one in arms]), variances))
    means = np.stack([one.law.sample(size, rng) for one in arms], axis=-1)
    df = np.array([float(one.df) for one in arms])
    found = _distance(means, variances * rng.chisquare(df, size=(size, len(arms))) / df)
    return JointTest(observed, len(arms) - 1, null.pvalue(observed, found))


def _distance(means: Array, variances: Array) -> Array:
    weights = 1 / np.maximum(variances, 1e-300)
    middle = (weights * means).sum(axis=-1) / weights.sum(axis=-1)
    return np.asarray((weights * (means - middle[..., None]) ** 2).sum(axis=-1))
