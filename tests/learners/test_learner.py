"""A rebuilt learner has the same vectors and what was changed."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

from ipl.backbone.backbone import Backbone
from ipl.learners.coop import CoOp
from ipl.learners.learner import Learner
from ipl.prompts.layout import PromptLayout, WordSlot
from ipl.support.errors import ConfigError

CLASSES = ("castle", "starry night", "lake")


def without_word(learner: Learner, index: int) -> Learner:
    """Returns the learner with one word and its slot taken out."""
    words = [*learner.words[:index], *learner.words[index + 1 :]]
    segments = list(learner.layout.segments)
    del segments[[i for i, s in enumerate(segments) if isinstance(s, WordSlot)][index]]
    return learner.rebuilt(layout=PromptLayout(tuple(segments)), words=words)


def _learner(pocket: Backbone, words: tuple[str, ...]) -> Learner:
    learner = CoOp(pocket, CoOp.layout_for(len(words), 2), CLASSES, seed=3)
    for word in words:
        learner.place_word(word)
    return learner


@pytest.mark.parametrize("index", [0, 1])
def test_rows_without_the_words_row(pocket: Backbone, index: int) -> None:
    learner = _learner(pocket, ("stone", "water"))
    row = int(learner.prompts.slot_rows[0, index])
    rows = learner.prompts.assemble(learner.soft.detach())
    kept = [i for i in range(rows.shape[1]) if i != row]
    by_hand = pocket.encode_text(rows[:, kept], learner.prompts.eos - 1)
    with torch.no_grad():
        found = without_word(learner, index).text_features()
    assert torch.allclose(found, normalize(by_hand, dim=-1), atol=1e-6)
    assert not torch.allclose(found, learner.text_features(), atol=1e-3)


def test_equals_a_learner_that_never_had_it(pocket: Backbone) -> None:
    learner = _learner(pocket, ("stone", "water"))
    layout, _ = PromptLayout.parse("[V V] [V V] *water* [V V] {cls}.")
    other = type(learner)(pocket, layout, CLASSES)
    other.load_state_dict(learner.state_dict())
    other.place_word("water")
    found = without_word(learner, 0)
    assert found.words == ("water",)
    assert torch.equal(found.text_features(), other.text_features())


def test_other_classes_keep_words_and_vectors(pocket: Backbone) -> None:
    options = {"placeholder": "zero", "class_template": "{} texture."}
    learner = CoOp(pocket, CoOp.layout_for(2, 2), CLASSES, **options)
    learner.place_word("stone")  # a slot stays empty
    other = learner.rebuilt(class_names=("lake", "castle"))
    assert other.words == learner.words
    assert (other.placeholder, other.class_template) == ("zero", "{} texture.")
    assert tuple(other.prompts.class_names) == ("lake", "castle")
    assert torch.equal(other.soft, learner.soft)
    assert other.soft.data_ptr() != learner.soft.data_ptr()  # a copy
    assert torch.allclose(other.text_features(), learner.text_features()[[2, 0]], atol=1e-6)
    assert tuple(learner.prompts.class_names) == CLASSES


def test_words_that_do_not_fit(pocket: Backbone) -> None:
    learner = _learner(pocket, ("stone", "water"))
    with pytest.raises(ConfigError, match="All 2 word slots are taken"):
        learner.rebuilt(words=("stone", "water", "music"))
    assert learner.rebuilt(words=("music",)).words == ("music",)
