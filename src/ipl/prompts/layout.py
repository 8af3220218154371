"""PromptLayout: the segments of a prompt, for every learner and any number of words.

Written out, a layout is a line of text: `[V V]` is a group of two soft vectors, `*word*` a word in
its slot (`*_*` while it is empty), `{cls}` the class name, anything else fixed text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ipl.display.document import Piece
from ipl.support.errors import ConfigError


@dataclass(frozen=True)
class Soft:
    """A group of trained vectors, initialised from the embeddings of `init` or from N(0, std)."""

    size: int
    std: float = 0.02
    init: str | None = None

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ConfigError(f"m is {self.size}; a soft group has at least 1 vector.")

    @property
    def text(self) -> str:
        return "[" + " ".join("V" * self.size) + "]"


@dataclass(frozen=True)
class WordSlot:
    """A slot for a word of `size` tokens; words that a search chooses are single tokens."""

    size: int = 1


@dataclass(frozen=True)
class ClassName:
    """The name of the class, of any number of tokens."""


@dataclass(frozen=True)
class FixedText:
    """Fixed words or punctuation."""

    text: str


Segment = Soft | WordSlot | ClassName | FixedText
EMPTY = "_"
PUNCTUATION = ".,;:!?"
_PIECE = re.compile(r"\[V(?: V)*\]|\*[^*\s]+\*|\{cls\}|[^\[\]*{}]+")


@dataclass(frozen=True)
class PromptLayout:
    """The segments of a prompt, between the tokens that open and end every text.

    Parameters
    ----------
    segments : tuple of Segment
        One `ClassName` and any number of `Soft`, `WordSlot` and `FixedText`.

    Raises
    ------
    ConfigError
        If the class name is missing or repeated.

    Examples
    --------
    >>> PromptLayout.interleaved(words=1, m=2).readable(["furry"])
    '[V V] *furry* [V V] {cls}.'
    """

    segments: tuple[Segment, ...]

    def __post_init__(self) -> None:
        if (count := self.segments.count(ClassName())) != 1:
            raise ConfigError(f"A prompt layout names the class once; this one does {count} times.")

    @classmethod
    def interleaved(cls, words: int, m: int) -> PromptLayout:
        """The layout of IPL, `[V x m] w1 [V x m] w2 ... [V x m] CLS .`."""
        before = [segment for _ in range(words) for segment in (Soft(m, std=0.01), WordSlot())]
        return cls((*before, Soft(m, std=0.02), ClassName(), FixedText(".")))

    @cached_property
    def groups(self) -> tuple[Soft, ...]:
        """The soft groups in order."""
        return tuple(segment for segment in self.segments if isinstance(segment, Soft))

    @cached_property
    def soft_count(self) -> int:
        """The number of soft vectors."""
        return sum(group.size for group in self.groups)

    @cached_property
    def slot_sizes(self) -> tuple[int, ...]:
        """The number of tokens of each word slot."""
        return tuple(segment.size for segment in self.segments if isinstance(segment, WordSlot))

    @property
    def slots(self) -> int:
        """The number of word slots."""
        return len(self.slot_sizes)

    @cached_property
    def after_name(self) -> FixedText | None:
        """The text that touches the class name, such as a full stop."""
        after = self.segments.index(ClassName()) + 1
        following = self.segments[after] if after < len(self.segments) else None
        if isinstance(following, FixedText) and following.text[0] in PUNCTUATION:
            return following
        return None

    def group_slice(self, number: int) -> slice:
        """The slice of a soft group among all soft vectors; -1 is the last group."""
        number = range(len(self.groups))[number]
        start = sum(group.size for group in self.groups[:number])
        return slice(start, start + self.groups[number].size)

    def slot_slice(self, number: int) -> slice:
        """The slice of a word slot among the tokens of all slots; 0 is the first."""
        start = sum(self.slot_sizes[:number])
        return slice(start, start + self.slot_sizes[number])

    def with_slot_sizes(self, sizes: Sequence[int]) -> PromptLayout:
        """The layout with this number of tokens in its first word slots."""
        remaining = iter([*sizes, *self.slot_sizes[len(sizes) :]])
        segments = (
            WordSlot(next(remaining)) if isinstance(s, WordSlot) else s for s in self.segments
        )
        return PromptLayout(tuple(segments))

    # -- a line of text and back ----------------------------------------------------------------

    def readable(self, words: Sequence[str] = ()) -> str:
        """The layout as a line of text, such as `[V V] *furry* [V V] {cls}.`.

        Raises ConfigError if there are more words than slots.
        """
        if len(words) > self.slots:
            raise ConfigError(f"{len(words)} words do not fit into {self.slots} slots.")
        slot_words = iter([*words, *[EMPTY] * (self.slots - len(words))])
        line = ""
        for segment in self.segments:
            if isinstance(segment, WordSlot):
                piece = f"*{next(slot_words)}*"
            elif isinstance(segment, ClassName):
                piece = "{cls}"
            else:
                piece = segment.text
            line += piece if not line or piece[0] in PUNCTUATION else " " + piece
        return line

    @classmethod
    def parse(cls, line: str) -> tuple[PromptLayout, tuple[str, ...]]:
        """The layout and the words of a line that `readable` wrote.

        Raises ConfigError if the line is not a prompt.
        """
        segments: list[Segment] = []
        words: list[str] = []
        end = 0
        for match in _PIECE.finditer(line):
            if match.start() != end:
                break
            end, piece = match.end(), match.group().strip()
            if piece.startswith("["):
                segments.append(Soft(piece.count("V")))
            elif piece.startswith("*"):
                segments.append(WordSlot())
                words.append(piece.strip("*"))
            elif piece == "{cls}":
                segments.append(ClassName())
            elif piece:
                segments.append(FixedText(piece))
        if end != len(line):
            raise ConfigError(f"The prompt {line!r} cannot be read at {line[end : end + 12]!r}.")
        return cls(tuple(segments)), tuple(word for word in words if word != EMPTY)


def prompt_pieces(line: str) -> tuple[Piece, ...]:
    """The pieces of a prompt's line of text, for a document."""
    layout, words = PromptLayout.parse(line)
    remaining, pieces = iter(words), list[Piece]()
    for segment in layout.segments:
        if isinstance(segment, Soft):
            pieces.append(Piece("soft", segment.text))
        elif isinstance(segment, WordSlot):
            pieces.append(Piece("word", next(remaining, EMPTY)))
        elif isinstance(segment, ClassName):
            pieces.append(Piece("class", "class name"))
        else:
            pieces.append(Piece("text", segment.text))
    return tuple(pieces)
