"""Features of many endings of the same prompts, at the cost of the endings alone.

A causal tower computes a row from the rows before it. What stands before a candidate word is the
same for every candidate, so its keys and values are kept once per prompt and layer; for each
(prompt, candidate) only the candidate, the tail and EOS are run. All candidates of a prompt meet
the same prefix keys in one product; nothing is copied per candidate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import silu
from transformers.activations import QuickGELUActivation

from ipl.backbone.clip import Backbone
from ipl.errors import BackboneError

# Rows run at once: enough to keep matrix products busy, few enough to stay in a CPU's cache.
ROWS_PER_CHUNK = {"cpu": 4096, "cuda": 65536}


class PrefixCache:
    """Keys and values of prompts up to, and not with, the candidate word."""

    def __init__(
        self, backbone: Backbone, prefixes: Sequence[Sequence[int]], tail: Sequence[int] = ()
    ) -> None:
        """Takes each prompt's token ids from SOS on, and the ids between candidate and EOS."""
        self.backbone = backbone
        self.tail = [*tail, backbone.eos]
        lengths = [len(prefix) for prefix in prefixes]
        longest = max(lengths)
        if longest + 1 + len(self.tail) > backbone.positions:
            raise BackboneError(
                f"A prompt of {longest + 1 + len(self.tail)} tokens does not fit the "
                f"{backbone.positions} positions of {backbone.name}."
            )
        padded = [[*p, *[backbone.eos] * (longest - len(p))] for p in prefixes]
        self.lengths = torch.tensor(lengths, device=backbone.device)
        # (prompts, 1, 1, prefix): padding gets no attention
        ahead = torch.arange(longest, device=backbone.device) >= self.lengths[:, None]
        self._hidden_prefix = ahead[:, None, None, :]
        self._head_count = int(backbone.text_layers[0].self_attn.num_heads)
        own = 1 + len(self.tail)
        self._future = torch.ones(own, own, dtype=torch.bool, device=backbone.device).triu(1)
        self._keys, self._values = self._run_prefixes(torch.tensor(padded))

    @torch.no_grad()
    def _run_prefixes(self, ids: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        backbone = self.backbone
        position = backbone.clip.text_model.embeddings.position_embedding.weight
        hidden = backbone.embed(ids).to(backbone.dtype) + position[: ids.shape[1]]
        keys, values = [], []
        for layer in backbone.text_layers:
            seen = layer.layer_norm1(hidden)
            keys.append(self._heads(layer.self_attn.k_proj(seen)))
            values.append(self._heads(layer.self_attn.v_proj(seen)))
            hidden = layer(hidden, None, is_causal=True)
        return keys, values  # per layer (prompts, heads, prefix, head width)

    def _heads(self, rows: Tensor) -> Tensor:
        """Returns (prompts, rows, width) as (prompts, heads, rows, head width)."""
        split: Tensor = rows.unflatten(-1, (self._head_count, -1))
        return split.transpose(1, 2)

    def features(self, candidates: Sequence[int]) -> Iterator[Tensor]:
        """Yields features (prompts, chunk, dim) of one chunk of candidate token ids at a time."""
        rows = ROWS_PER_CHUNK.get(self.backbone.device.type, ROWS_PER_CHUNK["cpu"])
        chunk = max(1, rows // (len(self.lengths) * (1 + len(self.tail))))
        ids = torch.as_tensor(candidates, dtype=torch.long)
        for start in range(0, len(ids), chunk):
            yield self._run(ids[start : start + chunk])

    @torch.no_grad()
    def _run(self, candidates: Tensor) -> Tensor:
        backbone = self.backbone
        own = 1 + len(self.tail)
        ids = torch.tensor([[0, *self.tail]]).repeat(len(candidates), 1)
        ids[:, 0] = candidates
        position = backbone.clip.text_model.embeddings.position_embedding.weight
        places = self.lengths[:, None] + torch.arange(own, device=backbone.device)
        hidden = backbone.embed(ids).to(backbone.dtype) + position[places][:, None]
        last = len(backbone.text_layers) - 1
        for number, layer in enumerate(backbone.text_layers):
            # hidden: (prompts, count, own rows, width); only EOS has to leave the last layer
            asking = 1 if number == last else own
            mixed = self._attend(number, layer.layer_norm1(hidden), asking)
            hidden = hidden[:, :, own - asking :] + mixed
            hidden = hidden + _mlp(layer.mlp, layer.layer_norm2(hidden))
        text = backbone.clip.text_model
        features: Tensor = backbone.clip.text_projection(text.final_layer_norm(hidden[:, :, 0]))
        return features.float()

    def _attend(self, number: int, seen: Tensor, asking: int) -> Tensor:
        """Returns what the last `asking` rows take from the shared prefix and their own rows."""
        attention = self.backbone.text_layers[number].self_attn
        count, own = seen.shape[1:3]
        query = self._split(attention.q_proj(seen[:, :, own - asking :])) * attention.scale
        key, value = self._split(attention.k_proj(seen)), self._split(attention.v_proj(seen))
        shared = query.flatten(2, 3) @ self._keys[number].transpose(-1, -2)
        shared = shared.masked_fill_(self._hidden_prefix, -torch.inf)
        # Products of a handful of own rows: elementwise beats thousands of tiny matrix products.
        private = (query[..., :, None, :] * key[..., None, :, :]).sum(-1)
        private = private.masked_fill_(self._future[own - asking :], -torch.inf)
        weights = torch.cat([shared, private.flatten(2, 3)], dim=-1).softmax(dim=-1)
        from_prefix, from_own = weights.split([shared.shape[-1], own], dim=-1)
        mixed = (from_prefix @ self._values[number]).unflatten(2, (count, asking))
        from_own = from_own.unflatten(2, (count, asking))
        for row in range(own):
            mixed = mixed.addcmul_(from_own[..., row, None], value[..., row, None, :])
        rows: Tensor = attention.out_proj(mixed.permute(0, 2, 3, 1, 4).flatten(3))
        return rows

    def _split(self, rows: Tensor) -> Tensor:
        """Returns (prompts, count, rows, width) as (prompts, heads, count, rows, head width)."""
        split: Tensor = rows.unflatten(-1, (self._head_count, -1))
        return split.permute(0, 3, 1, 2, 4)


def _mlp(mlp: Any, rows: Tensor) -> Tensor:
    """Returns the layer's MLP of rows; QuickGELU in one pass over memory instead of three.

    x * sigmoid(1.702 x) is silu(1.702 x) / 1.702, and both factors ride on the matrix products.
    """
    if not isinstance(mlp.activation_fn, QuickGELUActivation):
        result: Tensor = mlp(rows)
        return result
    flat = rows.reshape(-1, rows.shape[-1])
    wide = torch.addmm(mlp.fc1.bias * 1.702, flat, mlp.fc1.weight.T, alpha=1.702)
    narrow = torch.addmm(mlp.fc2.bias, silu(wide, inplace=True), mlp.fc2.weight.T, alpha=1 / 1.702)
    return narrow.view(rows.shape)
