"""The linear head of a prompt, which classifies the classes of its training."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor
from torch.nn.functional import normalize

from ipl.backbone.linear_probe import LinearProbe, fit_linear_probes
from ipl.learners.learner import Learner


def fit_head(
    learner: Learner,
    features: Tensor,
    labels: Tensor,
    cross_fitted: Tensor,
    class_template: str,
    seed: int,
) -> LinearProbe:
    """Fit logistic regression on the training images, with the logits of texts as offset.

    The texts are the prompt's or those of zero-shot CLIP, whichever predicts held-out training
    images better. `cross_fitted` are the prompt's logits (images, classes), from prompts that were
    not trained on these images. Zero-shot's logits are linear in the features (images, dim), so
    they become part of the weights.
    """
    backbone, names = learner.backbone, learner.prompts.class_names
    texts = backbone.encode_texts([class_template.format(name) for name in names])
    offsets = [backbone.logits(features, texts), cross_fitted]
    _, named, prompted = fit_linear_probes(features, labels, len(names), seed, offsets)
    if prompted.loss <= named.loss:
        return prompted
    weight = named.weight + named.alpha * backbone.logit_scale * normalize(texts, dim=-1)
    return replace(named, weight=weight, alpha=0.0, names_alpha=named.alpha)
