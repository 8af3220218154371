"""CLIP's image tower as plain matrices, for prompts in it.

A training step has few images, and on a GPU launching kernels takes longer than running them. This
needs fewer of them than the library's layers: queries, keys and values come from one product, and
of the last layer, whose first row alone becomes the feature, nothing but that row is computed.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ipl.backbone.folded_layers import FoldedLayers


class ImageTower(FoldedLayers):
    """The layers of a CLIP image tower, between its first norm and its last."""

    def run(self, hidden: Tensor, enter: Callable[[int, Tensor], Tensor] | None = None) -> Tensor:
        """Returns the class row (images, width) after all layers.

        `hidden` is (images, rows, width), the class row first; `enter` may rewrite it before each
        layer.
        """
        for index in range(len(self.layers)):
            if enter is not None:
                hidden = enter(index, hidden)
            qkv = self.project_qkv(hidden, index).unflatten(-1, (3, self.heads, -1))
            query, key, value = (part.transpose(1, 2) for part in qkv.unbind(2))
            if index + 1 == len(self.layers):
                hidden, query = hidden[:, :1], query[:, :, :1]
            mixed = scaled_dot_product_attention(query, key, value, scale=1.0)
            hidden = self.finish_layer(hidden, mixed.transpose(1, 2).flatten(2), index)
        return hidden[:, 0]
