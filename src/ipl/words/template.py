"""Template: the sentence that scores words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ipl.support.errors import ConfigError

DEFAULT_TEMPLATE = "a photo of a {cls}, with emphasis on: {words}"


@dataclass(frozen=True)
class Template:
    """The sentence that scores words: it names the class, then the words chosen so far."""

    text: str = DEFAULT_TEMPLATE  # with {cls} once and, after it, {words} once

    def __post_init__(self) -> None:
        # The search computes everything before the words once per class.
        if re.findall(r"\{\w*\}|[{}]", self.text) != ["{cls}", "{words}"]:
            raise ConfigError(
                f"template is {self.text!r}; it must contain {{cls}} and, after it, {{words}}, "
                f"once each, and no other braces, as in {DEFAULT_TEMPLATE!r}."
            )
        before, _, after = self.text.partition("{words}")
        # An apostrophe and the first letters of some words would become one token.
        if any(c.isalnum() or c in "'\u2019" for c in before[-1:] + after[:1]):
            raise ConfigError(
                f"template is {self.text!r}; {{words}} must be separated from letters, digits "
                "and apostrophes."
            )

    @property
    def tail(self) -> str:
        """The text after the last word."""
        return self.text.partition("{words}")[2].strip()

    def before(self, class_name: str) -> str:
        """The text before the first word."""
        return self.text.partition("{words}")[0].replace("{cls}", class_name)

    def full(self, class_name: str, words: Sequence[str]) -> str:
        """The whole sentence; without words it ends with the class name.

        A clause that announces words but has none would make the first word look better than it
        is, so a prompt without words is scored without the clause.
        """
        text = self.text.replace("{words}", ", ".join(words))
        if not words:
            text = self.text[: self.text.index("{cls}") + len("{cls}")]
        return text.replace("{cls}", class_name).strip()
