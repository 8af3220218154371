"""BoundPrompts: a layout for the classes of a task, as embeddings with the index of every row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.shared_prefix import OwnRows, SharedPrompts
from ipl.datasets.dataset import check_class_names, clean_class_name
from ipl.display.formatting import several
from ipl.prompts.layout import ClassName, Eos, FixedText, PromptLayout, Soft, Sos, WordSlot
from ipl.support.errors import ConfigError, DataError

# An empty slot holds the token "0", as in the authors' code, or a zero vector, as in the paper.
PLACEHOLDERS = ("token", "zero")
EMPTY_SLOT = "0"


@dataclass(frozen=True)
class BoundPrompts:
    """The prompts of a list of classes, one each, as embeddings.

    Parameters
    ----------
    class_names : tuple of str
        The classes.
    embeddings : Tensor of shape (classes, tokens, width)
        The embeddings in fp32. Soft rows are zero; rows after a prompt's EOS are padding.
    soft_rows : Tensor of shape (classes, soft vectors)
        The row of each soft vector.
    slot_rows : Tensor of shape (classes, tokens of all word slots)
        The row of each token of a word slot.
    class_rows : tuple of range
        The rows of each class name.
    eos : Tensor of shape (classes,)
        The row of each EOS, where the feature is read.
    dtype : torch.dtype
        The precision of the text tower.
    """

    class_names: tuple[str, ...]
    embeddings: Tensor
    soft_rows: Tensor
    slot_rows: Tensor
    class_rows: tuple[range, ...]
    eos: Tensor
    dtype: torch.dtype

    @property
    def shared(self) -> int:
        """Returns how many leading rows are the same for every class: those before its name."""
        return self.class_rows[0].start

    @cached_property
    def own_rows(self) -> OwnRows:
        """Returns the rows of each class from its name to EOS."""
        counts = [end - self.shared + 1 for end in self.eos.tolist()]
        return OwnRows.of(counts, self.eos.device, self.dtype)

    def place_word(self, slot: slice, embeddings: Tensor) -> None:
        """Puts a word's embeddings (tokens, width) into its slot, for every class."""
        classes = torch.arange(len(self.class_names), device=self.embeddings.device)
        self.embeddings[classes[:, None], self.slot_rows[:, slot]] = embeddings

    @cached_property
    def _endings_are_fixed(self) -> bool:
        """Returns whether all soft vectors stand before the class name."""
        return bool((self.soft_rows < self.shared).all())

    def split(self, soft: Tensor) -> SharedPrompts:
        """Returns the prompts with soft vectors (soft, width), or several (groups, soft, width)."""
        soft = soft if soft.ndim == 3 else soft[None]
        groups, shared = len(soft), self.shared
        if self._endings_are_fixed:
            index = self.soft_rows[:1, :, None].expand_as(soft)
            beginnings = self.embeddings[:1, :shared].expand(groups, -1, -1).scatter(1, index, soft)
            endings = self.embeddings[:, shared:]
            endings = endings if groups == 1 else endings.repeat(groups, 1, 1)
        else:
            rows = self.assemble(soft)
            beginnings, endings = rows[:, 0, :shared], rows[:, :, shared:].flatten(0, 1)
        return SharedPrompts(beginnings, endings, self.eos.repeat(groups), self.own_rows)

    def assemble(self, soft: Tensor) -> Tensor:
        """Returns embeddings (..., classes, tokens, width) with soft vectors (..., soft, width)."""
        lead, width = soft.shape[:-2], soft.shape[-1]
        index = self.soft_rows[..., None].expand(*lead, -1, -1, width)
        values = soft.unsqueeze(-3).expand_as(index)
        return self.embeddings.expand(*lead, -1, -1, -1).scatter(-2, index, values)


def bind(
    layout: PromptLayout,
    backbone: Backbone,
    class_names: Sequence[str],
    placeholder: str = "token",
) -> BoundPrompts:
    """Returns the prompts of a layout for a list of classes.

    Parameters
    ----------
    layout : PromptLayout
        The segments of the prompt.
    backbone : Backbone
        Tokenizes and embeds the text.
    class_names : sequence of str
        The classes.
    placeholder : str, default "token"
        What an empty word slot holds: "token" (the token "0") or "zero" (a zero vector).

    Returns
    -------
    BoundPrompts
        The prompts, padded to the longest.

    Raises
    ------
    ConfigError
        If the layout is too long for the backbone.
    DataError
        If a class name cannot be used, or is too long.
    """
    if placeholder not in PLACEHOLDERS:
        raise ConfigError(f"placeholder is {placeholder!r}; allowed are {', '.join(PLACEHOLDERS)}.")
    check_class_names(class_names, alike=True)  # readers have checked whether two may be alike
    names = tuple(clean_class_name(name) for name in class_names)
    walks = [_walk(layout, backbone, name) for name in names]
    _check_room(layout, backbone, names, walks)
    tokens = max(len(walk.ids) for walk in walks)
    ids = torch.tensor([[*walk.ids, *[backbone.eos] * (tokens - len(walk.ids))] for walk in walks])
    embeddings = backbone.embed(ids)
    device = backbone.device
    bound = BoundPrompts(
        class_names=names,
        embeddings=embeddings,
        soft_rows=torch.tensor([walk.soft for walk in walks], dtype=torch.long, device=device),
        slot_rows=torch.tensor([walk.slots for walk in walks], dtype=torch.long, device=device),
        class_rows=tuple(walk.name for walk in walks),
        eos=torch.tensor([len(walk.ids) - 1 for walk in walks], device=device),
        dtype=backbone.dtype,
    )
    width = embeddings.shape[-1]
    embeddings.scatter_(1, bound.soft_rows[..., None].expand(-1, -1, width), 0.0)
    if layout.slots:
        empty = backbone.embed(backbone.tokenize(EMPTY_SLOT))
        bound.place_word(slice(None), empty if placeholder == "token" else torch.zeros_like(empty))
    return bound


@dataclass
class _Walk:
    """The token ids of a prompt and the rows of its segments; soft and empty rows hold EOS."""

    ids: list[int]
    soft: list[int]
    slots: list[int]
    name: range


def _walk(layout: PromptLayout, backbone: Backbone, class_name: str) -> _Walk:
    walk = _Walk([], [], [], range(0))
    for segment in layout.segments:
        row = len(walk.ids)
        if isinstance(segment, Sos):
            walk.ids.extend(backbone.opening)  # no row where the backbone has no SOS
        elif isinstance(segment, Eos):
            walk.ids.append(backbone.eos)
        elif isinstance(segment, Soft):
            walk.soft.extend(range(row, row + segment.size))
            walk.ids.extend([backbone.eos] * segment.size)
        elif isinstance(segment, WordSlot):
            walk.slots.extend(range(row, row + segment.size))
            walk.ids.extend([backbone.eos] * segment.size)
        elif isinstance(segment, ClassName):
            ids = name_tokens(layout, backbone, class_name)
            end = len(backbone.tokenize(layout.after_name.text)) if layout.after_name else 0
            walk.ids.extend(ids)
            walk.name = range(row, row + max(1, len(ids) - end))
        elif isinstance(segment, FixedText) and segment is not layout.after_name:
            walk.ids.extend(backbone.tokenize(segment.text))
    return walk


def name_tokens(layout: PromptLayout, backbone: Backbone, class_name: str) -> list[int]:
    """Returns the tokens of a class name with the full stop that touches it.

    They are tokenized together: after a name such as "U.S." the full stop is part of a token.
    """
    return backbone.tokenize(class_name + (layout.after_name.text if layout.after_name else ""))


def _check_room(
    layout: PromptLayout, backbone: Backbone, names: Sequence[str], walks: Sequence[_Walk]
) -> None:
    longest = max(range(len(walks)), key=lambda i: len(walks[i].ids))
    tokens, positions = len(walks[longest].ids), backbone.positions
    if tokens <= positions:
        return
    name_tokens = len(walks[longest].name)
    if tokens - name_tokens + 1 > positions:
        soft = several(layout.soft_count, "soft vector")
        parts = f"{several(layout.slots, 'word')} between {soft}" if layout.slots else soft
        raise ConfigError(
            f"{parts} need {tokens} tokens, but {backbone.name} has {positions} positions; use "
            f"fewer {'words' if layout.slots else 'soft vectors'}."
        )
    name = names[longest] if len(names[longest]) <= 40 else names[longest][:40] + "..."
    raise DataError(
        f"Class name {name!r} is {name_tokens} tokens long; the prompt leaves room for "
        f"{positions - (tokens - name_tokens)} of {positions}."
    )


def initial_soft(layout: PromptLayout, backbone: Backbone, generator: torch.Generator) -> Tensor:
    """Returns the initial values (soft, width) of all soft vectors, in fp32 on the CPU."""
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
