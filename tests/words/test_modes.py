"""The four ways to search against the one that scores everything."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.support.errors import ConfigError
from ipl.words import modes as modes_module
from ipl.words.greedy import greedy_search
from ipl.words.loss import CrossEntropy, Tangents
from ipl.words.modes import Exact, Search
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer
from ipl.words.selection import Selection
from ipl.words.template import Template

NAMES = ["cat", "starry night", "pirate ship", "old lighthouse", "ox"]
SMALL = Pool.from_words(Pool.bundled().words[7::356], "test")
LARGE = Pool.from_words(Pool.bundled().words[::30], "test")
TINY = 0.0015  # GiB: seven words of five classes at a time, blocks of 78
Disturb = Callable[[Tensor, Sequence[str]], Tensor]
HALF, FULL = torch.float16, torch.float32
PROBES = {*LARGE.words[::5], *LARGE.words[1::5][:4]}


def make(
    backbone: Backbone,
    seed: int,
    classes: int = 4,
    store: FeatureStore | None = None,
    memory: float = 2.0,
    template: Template | None = None,
) -> SentenceScorer:
    """Returns a scorer of random images that are about as hard as real ones."""
    generator = torch.Generator().manual_seed(seed)
    names = NAMES[:classes]
    texts = normalize(backbone.encode_texts([f"an image of a {name}" for name in names]), dim=-1)
    labels = torch.randint(classes, (5 * classes,), generator=generator)
    noise = 0.3 * torch.randn(len(labels), texts.shape[1], generator=generator)
    images = normalize(texts[labels] + texts.mean(0) + noise, dim=-1)
    return SentenceScorer(backbone, names, images, labels, template, store, memory)


@pytest.fixture(scope="module")
def stores(pocket: Backbone) -> dict[float, FeatureStore]:
    """Returns a store per memory: the first step is the same for all images."""
    return {2.0: FeatureStore(pocket), TINY: FeatureStore(pocket)}


@pytest.fixture(scope="module")
def scorer(pocket: Backbone, stores: dict[float, FeatureStore]) -> SentenceScorer:
    return make(pocket, 5, store=stores[2.0])


@pytest.fixture(scope="module")
def truth(scorer: SentenceScorer) -> Selection:
    return greedy_search(scorer, LARGE, 2, search=Search("exhaustive"))


def ranked(selection: Selection) -> list[list[str]]:
    """Returns each step's words in the order of their gains."""
    return [[step.word, *(other.word for other in step.runners_up)] for step in selection.steps]


def numbers(selection: Selection) -> list[float]:
    found = []
    for step in selection.steps:
        found += [step.gain, step.utility, step.redundancy, step.loss]
        found += [other.gain for other in step.runners_up]
    return found


def assert_same(found: Selection, truth: Selection) -> None:
    """Fails unless both have the same words, the same runners-up in the same order, and gains."""
    assert ranked(found) == ranked(truth)
    np.testing.assert_allclose(numbers(found), numbers(truth), atol=5e-6, rtol=0)  # fp32


@pytest.mark.parametrize(
    ("pool", "seed"),
    [*((SMALL, seed) for seed in range(12)), *((LARGE, seed) for seed in (1, 5, 6))],
)
def test_exact_is_exhaustive(
    pocket: Backbone, stores: dict[float, FeatureStore], seed: int, pool: Pool
) -> None:
    memory = (2.0, TINY)[seed % 2]
    scorer = make(pocket, seed, (2, 5, 3, 4)[seed % 4], stores[memory], memory)
    preset, embedding = ("paper", "reference")[seed // 3 % 2], ("text", "token")[seed // 6]
    objective = Objective((0.0, 0.1, 1.0)[seed % 3], preset, embedding)
    every = greedy_search(scorer, pool, 2, objective, Search("exhaustive"))
    found = greedy_search(scorer, pool, 2, objective, Search("exact"))
    assert_same(found, every)
    assert (found.certified, every.certified) == (True, True)
    assert [step.scored for step in every.steps] == [len(pool), len(pool) - 1]
    assert all(len(step.runners_up) == 19 for step in found.steps)
    if pool is LARGE:
        assert max(step.scored for step in found.steps) < 0.8 * len(pool)


def test_exact_without_a_store_over_many_blocks(
    pocket: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tangents of one block bound the words of the next; memory does not change the words."""
    template = Template("a {cls} showcasing: {words}!")
    pool = Pool.from_words(LARGE.words[::2], "test")
    sizes, prune = list[int](), Exact._prune
    monkeypatch.setattr(
        Exact, "_prune", lambda self, *args: (sizes.append(len(args[0])), prune(self, *args))
    )
    # Penalties of either sign, as large as the losses, from the first step on.
    monkeypatch.setattr(Objective, "redundancy", lambda self, e, _: torch.arange(len(e)).sin())
    tight = make(pocket, 3, 3, memory=TINY / 2.5, template=template)
    found = greedy_search(tight, pool, 2, Objective(1.0), Search("exact"))
    assert len(sizes) >= 2 * 3
    assert sum(sizes) == 2 * len(pool)
    plenty = make(pocket, 3, 3, template=template)
    every = greedy_search(plenty, pool, 2, Objective(1.0), Search("exhaustive"))
    assert ranked(found) == ranked(every)
    np.testing.assert_allclose(numbers(found), numbers(every), atol=5e-5, rtol=0)  # fp32 features


@pytest.mark.parametrize("coarse", [0.02, 0.5, 100.0])
def test_equal_gains_go_in_alphabetical_order(
    scorer: SentenceScorer, monkeypatch: pytest.MonkeyPatch, coarse: float
) -> None:
    """Losses rounded up are as good a loss for the bounds, and full of ties at every rank."""
    plain = CrossEntropy.losses
    monkeypatch.setattr(
        CrossEntropy, "losses", lambda self, texts: torch.ceil(plain(self, texts) / coarse) * coarse
    )
    every = greedy_search(scorer, LARGE, 2, Objective(0.0), Search("exhaustive"))
    found = greedy_search(scorer, LARGE, 2, Objective(0.0), Search("exact"))
    assert ranked(found) == ranked(every)
    for step, words in zip(every.steps, ranked(every), strict=True):
        gains = [step.gain, *(other.gain for other in step.runners_up)]
        assert list(zip(gains, words, strict=True)) == sorted(
            zip(gains, words, strict=True), key=lambda pair: (-pair[0], pair[1])
        )
        assert len(set(gains)) < len(gains)
    if coarse == 100.0:
        assert every.words == LARGE.words[:2]


@pytest.mark.parametrize("mode", ["screen", "lazy"])
def test_guesses_say_so_and_start_right(
    scorer: SentenceScorer, truth: Selection, mode: str
) -> None:
    found = greedy_search(scorer, LARGE, 2, search=Search(mode, shortlist=len(LARGE)))
    assert not found.certified
    assert found.search == mode
    assert found.recall is None
    assert ranked(found)[0] == ranked(truth)[0]
    assert all(step.scored <= len(LARGE) for step in found.steps)
    if mode == "screen":  # a shortlist of everything is everything
        assert_same(found, truth)


def test_lazy_scores_less_and_at_most_the_pool(
    scorer: SentenceScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, plain = list[tuple[int, int]](), SentenceScorer.score

    def score(self: SentenceScorer, selected: Sequence[str], words: Sequence[str], *rest: object):
        asked.append((len(selected), len(words)))
        return plain(self, selected, words, *rest)

    monkeypatch.setattr(SentenceScorer, "score", score)
    monkeypatch.setattr(modes_module, "AT_ONCE", 16)
    found = greedy_search(scorer, LARGE, 3, search=Search("lazy"))
    for number, step in enumerate(found.steps):
        assert sum(count for at, count in asked if at == number) <= len(LARGE)
        assert step.scored <= len(LARGE) - number
    assert found.steps[0].scored == len(LARGE)
    assert min(step.scored for step in found.steps) < len(LARGE) / 2
    assert len(set(found.words)) == 3


@pytest.mark.parametrize(("seed", "shortlist"), [(0, 20), (1, 20), (2, 60), (4, 150)])
def test_recall_is_right(
    pocket: Backbone, stores: dict[float, FeatureStore], seed: int, shortlist: int
) -> None:
    scorer = make(pocket, seed, store=stores[2.0])
    objective = Objective(0.2)
    search = Search("screen", shortlist=shortlist, recall=True)
    found = greedy_search(scorer, LARGE, 2, objective, search)
    embeddings, winners = objective.embed_words(pocket, LARGE.words), []
    for number, step in enumerate(found.steps):
        chosen = [LARGE.words.index(word) for word in found.words[:number]]
        cost = scorer.score(found.words[:number], LARGE.words).numpy()
        cost += 0.2 * objective.redundancy(embeddings, chosen).numpy()
        cost[chosen] = np.inf
        winners.append(LARGE.words[int(cost.argmin())])
        assert step.scored == shortlist
    hits = [word == winner for word, winner in zip(found.words, winners, strict=True)]
    assert [step.recalled for step in found.steps] == hits
    assert found.recall == sum(hits) / 2


# -- a first sweep in half precision, pretended on the CPU -----------------------------------------


@pytest.fixture
def in_half(monkeypatch: pytest.MonkeyPatch) -> Callable[[Disturb], list[torch.dtype]]:
    """Returns pretend(disturb, rougher): features in half are disturbed; it lists all sweeps.

    With `rougher`, there are 8-bit features as well, which it disturbs.
    """

    def pretend(disturb: Disturb, rougher: Disturb | None = None) -> list[torch.dtype]:
        sweeps: list[torch.dtype] = []
        plain, sweep = SentenceScorer.features, Exact._sweep

        def features(self, selected, candidates, dtype=torch.float32):
            start = 0
            for chunk in plain(self, selected, candidates):
                words = candidates[start : start + len(chunk)]
                change = {torch.float16: disturb, torch.int8: rougher}.get(dtype)
                yield chunk if change is None else change(chunk.clone(), words)
                start += len(chunk)

        def swept(self, step, dtype):
            sweeps.append(dtype)
            return sweep(self, step, dtype)

        precisions = (torch.float16,) if rougher is None else (torch.int8, torch.float16)
        monkeypatch.setattr(SentenceScorer, "precisions", property(lambda self: precisions))
        monkeypatch.setattr(
            CrossEntropy,
            "rough_losses",
            lambda self, features, rows=None: self.losses(
                features if rows is None else features[rows]
            ),
        )
        monkeypatch.setattr(Tangents, "_rough_bounds", Tangents.bounds)
        monkeypatch.setattr(SentenceScorer, "features", features)
        monkeypatch.setattr(Exact, "_sweep", swept)
        return sweeps

    return pretend


def noise(chunk: Tensor, words: Sequence[str], size: float) -> Tensor:
    """Returns features with noise that is a word's own, as rounding is."""
    for row, word in enumerate(words):
        generator = torch.Generator().manual_seed(zlib.crc32(word.encode()))
        other = torch.randn(chunk[row].shape, generator=generator)
        chunk[row] += size * chunk[row].norm(dim=-1, keepdim=True) * normalize(other, dim=-1)
    return chunk


@pytest.mark.parametrize("size", [0.0, 1e-5, 1e-3, 2e-2])
def test_finalists_of_a_rough_sweep_are_scored_exactly(
    scorer: SentenceScorer, truth: Selection, in_half, size: float
) -> None:
    sweeps = in_half(lambda chunk, words: noise(chunk, words, size))
    found = greedy_search(scorer, LARGE, 2)
    assert_same(found, truth)
    assert found.certified
    assert sweeps == [HALF, HALF]
    assert all(20 <= step.scored < len(LARGE) for step in found.steps) or size > 1e-3


@pytest.mark.parametrize("size", [1e-4, 3e-3])
def test_what_8_bits_leave_is_scored_in_half_and_then_exactly(
    scorer: SentenceScorer, truth: Selection, in_half, size: float
) -> None:
    sweeps = in_half(
        lambda chunk, words: noise(chunk, words, size / 30),
        lambda chunk, words: noise(chunk, words, size),
    )
    found = greedy_search(scorer, LARGE, 2)
    assert_same(found, truth)
    assert found.certified
    assert sweeps == [torch.int8, torch.int8]
    assert all(20 <= step.scored < len(LARGE) for step in found.steps)


def test_8_bits_that_are_too_rough_are_not_used(
    scorer: SentenceScorer, truth: Selection, in_half
) -> None:
    sweeps = in_half(
        lambda chunk, words: noise(chunk, words, 1e-4),
        lambda chunk, words: noise(chunk, words, 0.3),
    )
    assert_same(greedy_search(scorer, LARGE, 2), truth)
    assert sweeps == [torch.int8, HALF, HALF]  # whose first block tells


def test_a_half_that_leaves_most_words_is_given_up(
    scorer: SentenceScorer, truth: Selection, in_half
) -> None:
    sweeps = in_half(lambda chunk, words: noise(chunk, words, 0.3))
    assert_same(greedy_search(scorer, LARGE, 2), truth)
    assert sweeps == [HALF, FULL]


def test_8_bits_that_promise_too_much_cost_a_second_sweep(
    scorer: SentenceScorer, truth: Selection, in_half
) -> None:
    def rougher(chunk: Tensor, words: Sequence[str]) -> Tensor:
        rows = [(chunk[i : i + 1], [word]) for i, word in enumerate(words)]
        sizes = [1e-6 if word in PROBES else 0.3 for word in words]
        return torch.cat([noise(*row, size) for row, size in zip(rows, sizes, strict=True)])

    sweeps = in_half(lambda chunk, words: noise(chunk, words, 1e-4), rougher)
    assert_same(greedy_search(scorer, LARGE, 2), truth)
    assert sweeps[:2] == [torch.int8, HALF]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_8_bits_before_a_half_that_overflows(
    scorer: SentenceScorer, truth: Selection, in_half, value: float
) -> None:
    def disturb(chunk: Tensor, words: Sequence[str]) -> Tensor:
        for row, word in enumerate(words):
            if word == truth.words[0]:
                chunk[row, 1, 3] = value
        return chunk

    sweeps = in_half(disturb, lambda chunk, words: noise(chunk, words, 1e-3))
    assert_same(greedy_search(scorer, LARGE, 2), truth)
    assert sweeps[-1] == FULL


def test_probes_that_promise_too_much_cost_a_second_sweep(
    scorer: SentenceScorer, truth: Selection, in_half
) -> None:
    sweeps = in_half(
        lambda chunk, words: torch.stack(
            [
                noise(chunk[i : i + 1], [w], 1e-6 if w in PROBES else 0.3)[0]
                for i, w in enumerate(words)
            ]
        )
    )
    assert_same(greedy_search(scorer, LARGE, 2), truth)
    assert sweeps[:2] == [HALF, FULL]  # later the margin is as wide as what was seen


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", ["the winner", "a probe", "every word", "every but the probes"])
def test_a_half_that_overflows_is_not_used(
    scorer: SentenceScorer, truth: Selection, in_half, where: str, value: float
) -> None:
    bad = {
        "the winner": {truth.words[0]},
        "a probe": {min(PROBES), truth.words[0]},
        "every word": set(LARGE.words),
        "every but the probes": set(LARGE.words) - PROBES,
    }[where]

    def disturb(chunk: Tensor, words: Sequence[str]) -> Tensor:
        for row, word in enumerate(words):
            if word in bad:
                chunk[row, 1, 3] = value
        return noise(chunk, words, 1e-4)

    sweeps = in_half(disturb)
    found = greedy_search(scorer, LARGE, 2)
    assert_same(found, truth)
    assert sweeps[-2:] == [FULL, FULL]  # once bitten, twice shy
    assert max(step.scored for step in found.steps) < len(LARGE) - 1  # bounds work on


def test_a_small_pool_is_not_swept_in_half(scorer: SentenceScorer, in_half) -> None:
    sweeps = in_half(lambda chunk, words: chunk * float("nan"))
    greedy_search(scorer, Pool.from_words(LARGE.words[: 2 * Exact.PROBES], "test"), 1)
    assert sweeps == [FULL]


def test_what_is_no_search() -> None:
    with pytest.raises(ConfigError, match="search is 'exakt'.*exact"):
        Search("exakt")
    with pytest.raises(ConfigError, match="shortlist is 19; it must be 20 or more"):
        Search("screen", shortlist=19)
    with pytest.raises(ConfigError, match="recall works only with search 'screen'"):
        Search("lazy", recall=True)
