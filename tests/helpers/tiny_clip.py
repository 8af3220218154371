"""Random CLIPs of a few rows, in which no norm is plain and no bias zero, so that a slip shows."""

from __future__ import annotations

import torch
from transformers import CLIPConfig, CLIPModel

from ipl.backbone.backbone import Backbone
from ipl.backbone.clip import ClipBackbone


def tiny_clip(
    pocket: Backbone,
    act: str = "quick_gelu",
    layers: int = 3,
    image_layers: int = 2,
    heads: int = 4,
) -> Backbone:
    """Returns a CLIP with towers of these depths and PocketCLIP's tokenizer."""
    tower = {"intermediate_size": 80, "num_attention_heads": heads, "hidden_act": act}
    text = {"hidden_size": 48, "num_hidden_layers": layers, "vocab_size": 21521}
    vision = {"hidden_size": 32, "num_hidden_layers": image_layers, "patch_size": 16}
    config = CLIPConfig(
        text_config={**tower, **text, "eos_token_id": pocket.eos, "bos_token_id": pocket.sos},
        vision_config={**tower, **vision, "image_size": 64},
        projection_dim=40,
    )
    torch.manual_seed(7)
    clip = CLIPModel(config).eval()
    with torch.no_grad():
        for name, parameter in clip.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.5)
            elif "norm" in name:
                parameter.uniform_(0.3, 2.0)
            elif name.startswith("text_model"):
                parameter.mul_(3)  # so that attention is not uniform
    return ClipBackbone(f"tiny {act}", clip, pocket.tokenizer, pocket.preprocessing)
