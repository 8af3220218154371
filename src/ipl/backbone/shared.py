"""Text features of prompts that begin alike, with the common beginning run once.

Prompts of one task differ only from the class name on. A causal tower computes the rows before it
from themselves alone, so one copy serves all classes; each class adds its own few rows, which
attend to the common keys and to their own. The result is that of running every prompt in full.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


def run_shared(
    layers: Any,
    hidden: Tensor,
    shared: int,
    enter: Callable[[int, Tensor], Tensor] | None = None,
    groups: int = 1,
) -> Tensor:
    """Returns the rows from `shared` on (prompts, own, width) after all layers.

    `hidden` is (prompts, tokens, width), positions added; its first `shared` rows are the same in
    every prompt, or in every prompt of each of `groups` equal parts. `enter` may rewrite these rows
    (groups, shared, width) before any layer, no others.
    """
    prompts, tokens, width = hidden.shape
    own, each = tokens - shared, prompts // groups
    # One matrix of all rows: the common ones once per group, then every prompt's own.
    rows = torch.cat(
        [hidden[::each, :shared].reshape(-1, width), hidden[:, shared:].reshape(-1, width)]
    )
    sizes = [groups * shared, prompts * own]
    # An own row sees all common rows and its own up to itself.
    seen = torch.ones(own, tokens, dtype=torch.bool, device=hidden.device).tril(shared)
    for number, layer in enumerate(layers):
        if enter is not None:
            common, rest = rows.split(sizes)
            common = enter(number, common.view(groups, shared, width)).reshape(-1, width)
            rows = torch.cat([common, rest])
        attention = layer.self_attn
        normed = layer.layer_norm1(rows)

        def parts(projected: Tensor, heads: int = attention.num_heads) -> tuple[Tensor, Tensor]:
            common, rest = projected.unflatten(-1, (heads, -1)).split(sizes)
            common = common.unflatten(0, (groups, shared)).transpose(1, 2)
            rest = rest.unflatten(0, (prompts, own)).transpose(1, 2)
            return common, rest  # (groups or prompts, heads, rows, head width)

        def for_all(common: Tensor) -> Tensor:
            return common[:, None].expand(-1, each, -1, -1, -1).flatten(0, 1)

        query, own_query = parts(attention.q_proj(normed))
        key, own_key = parts(attention.k_proj(normed))
        value, own_value = parts(attention.v_proj(normed))
        common = scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=attention.scale
        )
        rest = scaled_dot_product_attention(
            own_query,
            torch.cat([for_all(key), own_key], dim=2),
            torch.cat([for_all(value), own_value], dim=2),
            attn_mask=seen,
            scale=attention.scale,
        )
        mixed = torch.cat(
            [rows.transpose(1, 2).flatten(2).flatten(0, 1) for rows in (common, rest)]
        )
        rows = rows + attention.out_proj(mixed)
        rows = rows + layer.mlp(layer.layer_norm2(rows))
    return rows[sizes[0] :].view(prompts, own, width)
