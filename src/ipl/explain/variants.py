"""A learner with the same vectors and other words: one taken out, or others in their places."""

from __future__ import annotations

from collections.abc import Sequence

from ipl.learners.learner import Learner
from ipl.prompts.layout import PromptLayout, WordSlot


def without_word(learner: Learner, place: int) -> Learner:
    """Returns the learner with the word at `place` taken out of the sentence.

    Its slot goes with it, so nothing stands between the soft groups beside it.
    """
    slots = [i for i, s in enumerate(learner.layout.segments) if isinstance(s, WordSlot)]
    segments = list(learner.layout.segments)
    del segments[slots[place]]
    words = [*learner.words[:place], *learner.words[place + 1 :]]
    return _same_vectors(learner, PromptLayout(tuple(segments)), words)


def with_words(learner: Learner, words: Sequence[str]) -> Learner:
    """Returns the learner with these words in place of its own."""
    return _same_vectors(learner, learner.layout, words)


def _same_vectors(learner: Learner, layout: PromptLayout, words: Sequence[str]) -> Learner:
    other = type(learner)(
        learner.backbone,
        layout,
        learner.prompts.class_names,
        placeholder=learner.placeholder,
        depth=learner.depth,
        class_template=learner.class_template,
    )
    other.load_state_dict(learner.state_dict())
    for word in words:
        other.place_word(word)
    return other
