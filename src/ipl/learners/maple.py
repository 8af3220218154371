"""MaPLe (Khattak et al., 2023): deep text prompts, and image prompts computed from them."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from ipl.backbone.tower import DeepPrompts
from ipl.learners.coop import START
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.learner import Batch, Learner
from ipl.learners.registry import register
from ipl.prompts.layout import ClassName, FixedText, PromptLayout, Soft


def first_words_learnt(m: int) -> PromptLayout:
    """The layout whose first m words of "a photo of a" are learnt and the rest is text.

    Above four vectors they start at random, and no text follows.
    """
    words = START.split()
    if m > len(words):
        return PromptLayout((Soft(m), ClassName(), FixedText(".")))
    rest = [FixedText(" ".join(words[m:]))] if m < len(words) else []
    start = Soft(m, init=" ".join(words[:m]))
    return PromptLayout((start, *rest, ClassName(), FixedText(".")))


@register
class MaPLe(Learner):
    """The prompt `[V V] of a CLS .` with new vectors in deeper layers, coupled to the image side.

    Under IPL the words and the groups between them go through all layers untouched: only the
    class-side group is replaced and coupled to the image side.
    """

    name = "maple"
    prompts_images = True
    deep_prompts = True
    wants_features = False

    @classmethod
    def hyperparameters(cls, words: int, protocol: str = "base-to-novel") -> Hyperparameters:
        del words
        if protocol == "cross-dataset":
            return Hyperparameters(epochs=2, interval=1, batch=4, lr=0.0026, m=2, depth=3)
        return Hyperparameters(epochs=5, interval=1, batch=4, lr=0.0035, m=2, depth=9)

    @classmethod
    def layout_for(cls, words: int, m: int) -> PromptLayout:
        return PromptLayout.interleaved(words, m) if words else first_words_learnt(m)

    def build(self, generator: torch.Generator) -> None:
        depth = self.text_depth
        self.deep = self.vectors(depth - 1, self.group_size, self.backbone.text_width, generator)
        widths = (self.backbone.text_width, self.backbone.image_width)
        couplings = min(depth, self.image_depth)
        first = self.linear(*widths, generator)
        deeper = [self.linear(*widths, generator)] if couplings > 1 else []
        # As published, the maps of the deeper layers are copies of one draw.
        deeper += [copy.deepcopy(deeper[0]) for _ in range(couplings - 2)]
        self.couple = nn.ModuleList([first, *deeper])

    def text_features(self) -> Tensor:
        return self.encode_prompts(self.soft, self.deep)

    def image_features(self, pixels: Tensor) -> Tensor:
        sources = [self.soft[self.layout.group_slice(-1)], *self.deep]
        first, *deeper = (couple(rows) for couple, rows in zip(self.couple, sources, strict=False))
        deep_prompts = DeepPrompts(-len(first), deeper)
        return normalize(self.backbone.encode_image(pixels, first, deep_prompts), dim=-1)

    def loss(self, batch: Batch) -> Tensor:
        assert batch.pixels is not None
        images, texts = self.features_of_both(batch.pixels)
        return cross_entropy(self.backbone.logits(images, texts), batch.labels)
