"""A rebuilt learner has the same vectors and what was changed."""

from __future__ import annotations

import pytest
import torch

from ipl.backbone.backbone import Backbone
from ipl.prompts.layout import PromptLayout
from ipl.support.errors import ConfigError
from tests.helpers.learners import NAMES, make_learner


def test_without_a_word_it_equals_a_learner_that_never_had_it(pocket: Backbone) -> None:
    learner = make_learner(pocket, "coop", 2)
    layout, _ = PromptLayout.parse("[V V] [V V] *blue* [V V] {cls}.")
    other = type(learner)(pocket, layout, NAMES)
    other.load_state_dict(learner.state_dict())
    other.place_word("blue")
    found = learner.rebuilt(layout=layout, words=["blue"])
    assert found.words == ("blue",)
    assert torch.equal(found.text_features(), other.text_features())


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
