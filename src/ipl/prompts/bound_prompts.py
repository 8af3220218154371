"""BoundPrompts: a layout for the classes of a task, as embeddings with the place of every row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import torch
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.ops import Endings
from ipl.datasets.dataset import check_class_names, clean_class_name
from ipl.display.formatting import several
from ipl.prompts.layout import ClassName, PromptLayout, Soft, WordSlot
from ipl.support.errors import ConfigError, DataError, brief

EMPTY_SLOT = "0"  # the token of an empty slot in the authors' code; in the paper, a zero vector
PLACEHOLDERS = ("token", "zero")


@dataclass(frozen=True)
class BoundPrompts:
    """The prompts of a list of classes, one each, as embeddings.

    `rows` (rows, width) are in fp32: a beginning that is the same for every class, and then the
    rows of each class from its name to EOS. Soft rows are zero. A soft vector or a token of a slot
    that stands after the class name has a row in every class.
    """

    class_names: tuple[str, ...]
    endings: Endings
    rows: Tensor
    soft_rows: Tensor  # the rows that soft vectors take,
    soft_index: Tensor  # and which vector each of them is
    slot_rows: Tensor  # the rows that word slots take,
    slot_index: Tensor  # and which of the tokens of all slots each of them is

    def place_word(self, slot: slice, embeddings: Tensor) -> None:
        """Puts a word's embeddings (tokens, width) into its slot, for every class."""
        here = (self.slot_index >= slot.start) & (self.slot_index < slot.stop)
        self.rows[self.slot_rows[here]] = embeddings[self.slot_index[here] - slot.start]

    def with_soft_vectors(self, soft: Tensor) -> Tensor:
        """Rows (groups, rows, width) with soft vectors (groups, soft, width)."""
        rows = self.rows.expand(len(soft), -1, -1)
        return rows.index_copy(1, self.soft_rows, soft.index_select(1, self.soft_index))


def bind(
    layout: PromptLayout,
    backbone: Backbone,
    class_names: Sequence[str],
    placeholder: str = "token",
) -> BoundPrompts:
    """The prompts of a layout for a list of classes.

    An empty word slot holds the token "0" or, with the placeholder "zero", a zero vector. Raises
    ConfigError if the placeholder is neither or the layout is too long for the backbone, DataError
    if a class name is.
    """
    if placeholder not in PLACEHOLDERS:
        allowed = " or ".join(PLACEHOLDERS)
        raise ConfigError(f"placeholder is {brief(placeholder)}; it must be {allowed}.")
    check_class_names(class_names, alike=True)  # readers have checked whether two may be alike
    names = tuple(clean_class_name(name) for name in class_names)
    prompts = [_prompt(layout, backbone, name) for name in names]
    _check_length(layout, backbone, names, prompts)
    shared = prompts[0].name.start  # rows before the class name are the same in all prompts
    own = [prompt.rows[shared:] for prompt in prompts]
    rows = [*prompts[0].rows[:shared], *(row for ending in own for row in ending)]
    endings = Endings(shared, [len(ending) for ending in own], backbone.device)
    soft_rows, soft_index = _places([row.soft for row in rows], backbone.device)
    slot_rows, slot_index = _places([row.slot for row in rows], backbone.device)
    embeddings = backbone.embed([row.token for row in rows]).index_fill(0, soft_rows, 0.0)
    bound = BoundPrompts(names, endings, embeddings, soft_rows, soft_index, slot_rows, slot_index)
    if layout.slots:
        empty = backbone.embed(backbone.tokenize(EMPTY_SLOT)).expand(sum(layout.slot_sizes), -1)
        bound.place_word(
            slice(0, len(empty)), empty if placeholder == "token" else torch.zeros_like(empty)
        )
    return bound


class _Row(NamedTuple):
    token: int
    soft: int | None = None  # which soft vector takes the token's place
    slot: int | None = None  # which of the tokens of all slots does


class _Prompt(NamedTuple):
    rows: list[_Row]
    name: range  # the rows of the class name


def _prompt(layout: PromptLayout, backbone: Backbone, class_name: str) -> _Prompt:
    """The prompt of a class.

    The full stop that touches its name is tokenized with it: after a name such as "U.S." the full
    stop is part of a token.
    """
    stop = layout.after_name.text if layout.after_name else ""
    rows, name, soft, slot = [_Row(token) for token in backbone.opening], range(0), count(), count()
    for segment in layout.segments:
        if isinstance(segment, Soft):
            rows += [_Row(backbone.eos, soft=next(soft)) for _ in range(segment.size)]
        elif isinstance(segment, WordSlot):
            rows += [_Row(backbone.eos, slot=next(slot)) for _ in range(segment.size)]
        elif isinstance(segment, ClassName):
            ids = backbone.tokenize(class_name + stop)
            own = max(1, len(ids) - len(backbone.tokenize(stop)))
            name = range(len(rows), len(rows) + own)
            rows += map(_Row, ids)
        elif segment is not layout.after_name:
            rows += map(_Row, backbone.tokenize(segment.text))
    return _Prompt([*rows, _Row(backbone.eos)], name)


def _places(indices: Sequence[int | None], device: torch.device) -> tuple[Tensor, Tensor]:
    """The rows that have an index, and their indices."""
    found = [(row, index) for row, index in enumerate(indices) if index is not None]
    rows, index = torch.tensor(found, device=device).view(-1, 2).long().unbind(1)
    return rows, index


def _check_length(
    layout: PromptLayout, backbone: Backbone, names: Sequence[str], prompts: Sequence[_Prompt]
) -> None:
    longest = max(range(len(prompts)), key=lambda index: len(prompts[index].rows))
    tokens, positions = len(prompts[longest].rows), backbone.positions
    if tokens <= positions:
        return
    name_tokens = len(prompts[longest].name)
    if tokens - name_tokens + 1 > positions:
        soft = several(layout.soft_count, "soft vector")
        parts = f"{several(layout.slots, 'word')} between {soft}" if layout.slots else soft
        raise ConfigError(
            f"{parts} need {tokens} tokens, but {backbone.name} has {positions} positions; use "
            f"fewer {'words' if layout.slots else 'soft vectors'}."
        )
    raise DataError(
        f"Class name {brief(names[longest])} is {name_tokens} tokens long; the prompt leaves room "
        f"for {positions - (tokens - name_tokens)} of {positions}."
    )


def initial_soft(layout: PromptLayout, backbone: Backbone, generator: torch.Generator) -> Tensor:
    """The initial values (soft, width) of all soft vectors, in fp32 on the CPU."""
    groups = []
    for group in layout.groups:
        vectors = group.std * torch.randn(group.size, backbone.text_width, generator=generator)
        if group.init is not None:
            ids = backbone.tokenize(group.init)
            if len(ids) != group.size:
                raise ConfigError(
                    f"{group.init!r} is {len(ids)} tokens; the soft group has {group.size}."
                )
            vectors = backbone.embed(ids).cpu()
        groups.append(vectors)
    return torch.cat(groups)
