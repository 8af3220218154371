"""PromptSRC (Khattak et al., 2023): deep prompts, regularised by the frozen towers."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, l1_loss, normalize

from ipl.backbone.tower import DeepPrompts
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.learner import Batch, Learner
from ipl.learners.maple import first_words_learnt
from ipl.learners.registry import register
from ipl.prompts.layout import PromptLayout

TEXT_WEIGHT, IMAGE_WEIGHT = 25.0, 10.0

# Sixty of the hand-made prompts for ImageNet that CLIP's authors published: the text teacher.
IMAGENET_TEMPLATES = (
    "a photo of a {}.",
    "a bad photo of a {}.",
    "a photo of many {}.",
    "a sculpture of a {}.",
    "a photo of the hard to see {}.",
    "a low resolution photo of the {}.",
    "a rendering of a {}.",
    "graffiti of a {}.",
    "a bad photo of the {}.",
    "a cropped photo of the {}.",
    "a tattoo of a {}.",
    "the embroidered {}.",
    "a photo of a hard to see {}.",
    "a bright photo of a {}.",
    "a photo of a clean {}.",
    "a photo of a dirty {}.",
    "a dark photo of the {}.",
    "a drawing of a {}.",
    "a photo of my {}.",
    "the plastic {}.",
    "a photo of the cool {}.",
    "a close-up photo of a {}.",
    "a black and white photo of the {}.",
    "a painting of the {}.",
    "a painting of a {}.",
    "a pixelated photo of the {}.",
    "a sculpture of the {}.",
    "a bright photo of the {}.",
    "a cropped photo of a {}.",
    "a plastic {}.",
    "a photo of the dirty {}.",
    "a jpeg corrupted photo of a {}.",
    "a blurry photo of the {}.",
    "a photo of the {}.",
    "a good photo of the {}.",
    "a rendering of the {}.",
    "a {} in a video game.",
    "a photo of one {}.",
    "a doodle of a {}.",
    "a close-up photo of the {}.",
    "the origami {}.",
    "the {} in a video game.",
    "a sketch of a {}.",
    "a doodle of the {}.",
    "a origami {}.",
    "a low resolution photo of a {}.",
    "the toy {}.",
    "a rendition of the {}.",
    "a photo of the clean {}.",
    "a photo of a large {}.",
    "a rendition of a {}.",
    "a photo of a nice {}.",
    "a photo of a weird {}.",
    "a blurry photo of a {}.",
    "a cartoon {}.",
    "art of a {}.",
    "a sketch of the {}.",
    "a embroidered {}.",
    "a pixelated photo of a {}.",
    "itap of the {}.",
)


@register
class PromptSRC(Learner):
    """Independent text and image prompts in each of the first layers, with three regularisers.

    The text features stay near the mean of 60 hand-made prompts, the image features and the
    predictions near those of the frozen towers on the same crops. At the end the prompts of all
    epochs are averaged with Gaussian weights.
    """

    name = "promptsrc"
    prompts_images = True
    deep_prompts = True

    @classmethod
    def hyperparameters(cls, words: int, protocol: str = "base-to-novel") -> Hyperparameters:
        del words
        average: dict[str, Any] = {"depth": 9, "average_mean": 15.0, "average_std": 1.0}
        if protocol == "cross-dataset":
            average = {"depth": 3, "average_mean": 6.0, "average_std": 10.0}
        return Hyperparameters(epochs=20, interval=1, batch=4, lr=0.0025, m=4, **average)

    @classmethod
    def layout_for(cls, words: int, m: int) -> PromptLayout:
        return PromptLayout.interleaved(words, m) if words else first_words_learnt(m)

    def build(self, generator: torch.Generator) -> None:
        m, image_width = self.group_size, self.backbone.image_width
        self.deep = self.vectors(self.text_depth - 1, m, self.backbone.text_width, generator)
        self.image = self.vectors(self.image_depth, m, image_width, generator)

    def text_features(self) -> Tensor:
        return self.encode_prompts(self.soft, self.deep)

    def image_features(self, pixels: Tensor) -> Tensor:
        first, *deeper = self.image.unbind()
        deep_prompts = DeepPrompts(-self.group_size, deeper)
        return normalize(self.backbone.encode_image(pixels, first, deep_prompts), dim=-1)

    @cached_property
    def teacher(self) -> Tensor:
        """The frozen text features (classes, dim): the mean of 60 templates, normalised."""
        names = self.prompts.class_names
        texts = [template.format(name) for name in names for template in IMAGENET_TEMPLATES]
        features = self.backbone.encode_texts(texts).unflatten(0, (len(names), -1))
        return normalize(features.mean(1), dim=-1)

    def loss(self, batch: Batch) -> Tensor:
        assert batch.pixels is not None
        assert batch.features is not None
        images, texts = self.features_of_both(batch.pixels)
        logits = self.backbone.logits(images, texts)
        frozen = self.backbone.logits(batch.features, self.teacher)
        divergence = kl_div(
            logits.log_softmax(-1), frozen.log_softmax(-1), reduction="sum", log_target=True
        )
        return (
            cross_entropy(logits, batch.labels)
            + TEXT_WEIGHT * l1_loss(texts, self.teacher)
            + IMAGE_WEIGHT * l1_loss(images, batch.features)
            + divergence / logits.numel()
        )
