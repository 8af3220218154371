"""The search against plain loops; what it stores and continues."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from torch.nn.functional import cross_entropy, normalize

from ipl.backbone.backbone import Backbone
from ipl.backbone.clip import ClipBackbone
from ipl.backbone.features import FeatureStore
from ipl.backbone.prefix_cache import PrefixCache
from ipl.backbone.siglip import SiglipBackbone
from ipl.support.cache import Cache
from ipl.support.errors import ConfigError
from ipl.words.gain import UTILITIES, CrossEntropy, Objective
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer, check_length
from ipl.words.search import FINALISTS, RANKED, SavedSteps, SearchSettings, greedy_search
from ipl.words.selection import Selection, SelectionStep
from ipl.words.template import Template
from tests.helpers.reference_loss import NAMES, POOL, Images, plain_loss, prompts_with

LARGE = Pool.from_words(Pool.bundled().words[::60], "test")
MODES = ("exact", "exhaustive")


@pytest.fixture
def scorer(pocket: Backbone, few_images: Images) -> SentenceScorer:
    return SentenceScorer(pocket, NAMES, *few_images)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


# -- losses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("selected", [[], ["furry"], ["furry", "blue"]])
def test_losses_are_those_of_a_plain_loop(
    pocket: Backbone, few_images: Images, scorer: SentenceScorer, selected: list[str]
) -> None:
    ours = scorer.score(selected, POOL.words)
    loop = [plain_loss(pocket, few_images, prompts_with([*selected, word])) for word in POOL.words]
    torch.testing.assert_close(ours.sum(1), torch.tensor(loop).double(), atol=1e-4, rtol=0)
    without = prompts_with(selected) if selected else [f"a photo of a {name}" for name in NAMES]
    loss = float(scorer.cross_entropy.image_losses(scorer.prompt(selected)[None]).mean())
    assert loss == pytest.approx(plain_loss(pocket, few_images, without), abs=1e-4)


def test_the_length_is_counted_exactly(pocket: Backbone, siglip: Backbone) -> None:
    """The largest k that is allowed is the largest whose sentence fits, with SOS or without."""
    for backbone in (pocket, siglip):
        sentences = {k: prompts_with(["blue"] * k) for k in range(1, 50)}
        longest = {
            k: max(len(backbone.tokenize(text)) for text in texts) + len(backbone.opening) + 1
            for k, texts in sentences.items()
        }
        most = max(k for k, length in longest.items() if length <= backbone.positions)
        check_length(Template(), backbone, NAMES, most)
        with pytest.raises(ConfigError, match=f"{backbone.positions} positions"):
            check_length(Template(), backbone, NAMES, most + 1)


def test_other_shots_reuse_candidate_features(
    pocket: Backbone, few_images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, labels = few_images
    expected = SentenceScorer(pocket, NAMES, images, labels.flip(0)).score([], POOL.words)
    store = FeatureStore(pocket)
    SentenceScorer(pocket, NAMES, images, labels, store=store).score([], POOL.words)
    no_tower(monkeypatch)
    other = SentenceScorer(pocket, NAMES, images, labels.flip(0), store=store)
    torch.testing.assert_close(other.score([], POOL.words), expected)


# -- the greedy search ----------------------------------------------------------------------------


def plain_search(
    backbone: Backbone,
    images: Images,
    words: Sequence[str],
    k: int,
    objective: Objective,
    encode: Callable[[Sequence[str]], torch.Tensor],
) -> list[tuple[str, float, float]]:
    """The method as it is written down: the words, each with its gain and the loss after it."""

    def loss(chosen: list[str]) -> float:
        prompts = prompts_with(chosen) if chosen else [f"a photo of a {name}" for name in NAMES]
        cosines = images[0].double() @ encode(prompts).double().T

        def at(scale: float) -> float:
            return cross_entropy(scale * cosines, images[1]).item()

        if objective.utility == "paper":
            return at(backbone.logit_scale)
        return float(minimize_scalar(at, bounds=(1, 200), method="bounded").fun)

    if objective.word_embedding == "text":
        embeddings = encode(words)
    else:
        embeddings = normalize(backbone.embed(backbone.tokenize_words(words)), dim=-1)
    e = dict(zip(words, embeddings, strict=True))
    steps: list[tuple[str, float, float]] = []
    for _ in range(k):
        chosen = [word for word, _, _ in steps]
        before, best = loss(chosen), ("", -np.inf, 0.0)
        for word in words:
            if word in chosen:
                continue
            cosines = [float(e[word] @ e[other]) for other in chosen] or [0.0]
            redundancy = sum(cosines)
            if objective.preset == "reference":
                redundancy /= len(cosines)
            after = loss([*chosen, word])
            gain = before - after - objective.lambda_ * redundancy
            if gain > best[1]:
                best = (word, gain, after)
        steps.append(best)
    return steps


def assert_is(found: Selection, expected: list[tuple[str, float, float]]) -> None:
    assert list(found.words) == [word for word, _, _ in expected]
    for step, (_, gain, loss) in zip(found.steps, expected, strict=True):
        assert step.gain == pytest.approx(gain, abs=2e-4)
        assert step.loss == pytest.approx(loss, abs=1e-4)


@pytest.mark.parametrize("preset", ["paper", "reference"])
@pytest.mark.parametrize("embedding", ["text", "token"])
@pytest.mark.parametrize("utility", UTILITIES)
def test_the_words_are_those_of_a_plain_greedy_loop(
    pocket: Backbone, few_images: Images, preset: str, embedding: str, utility: str
) -> None:
    objective = Objective(0.3, preset, embedding, utility)
    scorer = SentenceScorer(pocket, NAMES, *few_images, objective=objective)

    def encode(texts: Sequence[str]) -> torch.Tensor:
        return normalize(pocket.encode_texts(list(texts)), dim=-1)

    expected = plain_search(pocket, few_images, POOL.words, 3, objective, encode)
    assert_is(greedy_search(scorer, POOL, 3), expected)


@pytest.mark.parametrize("utility", UTILITIES)
def test_siglip_is_searched_by_whole_prompts(siglip: SiglipBackbone, utility: str) -> None:
    features = torch.randn(9, 32, generator=torch.Generator().manual_seed(4))
    images = normalize(features, dim=-1), torch.arange(9) % 3

    @torch.no_grad()
    def encode(texts: Sequence[str]) -> torch.Tensor:  # by the library's own forward
        found = []
        for text in texts:
            ids = [*siglip.tokenizer(text, add_special_tokens=False)["input_ids"]]
            ids += [siglip.eos] * (siglip.positions - len(ids))
            output = siglip.model.get_text_features(input_ids=torch.tensor([ids]))
            found.append(getattr(output, "pooler_output", output)[0])
        return normalize(torch.stack(found), dim=-1)

    few = Pool.from_words(LARGE.words[::5], "test")
    objective = Objective(0.3, utility=utility)
    scorer = SentenceScorer(siglip, NAMES, *images, objective=objective)
    found = greedy_search(scorer, few, 2)
    assert_is(found, plain_search(siglip, images, few.words, 2, objective, encode))


def test_the_whole_pool_can_be_chosen_and_no_more(pocket: Backbone, scorer: SentenceScorer) -> None:
    found = greedy_search(scorer, POOL, len(POOL))
    assert sorted(found.words) == list(POOL.words)
    assert [step.checked for step in found.steps] == list(range(len(POOL), 0, -1))
    assert found.steps[-1].runners_up == ()
    with pytest.raises(ConfigError, match="the pool has 10 words"):
        SearchSettings(pool=POOL).check(pocket, NAMES, 11)


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


@pytest.fixture
def rough(pocket: Backbone) -> Callable[..., RoughScorer]:
    """Makes scorers of random images that are about as hard as real ones."""
    names = ["cat", "starry night", "pirate ship", "old lighthouse", "ox"]
    generator = torch.Generator().manual_seed(5)
    texts = normalize(pocket.encode_texts([f"an image of a {name}" for name in names]), dim=-1)
    labels = torch.randint(len(names), (25,), generator=generator)
    noise = 0.3 * torch.randn(len(labels), texts.shape[1], generator=generator)
    images = normalize(texts[labels] + texts.mean(0) + noise, dim=-1)
    return lambda *objective: RoughScorer(
        pocket, names, images, labels, objective=Objective(*objective)
    )


def assert_same(found: Selection, truth: Selection) -> None:
    """Fails unless both have the same words, runners-up and gains."""
    for ours, theirs in zip(found.steps, truth.steps, strict=True):
        assert ours.word == theirs.word
        assert [other.word for other in ours.runners_up] == [o.word for o in theirs.runners_up]
        gains = [ours.gain, ours.loss, *(other.gain for other in ours.runners_up)]
        expected = [theirs.gain, theirs.loss, *(other.gain for other in theirs.runners_up)]
        np.testing.assert_allclose(gains, expected, atol=5e-6, rtol=0)  # fp32


@pytest.mark.parametrize("objective", [(0.0,), (1.0,), (0.0, "paper", "text", "calibrated")])
@pytest.mark.parametrize(("noise", "most"), [(0.0, 64), (1e-5, 64), (1e-3, 256), (2e-2, 149)])
def test_exact_is_exhaustive(
    rough: Callable[..., RoughScorer], noise: float, most: int, objective: tuple[Any, ...]
) -> None:
    scorer = rough(*objective)
    scorer.noise = noise
    found = greedy_search(scorer, LARGE, 2)
    truth = greedy_search(scorer, LARGE, 2, "exhaustive")
    assert_same(found, truth)
    assert [step.checked for step in truth.steps] == [len(LARGE), len(LARGE) - 1]
    assert not any(step.margin for step in truth.steps)
    for step in found.steps:
        assert FINALISTS <= step.checked <= most + 2 * RANKED  # and the best of each half
        assert (step.margin == 0) == (step.checked >= len(LARGE) - 1)


@pytest.mark.parametrize("which", ["the best word", "every word"])
def test_half_precision_that_overflows_is_not_used(
    rough: Callable[..., RoughScorer], which: str
) -> None:
    scorer = rough()
    truth = greedy_search(scorer, LARGE, 2, "exhaustive")
    scorer.overflows = truth.words[:1] if which == "the best word" else LARGE.words
    found = greedy_search(scorer, LARGE, 2)
    assert_same(found, truth)
    assert (found.steps[0].checked, found.steps[0].margin) == (len(LARGE), 0)


def test_equal_gains_go_in_alphabetical_order(
    rough: Callable[..., RoughScorer], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = CrossEntropy.losses
    monkeypatch.setattr(
        CrossEntropy, "losses", lambda self, *args: torch.ceil(plain(self, *args) / 100) * 100
    )
    for search in MODES:
        assert greedy_search(rough(0.0), LARGE, 2, search).words == LARGE.words[:2]


# -- finished steps in the cache ------------------------------------------------------------------


def no_tower(patch: pytest.MonkeyPatch) -> None:
    """Makes every way through the text tower fail."""

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("the tower was run")

    patch.setattr(PrefixCache, "__init__", fail)
    patch.setattr(Backbone, "encode_prompts", fail)


def without_times(selection: Selection) -> tuple[SelectionStep, ...]:
    return tuple(replace(step, seconds=0.0) for step in selection.steps)


@pytest.mark.parametrize("mode", MODES)
def test_steps_in_the_cache_are_continued_and_not_repeated(
    pocket: Backbone, few_images: Images, cache: Cache, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def search(k: int, cache: Cache | None = cache) -> Selection:
        scorer = SentenceScorer(pocket, NAMES, *few_images, objective=Objective(0.3))
        return greedy_search(scorer, POOL, k, mode, cache)

    fresh = search(3, None)
    first = search(1)
    continued = search(3)
    assert continued.steps[:1] == first.steps
    assert without_times(continued) == without_times(fresh)
    no_tower(monkeypatch)
    for k in (0, 1, 2, 3):
        assert search(k) == continued.first(k)
    with pytest.raises(AssertionError, match="the tower was run"):
        search(4)


def other_weights(pocket: Backbone) -> Backbone:
    clip = copy.deepcopy(pocket.model)
    clip.text_model.final_layer_norm.bias[0] += 1e-3
    return ClipBackbone("pocket", clip, pocket.tokenizer, pocket.preprocessing)


Inputs = dict[str, Any]
CHANGES: dict[str, Callable[[Inputs], Inputs]] = {
    "a class name": lambda i: {"names": ["cat", "starry night", "pirate ships"]},
    "the order of classes": lambda i: {"names": NAMES[::-1]},
    "the order of labels": lambda i: {"labels": i["labels"].roll(1)},
    "the last bit of an image": lambda i: {"images": i["images"] * (1 + 2**-22)},
    "one image fewer": lambda i: {"images": i["images"][1:], "labels": i["labels"][1:]},
    "the template": lambda i: {"template": Template("a {cls}, showcasing: {words}")},
    "lambda": lambda i: {"objective": Objective(0.2)},
    "the preset": lambda i: {"objective": Objective(0.1, "reference")},
    "the embedding": lambda i: {"objective": Objective(0.1, "paper", "token")},
    "the pool": lambda i: {"pool": Pool.from_words(POOL.words[1:], "test")},
    "the utility": lambda i: {"objective": Objective(utility="calibrated")},
    "the mode": lambda i: {"search": "exhaustive"},
    "the weights": lambda i: {"backbone": other_weights(i["backbone"])},
}


def key_of(inputs: Inputs) -> str:
    parts = ("backbone", "names", "images", "labels", "template", "objective")
    scorer = SentenceScorer(*(inputs[part] for part in parts))
    return SavedSteps(None, scorer, inputs["pool"], inputs["search"]).key


def test_every_input_is_a_part_of_the_key(pocket: Backbone, few_images: Images) -> None:
    inputs = dict(zip(("images", "labels"), few_images, strict=True))
    inputs |= {"backbone": pocket, "names": NAMES, "pool": POOL}
    inputs |= {"template": Template(), "objective": Objective(), "search": "exact"}
    keys = {name: key_of({**inputs, **change(inputs)}) for name, change in CHANGES.items()}
    keys["nothing"] = key_of(inputs)
    assert len(set(keys.values())) == len(keys)
    same = {"images": inputs["images"].clone(), "pool": Pool.from_words(POOL.words, "elsewhere")}
    assert key_of({**inputs, **same}) == keys["nothing"]


@pytest.mark.parametrize("facts", [{}, {"selection": {}}, {"selection": None}])
def test_an_entry_of_another_version_is_computed_again(
    scorer: SentenceScorer, cache: Cache, facts: Inputs
) -> None:
    saved = SavedSteps(cache, scorer, POOL, "exact")
    cache.put("selections", saved.key, {}, facts)
    found = greedy_search(scorer, POOL, 1, cache=cache)
    assert saved.read() == found
