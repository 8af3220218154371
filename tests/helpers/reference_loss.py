"""The loss of whole prompts by the library's own functions, to hold the search against."""

from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy, normalize

from ipl.backbone.backbone import Backbone
from ipl.words.pool import Pool

NAMES = ["cat", "starry night", "pirate ship"]
POOL = Pool.from_words(
    ("adopt", "blue", "furry", "heather", "phone", "pile", "social", "visit", "reaction", "title"),
    "test",
)
Images = tuple[torch.Tensor, torch.Tensor]


def plain_loss(backbone: Backbone, images: Images, prompts: list[str]) -> float:
    """Returns the cross-entropy of whole prompts, one per class."""
    texts = normalize(backbone.encode_texts(prompts), dim=-1)
    return cross_entropy(backbone.logit_scale * images[0] @ texts.T, images[1]).item()


def prompts_with(words: list[str]) -> list[str]:
    """Returns the prompt of each class with these words."""
    return [f"a photo of a {name}, with emphasis on: {', '.join(words)}" for name in NAMES]
