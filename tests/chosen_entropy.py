"""Entropy with known words, so that a draw can be computed independently."""

import numpy as np


class ChosenEntropy:
    """Hands out the given words first and, for draws that ask for more, one fixed list of further words in turn."""

    def __init__(self, words, further=(0x9E3779B97F4A7C15,)):
        self.first = np.asarray(words, dtype=np.uint64)
        self.position = 0
        self.further = list(further)
        self.extra_words = 0

    def words(self, count):
        if self.position < self.first.size:
            batch = self.first[self.position : self.position + count]
            assert batch.size == count
            self.position += count
            return batch
        self.extra_words += count
        return np.array([self.further[i % len(self.further)] for i in range(count)], dtype=np.uint64)


class InterleavedEntropy(ChosenEntropy):
    """Like `ChosenEntropy`, but single words are always further bits of the draw being resolved."""

    def words(self, count):
        if count == 1:
            self.extra_words += 1
            return np.array([self.further[0]], dtype=np.uint64)
        batch = self.first[self.position : self.position + count]
        self.position += count
        return batch
