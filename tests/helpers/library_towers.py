"""The towers of transformers' CLIP, layer by layer, as an oracle for ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ipl.backbone.backbone import Backbone
from ipl.learners.learner import Learner
from ipl.prompts.bound_prompts import BoundPrompts


def whole_prompts(prompts: BoundPrompts, soft: Tensor) -> list[Tensor]:
    """Returns the embeddings (tokens, width) of each prompt, from the first row to EOS."""
    rows, endings = prompts.with_soft_vectors(soft[None])[0], prompts.endings
    beginning, *own = rows.split([endings.shared, *endings.lengths])
    return [torch.cat([beginning, ending]) for ending in own]


def library_text(
    backbone: Backbone, prompt: Tensor, enter: Callable[[int, Tensor], Tensor] | None = None
) -> Tensor:
    """Returns the feature (dim,) of one whole prompt (tokens, width), run by the library."""
    clip: Any = backbone.model
    text, tokens = clip.text_model, len(prompt)
    rows = (prompt + text.embeddings.position_embedding.weight[:tokens])[None]
    mask = torch.full((tokens, tokens), -torch.inf).triu(1)[None, None]
    for number, layer in enumerate(text.encoder.layers):
        rows = layer(rows if enter is None else enter(number, rows), mask)
    feature: Tensor = clip.text_projection(text.final_layer_norm(rows[0, -1]))
    return feature


def library_features(learner: Learner) -> Tensor:
    """Returns the normalised feature of each class (classes, dim) of a learner without depth."""
    prompts = whole_prompts(learner.prompts, learner.soft)
    features = torch.stack([library_text(learner.backbone, prompt) for prompt in prompts])
    return normalize(features, dim=-1)
