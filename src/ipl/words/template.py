"""The sentence that scores words: a class name, then the words chosen so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ipl.support.errors import ConfigError

DEFAULT_TEMPLATE = "a photo of a {cls}, with emphasis on: {words}"


@dataclass(frozen=True)
class Template:
    """A sentence with `{cls}` and, after it, `{words}`."""

    text: str = DEFAULT_TEMPLATE

    def __post_init__(self) -> None:
        rest = self.text.replace("{cls}", "").replace("{words}", "")
        once = self.text.count("{cls}") == 1 and self.text.count("{words}") == 1
        if not once or "{" in rest or "}" in rest:
            raise ConfigError(
                f"template is {self.text!r}; it needs {{cls}} and {{words}} once each and no "
                f"other braces, as in {DEFAULT_TEMPLATE!r}."
            )
        if self.text.index("{cls}") > self.text.index("{words}"):
            raise ConfigError(
                f"template is {self.text!r}; {{cls}} must come before {{words}}, because the "
                "search computes everything before the words once per class."
            )
        before, after = self._around_words()
        # An apostrophe would make one token with the first letters of some words.
        if any(c.isalnum() or c in "'\u2019" for c in before[-1:] + after[:1]):
            raise ConfigError(
                f"template is {self.text!r}; {{words}} must stand apart from the text around it."
            )

    def _around_words(self) -> tuple[str, str]:
        before, _, after = self.text.partition("{words}")
        return before, after

    @property
    def tail(self) -> str:
        """Returns the text after the last word."""
        return self._around_words()[1].strip()

    def before(self, class_name: str, words: Sequence[str]) -> str:
        """Returns the text up to the next word: each word so far has its comma and blank."""
        before, _ = self._around_words()
        return before.replace("{cls}", class_name) + "".join(f"{word}, " for word in words)

    def full(self, class_name: str, words: Sequence[str]) -> str:
        """Returns the whole sentence; with no words, it ends at the class name.

        A clause that announces words and has none would make the first word look better than it
        is, so the empty set is scored as the plain prompt.
        """
        text = self.text.replace("{words}", ", ".join(words))
        if not words:
            text = self.text[: self.text.index("{cls}") + len("{cls}")]
        return text.replace("{cls}", class_name).strip()
