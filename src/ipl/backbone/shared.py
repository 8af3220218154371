"""Text features of prompts that begin alike, with the common beginning run once.

Prompts of one task differ only from the class name on. A causal tower computes the rows before it
from themselves alone, so one copy serves all classes; each class adds its own few rows, which
attend to the common keys and to their own. The result is that of running every prompt in full.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


def run_shared(layers: Any, hidden: Tensor, shared: int) -> Tensor:
    """Returns the rows from `shared` on (prompts, own, width) after all layers.

    `hidden` is (prompts, tokens, width), positions added; its first `shared` rows are the same in
    every prompt.
    """
    prompts, tokens, width = hidden.shape
    own = tokens - shared
    # One matrix of all rows: the common ones once, then every prompt's own.
    rows = torch.cat([hidden[0, :shared], hidden[:, shared:].reshape(-1, width)])
    # An own row sees all common rows and its own up to itself.
    seen = torch.ones(own, tokens, dtype=torch.bool, device=hidden.device).tril(shared)
    for layer in layers:
        attention = layer.self_attn
        normed = layer.layer_norm1(rows)

        def parts(projected: Tensor, heads: int = attention.num_heads) -> tuple[Tensor, Tensor]:
            common, rest = projected.unflatten(-1, (heads, -1)).split([shared, prompts * own])
            rest = rest.unflatten(0, (prompts, own)).transpose(1, 2)
            return common.transpose(0, 1)[None], rest  # (1 or prompts, heads, rows, head width)

        query, own_query = parts(attention.q_proj(normed))
        key, own_key = parts(attention.k_proj(normed))
        value, own_value = parts(attention.v_proj(normed))
        common = scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=attention.scale
        )
        rest = scaled_dot_product_attention(
            own_query,
            torch.cat([key.expand(prompts, -1, -1, -1), own_key], dim=2),
            torch.cat([value.expand(prompts, -1, -1, -1), own_value], dim=2),
            attn_mask=seen,
            scale=attention.scale,
        )
        mixed = torch.cat(
            [common[0].transpose(0, 1).flatten(1), rest.transpose(1, 2).flatten(2).flatten(0, 1)]
        )
        rows = rows + attention.out_proj(mixed)
        rows = rows + layer.mlp(layer.layer_norm2(rows))
    return rows[shared:].view(prompts, own, width)
