"""Features of prompts that differ in one row before the class name, such as the word in a slot.

In a causal tower the rows before the slot are the same for every candidate and run once; the rows
from the slot up to the class name are the same for every class and run once per candidate; only the
rows from the class name to EOS are run for each (candidate, class). Classes whose names have
equally many tokens are run together, so that no row is padding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ipl.backbone.backbone import Backbone
from ipl.backbone.prefix_attention import Prefix, attend_to_prefix, find_kernels
from ipl.backbone.prefix_cache import MEMORY, candidates_at_once


@dataclass(frozen=True)
class SlotPrompts:
    """Prompts of classes with a slot that candidates fill.

    Parameters
    ----------
    embeddings : Tensor of shape (classes, tokens, width)
        Token embeddings, from the opening tokens to EOS; the rows after EOS are padding.
    eos : Tensor of shape (classes,)
        The row of each prompt's EOS token.
    shared : int
        How many first rows are the same for every class: those before its name.
    slot : int
        The row that the candidates fill; it is one of the shared rows.
    deep : Tensor of shape (layers, rows, width), optional
        Rows that take the place of others before each layer from the second on.
    deep_row : int, default=0
        The first row that they replace; it comes after the slot and before the class name.
    """

    embeddings: Tensor
    eos: Tensor
    shared: int
    slot: int
    deep: Tensor | None = None
    deep_row: int = 0


class SlotFeatures:
    """Computes the features of prompts with candidates in their slot, in one precision.

    Parameters
    ----------
    backbone : Backbone
        A backbone with a causal text tower.
    prompts : SlotPrompts
        The prompts.
    dtype : torch.dtype, default=torch.float32
        The precision of the computation.
    memory : float, default=2.0
        GiB that a search may take; half of it is for the rows that are run.
    """

    @torch.no_grad()
    def __init__(
        self,
        backbone: Backbone,
        prompts: SlotPrompts,
        dtype: torch.dtype = torch.float32,
        memory: float = MEMORY,
    ) -> None:
        self.backbone, self.prompts, self.memory, self.dtype = backbone, prompts, memory, dtype
        self.tower = backbone.text_tower(dtype)
        self.kernels = find_kernels(backbone.device, dtype, backbone.text_width // self.tower.heads)
        slot, shared, positions = prompts.slot, prompts.shared, self.tower.positions
        embeddings = prompts.embeddings.detach()
        before = backbone.text_tower(torch.float32).keys_and_values(embeddings[:1, :slot])
        self.before = [(key.to(dtype), value.to(dtype)) for key, value in zip(*before, strict=True)]
        # (rows, width): the rows from the slot up to the class name, the slot itself empty
        self.middle = embeddings[0, slot:shared].to(dtype) + positions[slot:shared]
        self.middle[0] = positions[slot]
        own = (prompts.eos - shared + 1).tolist()
        self.groups = []  # of classes whose names have equally many tokens
        for rows in sorted(set(own)):
            classes = torch.tensor([i for i, each in enumerate(own) if each == rows])
            classes = classes.to(backbone.device)
            texts = embeddings[classes, shared : shared + rows].to(dtype)
            self.groups.append((classes, texts + positions[shared : shared + rows]))
        self.rows_each = len(self.middle) + sum(own)

    def candidates_at_once(self) -> int:
        """Returns the number of candidates that are run together within the memory limit."""
        return candidates_at_once(
            self.backbone, self.rows_each, len(self.prompts.eos), self.dtype, self.memory
        )

    @torch.no_grad()
    def features(self, candidates: Tensor) -> Tensor:
        """Returns features (candidates, classes, dim) of embeddings (candidates, width)."""
        count, width = candidates.shape
        middle = self.middle.repeat(count, 1, 1)
        middle[:, 0] += candidates.to(self.dtype)
        parts = [middle.view(-1, width)]
        for _, texts in self.groups:  # (classes, rows, candidates, width)
            parts.append(texts[:, :, None].expand(-1, -1, count, -1).reshape(-1, width))
        hidden = torch.cat(parts)
        last = len(self.tower.layers) - 1
        for index in range(last + 1):
            self._enter_deep(hidden[: len(parts[0])], index)
            hidden = self._layer(hidden, index, count, only_eos=index == last)
        features = self.tower.project(self._norm(hidden, 2 * last + 2))
        ordered = features.new_empty(count, len(self.prompts.eos), features.shape[-1])
        sizes = [len(classes) * count for classes, _ in self.groups]
        for (classes, _), part in zip(self.groups, features.split(sizes), strict=True):
            ordered[:, classes] = part.view(len(classes), count, -1).transpose(0, 1)
        return ordered

    def _enter_deep(self, middle: Tensor, index: int) -> None:
        """Puts the deep rows of a layer in place of those in the stream."""
        prompts = self.prompts
        if prompts.deep is None or not 1 <= index <= len(prompts.deep):
            return
        rows = prompts.deep[index - 1].detach().to(self.dtype) - self.tower.offsets[2 * index]
        start = prompts.deep_row - prompts.slot
        stream = middle.view(-1, len(self.middle), middle.shape[-1])
        stream[:, start : start + len(rows)] = rows

    def _layer(self, hidden: Tensor, index: int, count: int, only_eos: bool) -> Tensor:
        """Returns the rows after a layer: all, or those of EOS."""
        tower, layer, width = self.tower, self.tower.layers[index], hidden.shape[-1]
        shapes = [(count, len(self.middle), 1, width)]
        shapes += [(*texts.shape[:2], count, width) for _, texts in self.groups]
        sizes = [shape[0] * shape[1] * shape[2] for shape in shapes]

        def split(rows: Tensor) -> list[Tensor]:
            return [p.view(shape) for p, shape in zip(rows.split(sizes), shapes, strict=True)]

        normed = self._norm(hidden, 2 * index)
        (middle_key, *keys), (middle_value, *values) = (
            split(project(normed)) for project in (layer.key, layer.value)
        )
        key_before, value_before = self.before[index]
        prefix = Prefix(
            torch.cat([key_before.expand(count, -1, -1), middle_key[:, :, 0]], dim=1),
            torch.cat([value_before.expand(count, -1, -1), middle_value[:, :, 0]], dim=1),
            torch.full((count,), self.prompts.shared, device=hidden.device),
        )
        if only_eos:
            hidden, normed = (
                torch.cat([part[:, -1].reshape(-1, width) for part in split(rows)[1:]])
                for rows in (hidden, normed)
            )
            sizes = [len(classes) * count for classes, _ in self.groups]
            queries = [part.view(-1, 1, count, width) for part in layer.query(normed).split(sizes)]
            mixed = []
        else:
            middle_query, *queries = split(layer.query(normed))
            mixed = [self._attend_middle(middle_query[:, :, 0], prefix)]
        for query, key, value in zip(queries, keys, values, strict=True):
            own = attend_to_prefix(query, key, value, prefix, tower.heads, self.kernels)
            mixed.append(own.reshape(-1, width))
        hidden = tower.add(hidden, torch.cat(mixed), layer.out)
        return tower.mlp(hidden, self._norm(hidden, 2 * index + 1), index)

    def _attend_middle(self, query: Tensor, prefix: Prefix) -> Tensor:
        """Returns the attention of the rows from the slot to the class name, as (rows, width)."""
        before, rows = self.prompts.slot, query.shape[1]
        seen = torch.ones(rows, before + rows, dtype=torch.bool, device=query.device)
        query, key, value = (
            part.unflatten(-1, (self.tower.heads, -1)).transpose(1, 2)
            for part in (query, prefix.keys, prefix.values)
        )
        mixed = scaled_dot_product_attention(query, key, value, seen.tril(before), scale=1.0)
        joined: Tensor = mixed.transpose(1, 2).flatten(2).flatten(0, 1)
        return joined

    def _norm(self, hidden: Tensor, index: int) -> Tensor:
        if self.kernels is None:
            return self.tower.norm(hidden, index)
        out: Tensor = self.kernels.norm(hidden, self.tower.offsets[index], self.tower.eps)
        return out
