"""Random words that are as frequent as given ones."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from ipl.support.errors import ConfigError
from ipl.words.filters import FilterUnavailable
from ipl.words.pool import Pool
from ipl.words.zipf import zipf_of

NEAR = 200  # words of the pool that count as equally frequent
ZIPF = "Zipf frequency in English (wordfreq)"
RANK = "rank in the tokenizer's vocabulary, frequent to rare (wordfreq is not installed)"


class RandomWords:
    """Draws words of a pool at random, each about as frequent as a given word.

    Parameters
    ----------
    pool : Pool
        The words to draw from.
    tokens : sequence of int
        The token of each word. Their order stands for the frequency of words that are not in the
        package where wordfreq is not installed: tokenizers merge frequent words first.

    Attributes
    ----------
    measure : str
        How the frequency is measured.
    """

    def __init__(self, pool: Pool, tokens: Sequence[int]) -> None:
        self.pool = pool
        try:
            self.measure, self._values = ZIPF, np.array([zipf_of(word) for word in pool.words])
        except FilterUnavailable:
            self.measure, self._values = RANK, np.argsort(np.argsort(tokens)).astype(np.float64)

    def draw(self, words: Sequence[str], stream: random.Random) -> tuple[str, ...]:
        """Returns a random word for each given word of the pool, none of them twice.

        Parameters
        ----------
        words : sequence of str
            Words of the pool; none of them is drawn.
        stream : random.Random
            Draws the words.

        Raises
        ------
        ConfigError
            If the pool has too few words.
        """
        drawn: list[str] = []
        for word in words:
            free = [near for near in self._near(word, words) if near not in drawn]
            if not free:
                raise ConfigError(
                    f"The pool has {len(self.pool):,} words, too few to draw {len(words)} random "
                    "ones beside those that were chosen."
                )
            drawn.append(stream.choice(free))
        return tuple(drawn)

    def _near(self, word: str, excluded: Sequence[str]) -> list[str]:
        """Returns the words of the pool that are nearest in frequency, without the excluded."""
        pool = self.pool.words
        distance = np.abs(self._values - self._values[pool.index(word)])
        order = np.argsort(distance, kind="stable")[: NEAR + len(excluded)]
        return [pool[i] for i in order if pool[i] not in excluded][:NEAR]
