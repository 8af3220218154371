"""MaPLe (Khattak et al., 2023): deep text prompts, and image prompts computed from them."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from ipl.backbone.replaced_rows import ReplacedRows
from ipl.learners.learner import Batch, Learner
from ipl.learners.published import MaPLeSpec
from ipl.learners.registry import register


@register
class MaPLe(MaPLeSpec, Learner):
    """The prompt `[V V] of a CLS .` with new vectors in deeper layers, coupled to the image side.

    Under IPL the words and the groups between them go through all layers untouched: only the
    class-side group is replaced and coupled to the image side.
    """

    def build(self, generator: torch.Generator) -> None:
        """Adds the deeper text vectors and, for each layer, the map to the image side."""
        depth = self.text_depth
        self.deep = self.vectors(depth - 1, self.group_size, self.backbone.text_width, generator)
        widths = (self.backbone.text_width, self.backbone.image_width)
        couplings = min(depth, self.image_depth)
        first = self.linear(*widths, generator)
        deeper = [self.linear(*widths, generator)] if couplings > 1 else []
        # As published, the maps of the deeper layers are copies of one draw.
        deeper += [copy.deepcopy(deeper[0]) for _ in range(couplings - 2)]
        self.couple = nn.ModuleList([first, *deeper])

    @property
    def deep_text(self) -> Tensor:
        """Returns the vectors (layers, rows, width) of the deeper text layers."""
        return self.deep

    def image_features(self, pixels: Tensor) -> Tensor:
        """Returns normalised features (images, dim) of the prompted image tower."""
        sources = [self.soft[self.layout.group_slice(-1)], *self.deep]
        first, *deeper = (couple(rows) for couple, rows in zip(self.couple, sources, strict=False))
        deep = torch.stack(deeper) if deeper else first[:0][None][:0]
        enter = ReplacedRows(-len(first), deep)
        return normalize(self.backbone.encode_image(pixels, first, enter), dim=-1)

    def loss(self, batch: Batch) -> Tensor:
        """Returns cross-entropy of the prompted towers."""
        assert batch.pixels is not None
        texts, images = self.both_features(batch.pixels)
        return cross_entropy(self.backbone.logits(images, texts), batch.labels)
