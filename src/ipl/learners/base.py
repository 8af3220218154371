"""What every learner has: soft vectors in a layout, words in its slots, logits and a loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from ipl.backbone import Backbone
from ipl.errors import ConfigError
from ipl.learners.recipe import Recipe
from ipl.prompts import BoundPrompts, PromptLayout, bind, initial_soft


class Learner(nn.Module, ABC):
    """Prompts for one list of classes. Its parameters are the prompt and nothing else."""

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def recipe(cls, words: int) -> Recipe:
        """Returns the published numbers, for the plain learner (words = 0) or under IPL."""

    @classmethod
    @abstractmethod
    def layout_for(cls, words: int, m: int) -> PromptLayout:
        """Returns the layout with this many word slots and m vectors in a soft group."""

    def __init__(
        self,
        backbone: Backbone,
        layout: PromptLayout,
        class_names: Sequence[str],
        seed: int = 1,
        placeholder: str = "token",
    ) -> None:
        super().__init__()
        self.backbone = backbone  # not a module: frozen, and no part of the state
        self.layout = layout
        self.words: tuple[str, ...] = ()
        self.placeholder = placeholder
        self.prompts: BoundPrompts = bind(layout, backbone, class_names, placeholder)
        generator = torch.Generator().manual_seed(seed)
        first = initial_soft(layout, backbone, generator)
        self.soft = nn.Parameter(first.to(backbone.device))

    def place_word(self, word: str) -> None:
        """Puts a word into the next empty slot; it stays there."""
        slot = len(self.words)
        if slot == self.layout.slots:
            raise ConfigError(f"All {slot} word slots are taken; there is none for {word!r}.")
        ids = self.backbone.tokenize(word)
        if len(ids) != 1:
            raise ConfigError(f"{word!r} is {len(ids)} tokens of {self.backbone.name}, not one.")
        self.prompts.place_word(slot, self.backbone.embed(ids)[0])
        self.words = (*self.words, word)

    def for_classes(self, class_names: Sequence[str]) -> Learner:
        """Returns a learner with the same words and vectors for other classes."""
        other = type(self)(self.backbone, self.layout, class_names, placeholder=self.placeholder)
        other.load_state_dict(self.state_dict())
        for word in self.words:
            other.place_word(word)
        return other

    def text_features(self) -> Tensor:
        """Returns the normalised feature of each class (classes, dim)."""
        features = self.backbone.encode_text(
            self.prompts.assemble(self.soft), self.prompts.eos, shared=self.prompts.shared
        )
        return normalize(features, dim=-1)

    def logits(self, image_features: Tensor) -> Tensor:
        """Returns logits (images, classes) of image features (images, dim)."""
        return self.backbone.logits(image_features, self.text_features())

    def loss(self, image_features: Tensor, labels: Tensor) -> Tensor:
        """Returns the loss of a batch."""
        return cross_entropy(self.logits(image_features), labels)
