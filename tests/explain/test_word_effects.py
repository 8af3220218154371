"""What each word does, against other ways to compute it."""

from __future__ import annotations

import pytest
import torch

from ipl.explain.report import Analysis
from ipl.metrics import score
from ipl.words.pool import Pool


def test_an_effect_is_the_score_without_the_word(analysis: Analysis) -> None:
    assert analysis.run_images is not None
    assert analysis.effects is not None
    labels = analysis.run_images.test.labels
    learner = analysis.run.learner
    for index, effect in enumerate(analysis.effects):
        words = [word for word in learner.words if word != effect.word]
        reduced = learner.rebuilt(layout=learner.layout.without_slot(index), words=words)
        predictions = reduced.log_probabilities(analysis.run_images.features)
        assert effect.without == score(predictions, labels)
        for one in (*effect.classes_helped, *effect.classes_hurt):
            rows = labels == analysis.run.result.classes.index(one.name)
            assert one.loss_without == score(predictions[rows], labels[rows]).loss
        assert all(i.probability > i.probability_without for i in effect.images_helped)
        assert all(i.probability < i.probability_without for i in effect.images_hurt)
        gains = [i.probability / i.probability_without for i in effect.images_helped]
        assert gains == sorted(gains, reverse=True)


def test_the_median_word_has_the_median_gain(analysis: Analysis, pool: Pool) -> None:
    assert analysis.effects is not None
    assert analysis.run_images is not None
    run, selection = analysis.run, analysis.run.selection
    assert selection is not None
    images, labels = analysis.run_images.shots.features.double(), analysis.run_images.shots.labels
    backbone = run.learner.backbone

    def loss(words: list[str]) -> float:
        template = (
            "a photo of a {cls}, with emphasis on: {words}" if words else "a photo of a {cls}"
        )
        texts = [
            template.replace("{cls}", name).replace("{words}", ", ".join(words))
            for name in run.result.classes
        ]
        logits = backbone.logits(images, backbone.encode_texts(texts).double())
        return float(torch.nn.functional.cross_entropy(logits, labels))

    def embedded(word: str) -> torch.Tensor:
        return torch.nn.functional.normalize(backbone.encode_texts([word])[0], dim=0)

    first, second = run.words
    gains = {
        word: loss([first]) - loss([first, word]) - 0.1 * float(embedded(first) @ embedded(word))
        for word in pool.words
        if word != first
    }
    assert gains.pop(second) == pytest.approx(selection.steps[1].gain, abs=1e-4)
    sample = analysis.effects[1].sample
    assert sample is not None
    order = sorted(gains, key=lambda word: gains[word])
    assert sample.median_word == order[len(order) // 2]
    assert sample.better == 0
    assert sample.sampled == sample.pool == len(pool) - 2
    replaced = run.learner.rebuilt(words=(first, sample.median_word))
    predictions = replaced.log_probabilities(analysis.run_images.features)
    assert analysis.effects[1].with_median == score(predictions, analysis.run_images.test.labels)
