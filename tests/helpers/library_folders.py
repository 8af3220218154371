"""Small MetaCLIP 2 and SigLIP models with random weights, saved as transformers saves them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
import transformers

from ipl.backbone.families import POCKET_FOLDER
from tests.helpers.tokenizers import write_tokenizer

SIZE, POSITIONS, WIDTH, EOS = 32, 20, 32, 21520
TOWER = {"hidden_size": WIDTH, "intermediate_size": 64}
TOWER |= {"num_hidden_layers": 2, "num_attention_heads": 2}
TEXT = {**TOWER, "vocab_size": 21521, "max_position_embeddings": POSITIONS}
VISION = {**TOWER, "image_size": SIZE, "patch_size": 8}


def write_model(folder: Path, kind: str) -> Path:
    """Writes a model with PocketCLIP's words, in which no norm is plain and no bias zero."""
    special: dict[str, Any] = {"eos_token_id": EOS, "pad_token_id": 1, "bos_token_id": EOS - 1}
    values = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 2}
    torch.manual_seed(0)
    if kind == "siglip":
        special |= {"pad_token_id": EOS, "bos_token_id": None, "projection_size": WIDTH}
        config = transformers.SiglipConfig(text_config={**TEXT, **special}, vision_config=VISION)
        model: Any = transformers.SiglipModel(config)
        values |= {"do_normalize": True, "do_rescale": True, "do_resize": True}
        values["image_processor_type"] = "SiglipImageProcessor"
        values["size"] = {"height": SIZE, "width": SIZE}
        write_tokenizer(folder, opens=False)
    else:
        text = {**TEXT, **special, "hidden_act": "gelu"}
        config = transformers.MetaClip2Config(
            text_config=text, vision_config=VISION, projection_dim=24
        )
        model = transformers.MetaClip2Model(config)
        values |= {"size": {"shortest_edge": SIZE}, "crop_size": SIZE}
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(POCKET_FOLDER / file, folder)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
        model.logit_scale.fill_(3.0)
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(values))
    return folder
