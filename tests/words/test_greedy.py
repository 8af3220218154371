"""The search against plain loops, what it counts and what it reports."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from rich.console import Console
from torch.nn.functional import cross_entropy, normalize

from ipl.backbone.backbone import Backbone
from ipl.backbone.prefix_cache import PrefixCache
from ipl.backbone.siglip import SiglipBackbone
from ipl.support.errors import ConfigError
from ipl.support.progress import Advance, Reporter
from ipl.words.greedy import FINALISTS, greedy_search
from ipl.words.loss import CrossEntropy
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer, check_room
from ipl.words.selection import Selection
from tests.helpers.reference_loss import NAMES, POOL, Images, plain_loss, prompts_with

LARGE = Pool.from_words(Pool.bundled().words[::60], "test")


@pytest.fixture
def scorer(pocket: Backbone, few_images: Images) -> SentenceScorer:
    return SentenceScorer(pocket, NAMES, *few_images)


@pytest.mark.parametrize("preset", ["paper", "reference"])
@pytest.mark.parametrize("embedding", ["text", "token"])
def test_the_words_are_those_of_a_plain_greedy_loop(
    pocket: Backbone, few_images: Images, scorer: SentenceScorer, preset: str, embedding: str
) -> None:
    objective = Objective(0.3, preset, embedding)
    if embedding == "text":
        e = normalize(pocket.encode_texts(list(POOL.words)), dim=-1)
    else:
        e = normalize(pocket.embed([pocket.tokenize(w)[0] for w in POOL.words]), dim=-1)
    chosen: list[int] = []
    loss = plain_loss(pocket, few_images, [f"a photo of a {name}" for name in NAMES])
    steps = []
    for _ in range(3):
        best = None
        for i, word in enumerate(POOL.words):
            if i in chosen:
                continue
            after = plain_loss(
                pocket, few_images, prompts_with([POOL.words[j] for j in chosen] + [word])
            )
            cosines = [float(e[i] @ e[j]) for j in chosen] or [0.0]
            repeated = sum(cosines) if preset == "paper" else sum(cosines) / len(cosines)
            gain = loss - after - 0.3 * repeated
            if best is None or gain > best[0]:
                best = (gain, i, after, repeated)
        assert best is not None
        steps.append(best)
        chosen.append(best[1])
        loss = best[2]
    found = greedy_search(scorer, POOL, 3, objective)
    assert found.words == tuple(POOL.words[i] for i in chosen)
    for step, (gain, _, after, repeated) in zip(found.steps, steps, strict=True):
        assert step.gain == pytest.approx(gain, abs=2e-4)
        assert step.loss == pytest.approx(after, abs=1e-4)
        assert step.redundancy == pytest.approx(repeated, abs=1e-4)
        assert step.gain == pytest.approx(step.utility - 0.3 * step.redundancy, abs=1e-6)


def test_the_first_word_is_the_best_single_word(scorer: SentenceScorer) -> None:
    found = greedy_search(scorer, POOL, 1)
    losses = {word: scorer.loss([word]) for word in POOL.words}
    assert found.words[0] == min(losses, key=losses.__getitem__)
    ranked = [found.words[0], *(r.word for r in found.steps[0].runners_up)]
    assert ranked == sorted(losses, key=losses.__getitem__)


def test_a_large_lambda_changes_the_choice(scorer: SentenceScorer) -> None:
    free = greedy_search(scorer, POOL, 3, Objective(0.0))
    strict = greedy_search(scorer, POOL, 3, Objective(50.0))
    assert free.words[0] == strict.words[0]
    assert free.words != strict.words
    assert sum(s.redundancy for s in strict.steps) < sum(s.redundancy for s in free.steps)


def test_no_word_is_chosen_twice_and_the_whole_pool_can_be(scorer: SentenceScorer) -> None:
    found = greedy_search(scorer, POOL, len(POOL))
    assert sorted(found.words) == list(POOL.words)
    assert [step.checked for step in found.steps] == list(range(len(POOL), 0, -1))
    assert found.steps[-1].runners_up == ()


def test_k_must_fit_the_pool_and_the_positions(pocket: Backbone, few_images: Images) -> None:
    scorer = SentenceScorer(pocket, NAMES, *few_images)
    with pytest.raises(ConfigError, match="words is 11; the pool has 10 words"):
        greedy_search(scorer, POOL, 11)
    many = Pool.from_words(Pool.bundled().words[:60], "test")
    with pytest.raises(ConfigError, match="40 words need 93 tokens .* 77 positions"):
        greedy_search(scorer, many, 40)


# -- a sweep in half precision, pretended on any machine ------------------------------------------


class RoughScorer(SentenceScorer):
    """A scorer whose features in half precision have noise that is a word's own, as rounding is."""

    half = torch.float16
    noise = 0.0
    overflows: tuple[str, ...] = ()

    def features(
        self, selected: Sequence[str], candidates: Sequence[str], dtype: torch.dtype = torch.float32
    ) -> Iterator[torch.Tensor]:
        start = 0
        for chunk in super().features(selected, candidates):
            words = candidates[start : start + len(chunk)]
            start += len(chunk)
            yield chunk if dtype == torch.float32 else self._disturbed(chunk.clone(), words)

    def _disturbed(self, chunk: torch.Tensor, words: Sequence[str]) -> torch.Tensor:
        for row, word in enumerate(words):
            generator = torch.Generator().manual_seed(zlib.crc32(word.encode()))
            other = normalize(torch.randn(chunk[row].shape, generator=generator), dim=-1)
            chunk[row] += self.noise * chunk[row].norm(dim=-1, keepdim=True) * other
            if word in self.overflows:
                chunk[row, 1, 3] = torch.inf
        return chunk


FIVE = ["cat", "starry night", "pirate ship", "old lighthouse", "ox"]


def hard_images(backbone: Backbone, seed: int) -> Images:
    """Returns random images that are about as hard as real ones."""
    generator = torch.Generator().manual_seed(seed)
    texts = normalize(backbone.encode_texts([f"an image of a {name}" for name in FIVE]), dim=-1)
    labels = torch.randint(len(FIVE), (25,), generator=generator)
    noise = 0.3 * torch.randn(len(labels), texts.shape[1], generator=generator)
    return normalize(texts[labels] + texts.mean(0) + noise, dim=-1), labels


def assert_same(found: Selection, truth: Selection) -> None:
    """Fails unless both have the same words, the same runners-up in the same order, and gains."""
    for ours, theirs in zip(found.steps, truth.steps, strict=True):
        assert ours.word == theirs.word
        assert [other.word for other in ours.runners_up] == [o.word for o in theirs.runners_up]
        gains = [ours.gain, ours.loss, *(other.gain for other in ours.runners_up)]
        expected = [theirs.gain, theirs.loss, *(other.gain for other in theirs.runners_up)]
        np.testing.assert_allclose(gains, expected, atol=5e-6, rtol=0)  # fp32


@pytest.mark.parametrize("lambda_", [0.0, 1.0])
@pytest.mark.parametrize(("noise", "most"), [(0.0, 64), (1e-5, 64), (1e-3, 256), (2e-2, 149)])
def test_exact_is_exhaustive(pocket: Backbone, noise: float, most: int, lambda_: float) -> None:
    rough = RoughScorer(pocket, FIVE, *hard_images(pocket, 5))
    rough.noise = noise
    found = greedy_search(rough, LARGE, 2, Objective(lambda_))
    truth = greedy_search(rough, LARGE, 2, Objective(lambda_), "exhaustive")
    assert_same(found, truth)
    assert [step.checked for step in truth.steps] == [len(LARGE), len(LARGE) - 1]
    assert not any(step.margin for step in truth.steps)
    for step in found.steps:
        assert FINALISTS <= step.checked <= most
        assert (step.margin == 0) == (step.checked >= len(LARGE) - 1)


@pytest.mark.parametrize("which", ["the best word", "every word"])
def test_a_half_that_overflows_is_not_used(pocket: Backbone, which: str) -> None:
    scorer = RoughScorer(pocket, FIVE, *hard_images(pocket, 5))
    truth = greedy_search(scorer, LARGE, 2, search="exhaustive")
    scorer.overflows = truth.words[:1] if which == "the best word" else LARGE.words
    found = greedy_search(scorer, LARGE, 2)
    assert_same(found, truth)
    assert found.steps[0].checked == len(LARGE)
    assert found.steps[0].margin == 0


def test_a_small_pool_is_scored_in_fp32_at_once(pocket: Backbone) -> None:
    scorer = RoughScorer(pocket, FIVE, *hard_images(pocket, 5))
    scorer.overflows = LARGE.words
    found = greedy_search(scorer, Pool.from_words(LARGE.words[:FINALISTS], "test"), 1)
    assert (found.steps[0].checked, found.steps[0].margin) == (FINALISTS, 0.0)


def test_equal_gains_go_in_alphabetical_order(
    pocket: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = CrossEntropy.losses
    monkeypatch.setattr(
        CrossEntropy, "losses", lambda self, *args: torch.ceil(plain(self, *args) / 100) * 100
    )
    scorer = RoughScorer(pocket, FIVE, *hard_images(pocket, 5))
    for search in ("exact", "exhaustive"):
        found = greedy_search(scorer, LARGE, 2, Objective(0.0), search)
        assert found.words == LARGE.words[:2]


# -- progress --------------------------------------------------------------------------------------


class Stopped(Exception):
    """Nobody waits for the search any longer."""


class Counter(Reporter):
    """Keeps what it is told, and stops the search after so many words."""

    def __init__(self, most: float = float("inf")) -> None:
        super().__init__(quiet=True)
        self.steps: list[int] = []
        self.most = most

    @contextmanager
    def task(self, title: str, total: int | None) -> Iterator[Advance]:
        """Yields advance(steps)."""

        def advance(steps: int = 1, note: str = "") -> None:
            self.steps.append(steps)
            if sum(self.steps) >= self.most:
                raise Stopped

        yield advance


@pytest.mark.parametrize("mode", ["exact", "exhaustive"])
def test_every_chunk_of_words_is_told(
    pocket: Backbone, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PrefixCache, "candidates_at_once", lambda *_: 16)
    images = normalize(torch.randn(6, pocket.feature_dim), dim=-1)
    labels = torch.tensor([0, 1] * 3)
    scorer = SentenceScorer(pocket, ["cat", "ox"], images, labels)
    counter = Counter()
    greedy_search(scorer, LARGE, 1, search=mode, reporter=counter)
    assert sum(counter.steps) == len(LARGE)
    assert max(counter.steps) == 16
    stopped = Counter(most=40)
    with pytest.raises(Stopped):
        greedy_search(scorer, LARGE, 1, search=mode, reporter=stopped)
    assert sum(stopped.steps) == 48


FEW = Pool.from_words(LARGE.words[::5], "test")


# -- towers that are not causal --------------------------------------------------------------------


@torch.no_grad()
def library_features(siglip: Backbone, texts: list[str]) -> torch.Tensor:
    """Returns normalised text features by the library's own forward, one text at a time."""
    found = []
    for text in texts:
        ids = [*siglip.tokenizer(text, add_special_tokens=False)["input_ids"]]
        ids += [siglip.eos] * (siglip.positions - len(ids))
        output = siglip.model.get_text_features(input_ids=torch.tensor([ids]))
        found.append(getattr(output, "pooler_output", output)[0])
    return normalize(torch.stack(found), dim=-1)


def plain_search(
    siglip: Backbone, images: torch.Tensor, labels: torch.Tensor, k: int, lambda_: float
) -> list[tuple[str, float]]:
    """Returns words and gains of the method as it is written down."""

    def loss(words: list[str]) -> float:
        ending = f", with emphasis on: {', '.join(words)}" if words else ""
        texts = library_features(siglip, [f"a photo of a {name}{ending}" for name in NAMES])
        return cross_entropy(siglip.logit_scale * images @ texts.T, labels).item()

    e = dict(zip(FEW.words, library_features(siglip, list(FEW.words)), strict=True))
    chosen: list[tuple[str, float]] = []
    for _ in range(k):
        words = [word for word, _ in chosen]
        before = loss(words)
        gains = {
            word: before
            - loss([*words, word])
            - lambda_ * sum(float(e[word] @ e[other]) for other in words)
            for word in FEW.words
            if word not in words
        }
        best = max(gains, key=gains.__getitem__)
        chosen.append((best, gains[best]))
    return chosen


@pytest.fixture(scope="module")
def folder_of_images() -> tuple[torch.Tensor, torch.Tensor]:
    features = torch.randn(9, 32, generator=torch.Generator().manual_seed(4))
    return normalize(features, dim=-1), torch.arange(9) % 3


@pytest.mark.parametrize("mode", ["exact", "exhaustive"])
def test_siglip_against_a_plain_loop(
    siglip: SiglipBackbone, folder_of_images: tuple[torch.Tensor, torch.Tensor], mode: str
) -> None:
    said = io.StringIO()
    scorer = SentenceScorer(siglip, NAMES, *folder_of_images)
    found = greedy_search(
        scorer,
        FEW,
        2,
        Objective(0.3),
        mode,
        reporter=Reporter(console=Console(file=said, width=500)),
    )
    assert "text tower of tiny siglip is not causal: every prompt is encoded" in said.getvalue()
    expected = plain_search(siglip, *folder_of_images, k=2, lambda_=0.3)
    assert found.words == tuple(word for word, _ in expected)
    for step, (_, gain) in zip(found.steps, expected, strict=True):
        assert step.gain == pytest.approx(gain, abs=2e-4)
    assert scorer.half is None


def test_the_room_of_a_siglip_is_counted_without_an_opening(
    siglip: SiglipBackbone, folder_of_images: tuple[torch.Tensor, torch.Tensor]
) -> None:
    """The largest k that is let through fills the positions to the last but one at most."""
    scorer = SentenceScorer(siglip, NAMES, *folder_of_images)
    sentence = f"a photo of a {NAMES[1]}, with emphasis on: "
    fits = [
        k
        for k in range(1, 12)
        if len(siglip.tokenize(sentence + ", ".join(["blue"] * k))) + 1 <= siglip.positions
    ]
    check_room(scorer.template, scorer.backbone, scorer.class_names, max(fits))
    with pytest.raises(ConfigError, match=f"but tiny siglip has {siglip.positions} positions"):
        check_room(scorer.template, scorer.backbone, scorer.class_names, max(fits) + 1)
