"""The one rule on whether words matter, and random words in their places."""

from __future__ import annotations

import pytest
import torch

from ipl.backbone.backbone import Backbone
from ipl.learners.coop import CoOp
from ipl.metrics import PairedDifference, image_losses
from ipl.prompts.layout import PromptLayout
from ipl.training.words_matter import (
    LossChange,
    draw_random_words,
    mean_change,
    replace_words,
    words_statement,
)
from ipl.words.pool import Pool

HELPS, HURTS, NOISE = (
    LossChange(0.3, 0.1, 0.5),
    LossChange(-0.2, -0.3, -0.1),
    LossChange(0.05, -0.1, 0.2),
)
BETTER, WORSE, EQUAL = (
    PairedDifference(0.05, 0.02, 0.08),
    PairedDifference(-0.05, -0.08, -0.02),
    PairedDifference(0.01, -0.02, 0.04),
)


@pytest.mark.parametrize(
    ("replaced", "without", "said"),
    [
        (None, None, "was not tested"),
        (HELPS, BETTER, "The words matter."),
        (NOISE, BETTER, "which words they are does not"),
        (HELPS, WORSE, "The words harm."),
        (HURTS, EQUAL, "The words harm: random"),
        (HELPS, EQUAL, "it would be as good"),
        (NOISE, EQUAL, "do not matter"),
        (NOISE, None, "do not matter"),
        (HELPS, None, "--compare"),
    ],
)
def test_one_statement_from_one_rule(
    replaced: LossChange | None, without: PairedDifference | None, said: str
) -> None:
    statement = words_statement(replaced, without)
    assert said in statement
    assert (replaced is not None and str(replaced) in statement) == (replaced is not None)


def test_the_interval_is_that_of_a_normal_mean() -> None:
    generator = torch.Generator().manual_seed(0)
    by_image = torch.randn(400, generator=generator, dtype=torch.float64)
    change = mean_change(by_image[None])
    half = 1.645 * float(by_image.std()) / 20
    assert change.mean == pytest.approx(float(by_image.mean()))
    assert change.low == pytest.approx(change.mean - half, abs=0.015)
    assert change.high == pytest.approx(change.mean + half, abs=0.015)
    by_draw = torch.randn(400, generator=generator, dtype=torch.float64)
    other = mean_change(by_draw[:, None].expand(-1, 3))  # replacements vary, images do not
    assert other.high - other.low == pytest.approx(3.29 * float(by_draw.std()) / 20, abs=0.03)


def test_an_interval_without_width_is_no_evidence() -> None:
    assert not mean_change(torch.tensor([[0.7]])).beyond_noise
    assert not mean_change(torch.zeros(20, 50)).beyond_noise
    assert [change.beyond_noise for change in (HELPS, HURTS, NOISE)] == [True, True, False]


def test_words_of_several_tokens_and_outside_the_pool_are_replaced(
    pocket: Backbone, pool: Pool
) -> None:
    layout = PromptLayout.interleaved(2, 2).with_slot_sizes([1, 2])
    learner = CoOp(pocket, layout, ("beach", "desert", "forest", "mountain"))
    for word in ("Zebra", "pirate ship"):
        learner.place_word(word)
    draws = draw_random_words(learner, pool)
    assert len(draws) == 20
    for draw in draws:
        first, second = draw[0], draw[1].split()
        assert len({first, *second}) == 3
        assert {first, *second} <= set(pool.words)
    features = torch.nn.functional.normalize(
        torch.randn(6, pocket.no_features().shape[1], generator=torch.manual_seed(0)), dim=1
    )
    labels = torch.tensor([0, 1, 2, 3, 0, 1])
    own = image_losses(learner.log_probabilities(features), labels)
    losses = [
        image_losses(learner.rebuilt(words=draw).log_probabilities(features), labels).mean()
        for draw in draws
    ]
    change = replace_words(learner, features, labels, pool)
    assert change is not None
    assert change.mean == pytest.approx(float(torch.stack(losses).mean() - own.mean()))
    assert replace_words(learner, features, labels, Pool.from_words(("sand",), "a list")) is None
