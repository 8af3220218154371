"""What each word does, against other ways to compute it and on constructed changes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ipl.explain.random_words import RandomDraws, Replacement
from ipl.explain.report import Analysis
from ipl.explain.word_effects import (
    LossChange,
    WordEffect,
    WordEffects,
    dependence_sentences,
    mean_with_interval,
    word_effects,
)
from ipl.metrics import Score, score, true_log_probabilities

HELPS, HURTS, NOISE = (
    LossChange(0.3, 0.1, 0.5),
    LossChange(-0.2, -0.3, -0.1),
    LossChange(0.05, -0.1, 0.2),
)


def test_an_effect_is_the_mean_over_prompts_with_another_word(analysis: Analysis) -> None:
    assert analysis.run_images is not None
    assert analysis.effects is not None
    assert analysis.test is not None
    labels, learner = analysis.run_images.test.labels, analysis.run.learner
    effects = analysis.effects.words
    assert analysis.effects.prompt == analysis.test
    assert {effect.word for effect in effects} == set(analysis.run.words)
    assert [e.change.mean for e in effects] == sorted(e.change.mean for e in effects)[::-1]
    for effect in effects:
        index = learner.words.index(effect.word)
        predictions = []
        for replacement, all_words in zip(
            effect.replacements, analysis.effects.replacements, strict=True
        ):
            (word,) = replacement.words
            assert word == all_words.words[index]  # one draw serves both comparisons
            assert word not in learner.words
            words = [*learner.words[:index], word, *learner.words[index + 1 :]]
            changed = learner.rebuilt(words=words).log_probabilities(analysis.run_images.features)
            assert replacement.score == score(changed, labels)
            predictions.append(changed)
        losses = [replacement.score.loss for replacement in effect.replacements]
        assert effect.change.mean == pytest.approx(np.mean(losses) - analysis.test.loss)
        assert effect.change.low <= effect.change.mean <= effect.change.high
        mean = torch.stack(predictions).mean(0)  # of log-probabilities
        for one in (*effect.classes_helped, *effect.classes_hurt):
            rows = labels == analysis.run.classes.index(one.name)
            expected = -float(true_log_probabilities(mean[rows], labels[rows]).mean())
            assert one.loss_replaced == pytest.approx(expected)
            accuracy = [score(p[rows], labels[rows]).accuracy for p in predictions]
            assert one.accuracy_replaced == pytest.approx(np.mean(accuracy))
        for image in (*effect.images_helped, *effect.images_hurt):
            row = analysis.run_images.test.items.index(image.item)
            expected = float(mean[row, labels[row]].exp())
            assert image.probability_replaced == pytest.approx(expected)
        gains = [i.probability / i.probability_replaced for i in effect.images_helped]
        assert gains == sorted(gains, reverse=True)
        assert all(gain > 1 for gain in gains)
        assert all(i.probability < i.probability_replaced for i in effect.images_hurt)


def test_all_words_at_once_are_the_random_draws(analysis: Analysis) -> None:
    assert analysis.effects is not None
    assert analysis.random_words is not None
    assert len(analysis.effects.replacements) == 20
    for replacement, draw in zip(
        analysis.effects.replacements, analysis.random_words.draws, strict=True
    ):
        assert (replacement.words, replacement.score) == (draw.words, draw.prompt)


def test_a_pool_that_is_too_small_gives_no_effects(analysis: Analysis) -> None:
    assert analysis.run_images is not None
    none = RandomDraws("a measure", ())
    assert word_effects(analysis.run, analysis.run_images, torch.zeros(1, 1), none) is None


def test_the_interval_is_that_of_a_normal_mean() -> None:
    generator = torch.Generator().manual_seed(0)
    by_image = torch.randn(400, generator=generator, dtype=torch.float64)
    change = mean_with_interval(by_image[None])
    half = 1.645 * float(by_image.std()) / 20
    assert change.mean == pytest.approx(float(by_image.mean()))
    assert change.low == pytest.approx(change.mean - half, abs=0.015)
    assert change.high == pytest.approx(change.mean + half, abs=0.015)
    by_draw = torch.randn(400, generator=generator, dtype=torch.float64)
    other = mean_with_interval(by_draw[:, None].expand(-1, 3))  # replacements vary, images do not
    assert other.high - other.low == pytest.approx(3.29 * float(by_draw.std()) / 20, abs=0.03)


def test_an_interval_without_width_is_no_evidence() -> None:
    assert not mean_with_interval(torch.tensor([[0.7]])).beyond_noise
    assert not mean_with_interval(torch.zeros(20, 50)).beyond_noise
    assert HELPS.beyond_noise
    assert HURTS.beyond_noise
    assert not NOISE.beyond_noise


def _effects(all_words: LossChange, **changes: LossChange) -> WordEffects:
    prompt, others = Score(0.8, 0.5), (Replacement(("rope",), Score(0.7, 0.6)),)
    words = tuple(WordEffect(w, c, others, (), (), (), ()) for w, c in changes.items())
    return WordEffects("a measure", prompt, words, all_words, others)


def test_words_that_help_and_harm_are_named() -> None:
    helps, hurts, noise = dependence_sentences(
        _effects(HELPS, furry=HELPS, adopt=NOISE, north=HURTS)
    )
    assert "in place of “furry” (+0.3000, 90 % interval +0.1000 to +0.5000) raise" in helps
    assert "trained around its words" in helps
    assert "“north” (" in hurts
    assert hurts.endswith("this word does harm.")
    assert noise == "In place of “adopt” they change it by no more than noise."
