"""Random CLIPs of a few rows, in which no norm is plain and no bias zero, so that a slip shows."""

from __future__ import annotations

import torch
from transformers import CLIPConfig, CLIPModel

from ipl.backbone.backbone import Backbone
from ipl.backbone.clip import ClipBackbone


def tiny_clip(
    pocket: Backbone,
    act: str,
    layers: int = 3,
    heads: int = 4,
    width: int = 48,
    wide: int = 80,
    device: str = "cpu",
) -> Backbone:
    """Returns a CLIP with a text tower of these sizes and PocketCLIP's tokenizer."""
    tower = {"intermediate_size": wide, "num_attention_heads": heads, "hidden_act": act}
    text = {"hidden_size": width, "num_hidden_layers": layers, "vocab_size": 21521}
    config = CLIPConfig(
        text_config={**tower, **text, "eos_token_id": pocket.eos, "bos_token_id": pocket.sos},
        vision_config={**tower, "hidden_size": 32, "num_hidden_layers": 1, "image_size": 32},
        projection_dim=40,
    )
    torch.manual_seed(7)
    clip = CLIPModel(config)
    with torch.no_grad():
        for name, parameter in clip.text_model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.5)
            elif "norm" in name:
                parameter.uniform_(0.3, 2.0)
            else:
                parameter.mul_(3)  # so that attention is not uniform
    return ClipBackbone(f"tiny {act}", clip, pocket.tokenizer, pocket.preprocessing, device)
