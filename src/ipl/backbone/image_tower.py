"""CLIP's image tower as plain matrices, which a GPU runs faster than the library's layers.

A training step has few images, and on a GPU launching kernels takes longer than running them. This
needs fewer of them: queries, keys and values come from one product, and of the last layer, whose
first row alone becomes the feature, hardly more than that row is computed.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn.functional import linear, scaled_dot_product_attention

from ipl.backbone.folded_layers import FoldedLayers
from ipl.backbone.replaced_rows import Enter

# Rows that the last layer computes. One would do, but the attention of a single row in cuDNN gives
# other last bits from call to call; with two they are always the same.
LAST_ROWS = 2


class ImageTower(FoldedLayers):
    """The layers of a CLIP image tower, between its first norm and its last."""

    def run(self, hidden: Tensor, enter: Enter | None = None) -> Tensor:
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
                hidden, query = hidden[:, :LAST_ROWS], query[:, :, :LAST_ROWS]
            mixed = scaled_dot_product_attention(query, key, value, scale=1.0)
            hidden = self.finish_layer(hidden, mixed.transpose(1, 2).flatten(2), index)
        return hidden[:, 0]


def embed_patches(convolution: Any, pixels: Tensor) -> Tensor:
    """Returns the rows (images, patches, width) of a convolution whose steps are its own size.

    As a matrix product, which a GPU does faster than a convolution of three channels.
    """
    size = convolution.kernel_size[0]
    patches = pixels.unfold(2, size, size).unfold(3, size, size)  # (images, 3, high, wide, s, s)
    rows = patches.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)
    return linear(rows, convolution.weight.flatten(1), convolution.bias)
