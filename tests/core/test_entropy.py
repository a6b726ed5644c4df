"""Noise is never shared: not by forks, threads, spawned workers or repeated calls."""

import multiprocessing
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from discreet.core.noise.sampler import SYSTEM_ENTROPY
from discreet.mechanisms.laplace import LaplaceLaw
from tests.processes import LIMIT, output

pytestmark = pytest.mark.false_failure(3e-12, "640,000 fair bits seven standard errors off; equal draws are far rarer")
WORKERS = 1000
FORKS = 300


def draw(_=None):
    return LaplaceLaw(np.zeros(100), 1.0).sample().tobytes()


FORKED = """
import os, sys
from tests.core.test_entropy import draw
draw()
for _ in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        try:
            print(draw().hex(), flush=True)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
"""


def test_forked_children_draw_different_noise():
    """Each child draws right after the fork, without any re-seeding."""
    draws = output([sys.executable, "-c", FORKED, str(FORKS)]).split()
    assert len(set(draws)) == len(draws) == FORKS


def test_threads_draw_different_noise():
    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(draw, range(WORKERS)))) == WORKERS


def test_spawned_workers_draw_different_noise():
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert len(set(pool.map_async(draw, range(20), chunksize=1).get(LIMIT))) == 20


@pytest.mark.parametrize("count", [1, 64, 65, 10_000])
def test_words_are_fresh_and_fair(count):
    first, second = SYSTEM_ENTROPY.words(count), SYSTEM_ENTROPY.words(count)
    assert first.shape == (count,)
    assert not np.array_equal(first, second)
    if count == 10_000:
        ones = int(np.unpackbits(first.view(np.uint8)).sum())
        assert abs(ones - 32 * count) < 7 * np.sqrt(16 * count)  # seven standard errors of 640,000 fair bits


def test_numpy_seeds_do_not_reach_exact_draws():
    np.random.seed(1)  # noqa: NPY002  (the point is that it has no effect)
    first = draw()
    np.random.seed(1)  # noqa: NPY002
    assert draw() != first
