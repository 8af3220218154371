"""The plain text reads back as the prompt."""

from __future__ import annotations

from collections.abc import Callable

from ipl import PromptClassifier
from ipl.inference.exports.text import plain_text
from ipl.prompts.layout import PromptLayout

Fitted = Callable[..., PromptClassifier]


def test_plain_text_reads_back_as_the_prompt(fitted: Fitted) -> None:
    classifier = fitted("coop", 2)
    text = plain_text(classifier)
    layout, words = PromptLayout.parse(text.splitlines()[0])
    assert list(words) == classifier.words_
    assert layout.readable(words) == classifier.prompt_
    assert classifier.selection_ is not None
    for step in classifier.selection_.steps:
        assert f"{step.gain:+.4f}" in next(
            line for line in text.splitlines() if line.startswith(f"{step.word} ")
        )
    # The sentence it proposes is that of the search, with the words.
    sentence = next(line for line in text.splitlines() if "{cls}, with" in line)
    assert sentence.endswith(", ".join(classifier.words_))
    assert "no words" in plain_text(fitted("maple", 0))
