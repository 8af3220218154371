"""A rebuilt learner has the same vectors and what was changed."""

from __future__ import annotations

import pytest
import torch

from ipl.backbone.backbone import Backbone
from ipl.support.errors import ConfigError
from tests.helpers.learners import NAMES, make_learner


def test_other_classes_keep_words_and_vectors(pocket: Backbone) -> None:
    options = {"placeholder": "zero", "class_template": "{} texture."}
    learner = make_learner(pocket, "coop", 2, placed=False, **options)
    learner.place_word("stone")  # a slot stays empty
    other = learner.rebuilt(class_names=(NAMES[2], NAMES[0]))
    assert other.words == learner.words
    assert (other.placeholder, other.class_template) == ("zero", "{} texture.")
    assert torch.equal(other.soft, learner.soft)
    assert other.soft.data_ptr() != learner.soft.data_ptr()  # a copy
    assert torch.allclose(other.text_features(), learner.text_features()[[2, 0]], atol=1e-6)
    assert learner.prompts.class_names == NAMES


def test_words_that_do_not_fit(pocket: Backbone) -> None:
    learner = make_learner(pocket, "coop", 2)
    with pytest.raises(ConfigError, match="All 2 word slots are taken"):
        learner.rebuilt(words=("stone", "water", "music"))
    assert learner.rebuilt(words=("music",)).words == ("music",)
