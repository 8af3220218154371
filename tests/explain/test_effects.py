"""What each word does, against another way to compute it."""

from __future__ import annotations

import numpy as np
import pytest

from ipl.explain.effects import word_effects
from ipl.explain.inputs import LoadedRun, RunImages
from ipl.metrics import score


def test_an_effect_is_the_mean_over_prompts_with_another_word(
    loaded: LoadedRun, run_images: RunImages
) -> None:
    labels, learner = run_images.test.labels, loaded.learner

    def losses_with(words: list[tuple[str, ...]]) -> list[float]:
        prompts = [learner.rebuilt(words=each) for each in words]
        return [score(p.log_probabilities(run_images.features), labels).loss for p in prompts]

    effects = word_effects(loaded, run_images)
    assert effects is not None
    assert [effects.loss] == losses_with([loaded.words])
    assert {effect.word for effect in effects.words} == set(loaded.words)
    changes = [effect.change.mean for effect in effects.words]
    assert changes == sorted(changes, reverse=True)
    for effect in effects.words:
        index, words = loaded.words.index(effect.word), loaded.words
        assert not {draw[index] for draw in effects.draws} & set(words)
        replaced = [(*words[:index], d[index], *words[index + 1 :]) for d in effects.draws]
        assert effect.losses == pytest.approx(losses_with(replaced))
        assert effect.change.mean == pytest.approx(np.mean(effect.losses) - effects.loss)
        assert effect.change.low <= effect.change.mean <= effect.change.high
    assert effects.together.losses == pytest.approx(losses_with(list(effects.draws)))
