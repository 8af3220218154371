"""A layout bound to a backbone and class names: embeddings, and every index in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.datasets.dataset import check_class_names, clean_class_name
from ipl.prompts.layout import ClassName, Eos, FixedText, PromptLayout, Soft, Sos, WordSlot
from ipl.support.errors import ConfigError, DataError

# What an empty slot holds: the token "0" as in the authors' code, or a zero vector as in the paper.
PLACEHOLDERS = ("token", "zero")


@dataclass(frozen=True)
class BoundPrompts:
    """One prompt per class. Rows after a class's EOS are padding."""

    class_names: tuple[str, ...]
    embeddings: Tensor  # (classes, tokens, width), fp32; soft rows are zero
    soft_rows: Tensor  # (classes, soft vectors)
    slot_rows: Tensor  # (classes, word slots)
    class_rows: tuple[range, ...]  # of each class
    eos: Tensor  # (classes,)

    @property
    def shared(self) -> int:
        """Returns how many first rows are the same for every class: all before its name."""
        return self.class_rows[0].start

    def place_word(self, slot: int, embedding: Tensor) -> None:
        """Puts a word's embedding (width,) into its slot, for every class."""
        every = torch.arange(len(self.class_names), device=self.embeddings.device)
        self.embeddings[every, self.slot_rows[:, slot]] = embedding

    def assemble(self, soft: Tensor) -> Tensor:
        """Returns embeddings (..., classes, tokens, width) with (..., soft, width) in place."""
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
    """Returns the layout's prompts for these classes, as long as the longest of them."""
    if placeholder not in PLACEHOLDERS:
        raise ConfigError(f"placeholder is {placeholder!r}; allowed are {', '.join(PLACEHOLDERS)}.")
    check_class_names(class_names, alike=True)  # whoever took the names in has checked the rest
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
    )
    width = embeddings.shape[-1]
    embeddings.scatter_(1, bound.soft_rows[..., None].expand(-1, -1, width), 0.0)
    if layout.slots:
        empty = backbone.embed(backbone.tokenize("0"))[0]
        for slot in range(layout.slots):
            bound.place_word(slot, empty if placeholder == "token" else torch.zeros_like(empty))
    return bound


@dataclass
class _Walk:
    """One class's token ids and where its segments stand; trained and empty rows hold EOS."""

    ids: list[int]
    soft: list[int]
    slots: list[int]
    name: range


def _walk(layout: PromptLayout, backbone: Backbone, class_name: str) -> _Walk:
    walk = _Walk([], [], [], range(0))
    for segment in layout.segments:
        here = len(walk.ids)
        if isinstance(segment, Sos):
            walk.ids.extend(backbone.opening)  # no row where the backbone has no SOS
        elif isinstance(segment, Eos):
            walk.ids.append(backbone.eos)
        elif isinstance(segment, Soft):
            walk.soft.extend(range(here, here + segment.size))
            walk.ids.extend([backbone.eos] * segment.size)
        elif isinstance(segment, WordSlot):
            walk.slots.append(here)
            walk.ids.append(backbone.eos)
        elif isinstance(segment, ClassName):
            walk.ids.extend(backbone.tokenize(class_name))
            walk.name = range(here, len(walk.ids))
        elif isinstance(segment, FixedText):
            walk.ids.extend(backbone.tokenize(segment.text))
    return walk


def _check_room(
    layout: PromptLayout, backbone: Backbone, names: Sequence[str], walks: Sequence[_Walk]
) -> None:
    longest = max(range(len(walks)), key=lambda i: len(walks[i].ids))
    need, positions = len(walks[longest].ids), backbone.positions
    if need <= positions:
        return
    own = len(walks[longest].name)
    if need - own + 1 > positions:
        raise ConfigError(
            f"{layout.slots} words between {layout.soft_count} soft vectors need {need} tokens, "
            f"but {backbone.name} has {positions} positions; use fewer words."
        )
    name = names[longest] if len(names[longest]) <= 40 else names[longest][:40] + "..."
    raise DataError(
        f"Class name {name!r} is {own} tokens long; the prompt leaves room for "
        f"{positions - (need - own)} of {positions}."
    )


def initial_soft(layout: PromptLayout, backbone: Backbone, generator: torch.Generator) -> Tensor:
    """Returns the first values (soft, width) of all soft vectors, in fp32 on the CPU."""
    groups = []
    for group in layout.groups:
        drawn = group.std * torch.randn(group.size, backbone.text_width, generator=generator)
        if group.init is not None:
            ids = backbone.tokenize(group.init)
            if len(ids) != group.size:
                raise ConfigError(
                    f"{group.init!r} is {len(ids)} tokens; the soft group has {group.size}."
                )
            drawn = backbone.embed(ids).cpu()
        groups.append(drawn)
    return torch.cat(groups)
