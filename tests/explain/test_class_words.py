"""The word of each class, against a plain loop and on constructed losses."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import pytest
import torch
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.display.document import Figures, Paragraph
from ipl.explain import class_words as module
from ipl.explain.class_words import (
    ClassWord,
    HeldOutGain,
    best_words,
    class_words,
    class_words_section,
)
from ipl.explain.word_effects import LossChange
from ipl.words.scorer import CandidateScorer, SentenceScorer
from ipl.words.selection import Certainty
from tests.helpers.reference_loss import NAMES, POOL, Images, prompts_with


class _Losses:
    """Stands for a CrossEntropy: the features are the losses of the images themselves."""

    def __init__(self, labels: Sequence[int], classes: int) -> None:
        self.labels, self.classes = torch.tensor(labels), classes
        self.images = torch.zeros(len(labels), 1, dtype=torch.float64)

    def image_losses(self, features: Tensor) -> Tensor:
        return features[:, 0]


class _Scorer(CandidateScorer):
    """Yields given losses (words, images) as features, in chunks of three words."""

    def __init__(self, losses: Tensor, labels: Sequence[int], classes: int) -> None:
        self.losses = losses
        self.cross_entropy = _Losses(labels, classes)  # type: ignore[assignment]

    def features(
        self, selected: Sequence[str], candidates: Sequence[str], dtype: torch.dtype = torch.float32
    ) -> Iterator[Tensor]:
        yield from self.losses[:, None].split(3)

    def features_without(self, selected: Sequence[str]) -> Tensor:
        raise NotImplementedError


@pytest.mark.parametrize("at_once", [1, 7, 1 << 20])
def test_the_best_words_of_each_class_come_from_one_pass(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    monkeypatch.setattr(module, "BEST", 4)
    labels = torch.arange(7) % 2
    losses = torch.rand(11, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    losses[9] = losses[2]  # of equal words the first comes first
    steps: list[int] = []
    best = best_words(_Scorer(losses, labels.tolist(), 2), [*"abcdefghijk"], steps.append)
    assert sum(steps) == 11
    for label in (0, 1):
        own = labels == label
        means = losses[:, own].mean(1).tolist()
        order = sorted(range(11), key=lambda index: means[index])[:4]
        assert best.words[:, label].tolist() == order
        assert torch.equal(best.losses[:, own], losses[order][:, own])


def test_a_word_of_a_class_is_that_of_a_plain_loop(pocket: Backbone, few_images: Images) -> None:
    features, labels = few_images
    scorer = SentenceScorer(pocket, NAMES, features, labels)
    results = class_words(scorer, POOL.words, held_out=scorer)
    assert {result.name for result in results} == set(NAMES)
    assert [r.gain for r in results] == sorted((r.gain for r in results), reverse=True)

    def class_loss(prompts: list[str], own: Tensor) -> float:
        texts = pocket.encode_texts(prompts).double()
        logits = pocket.logits(features.double(), texts)[own]
        return float(torch.nn.functional.cross_entropy(logits, labels[own]))

    for result in results:
        own = labels == NAMES.index(result.name)
        without = class_loss([f"a photo of a {name}" for name in NAMES], own)
        gains = {w: without - class_loss(prompts_with([w]), own) for w in POOL.words}
        assert result.images == int(own.sum())
        assert result.word == max(gains, key=lambda word: gains[word])
        assert result.gain == pytest.approx(gains[result.word], abs=1e-4)
        assert result.certainty.low <= result.gain <= result.certainty.high
        assert (result.held_out is not None) == result.clear
        if result.held_out is not None:  # here the same images
            assert result.held_out.gain.mean == pytest.approx(result.gain, abs=1e-6)
            assert result.held_out.images == result.images


def test_one_image_of_a_class_is_never_enough(pocket: Backbone, few_images: Images) -> None:
    features, labels = few_images
    scorer = SentenceScorer(pocket, NAMES, features[:3], labels[:3])
    results = class_words(scorer, POOL.words, held_out=scorer)
    assert any(result.gain > 0 for result in results)
    assert not any(result.clear for result in results)
    assert all(result.held_out is None for result in results)
    (_, sentence) = class_words_section(results, "a {cls}: {words}", 9).blocks
    assert isinstance(sentence, Paragraph)
    assert sentence.text.startswith("No word stands out for ")
    assert "One image of a class is too few" in sentence.text


def test_a_class_without_images_is_left_out(pocket: Backbone, few_images: Images) -> None:
    features, labels = few_images
    some = labels != 1
    scorer = SentenceScorer(pocket, NAMES, features[some], labels[some])
    results = class_words(scorer, POOL.words)
    assert {result.name for result in results} == {NAMES[0], NAMES[2]}


def test_the_section_shows_only_clear_words_and_their_check() -> None:
    sand = ClassWord(
        *("beach", 8, "sand", 0.5, Certainty(0.9, 0.2, 0.8)),
        held_out=HeldOutGain(5, LossChange(0.3, 0.1, 0.5), -0.2),
    )
    fake = dataclasses.replace(
        sand, name="lake", word="wet", held_out=HeldOutGain(1, LossChange(-0.1, -0.1, -0.1), 0.1)
    )
    noise = ClassWord("desert", 8, "camel", 0.4, Certainty(0.2, -0.1, 0.9), None)
    section = class_words_section((sand, fake, noise), "a {cls}: {words}", 8900)
    about, check, others, figures, without = section.blocks
    assert isinstance(about, Paragraph)
    assert "a necessary sign, not a sufficient one" in about.text
    assert isinstance(check, Paragraph)
    assert "1 of 2 words also lower the loss of the class's held-out images, 1 of" in check.text
    assert isinstance(others, Paragraph)
    assert "1 of 2 words lower the loss over the held-out images of all classes" in others.text
    assert others.kind == "warning"
    assert isinstance(figures, Figures)
    assert figures.table is not None
    assert [row[:2] for row in figures.table.rows] == [("beach", "sand"), ("lake", "wet")]
    assert figures.table.rows[0][-3:] == ("+0.300", "+0.100 to +0.500", "\N{MINUS SIGN}0.200")
    assert figures.table.rows[1][-2] == ""  # one image has no interval
    assert isinstance(without, Paragraph)
    assert without.text == "No word stands out for desert."
