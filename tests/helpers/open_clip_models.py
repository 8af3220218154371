"""Small open_clip models of the real architectures with random weights, as folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.helpers.open_clip_library import import_open_clip
from tests.helpers.tokenizers import write_tokenizer

TEXT = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2}
VISION = {"image_size": 64, "layers": 2, "width": 48, "patch_size": 16, "head_width": 24}
VIT = {"embed_dim": 24, "vision_cfg": VISION, "text_cfg": TEXT}
RESNET = {"image_size": 64, "layers": [1, 1, 1, 1], "width": 8, "head_width": 8, "patch_size": None}
TIMM = {"image_size": 160, "timm_model_name": "test_vit", "timm_pool": "avg"}
WORDS = {"context_length": 20, "vocab_size": 21521, "hf_tokenizer_name": "nobody/words"}
SIGLIP = {"no_causal_mask": True, "proj_bias": True, "pool_type": "last"}
SIGLIP |= {"norm_kwargs": {"eps": 1e-6}, "act_kwargs": {"approximate": "tanh"}}
CONFIGS: dict[str, dict[str, Any]] = {
    "vit": VIT,
    "quick-gelu": {**VIT, "quick_gelu": True},
    "resnet": {**VIT, "vision_cfg": RESNET},
    "timm": {**VIT, "vision_cfg": TIMM, "custom_text": True},
    "mobileclip": {**VIT, "custom_text": True, "text_cfg": {**TEXT, "no_causal_mask": True}},
    "worldwide": {**VIT, "text_cfg": {**TEXT, **WORDS, "pool_type": "eos", "eos_id": 21520}},
    "siglip": {
        **VIT,
        "custom_text": True,
        "init_logit_bias": -10,
        "text_cfg": {**TEXT, **WORDS, **SIGLIP, "tokenizer_kwargs": {"clean": "canonicalize"}},
    },
    "clipa": {
        **VIT,
        "vision_cfg": {
            **VISION,
            "no_ln_pre": True,
            "pool_type": "avg",
            "final_ln_after_pool": True,
        },
        "text_cfg": {
            **TEXT,
            **WORDS,
            "pool_type": "last",
            "no_causal_mask": True,
            "tokenizer_kwargs": {"strip_sep_token": True},
        },
    },
}
PREPROCESSING = {
    "mean": [0.1, 0.2, 0.3],
    "std": [0.4, 0.5, 0.6],
    "interpolation": "bilinear",
    "resize_mode": "squash",
}


def build(config: dict[str, Any], seed: int = 0) -> torch.nn.Module:
    """Returns open_clip's own model with random weights, in which every part matters."""
    open_clip = import_open_clip()
    values = json.loads(json.dumps(config))
    custom = values.pop("custom_text", False)
    torch.manual_seed(seed)
    model: torch.nn.Module = (open_clip.CustomTextCLIP if custom else open_clip.CLIP)(**values)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
        model.logit_scale.fill_(3.0)  # type: ignore[operator, union-attr]
        for name, buffer in model.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                buffer.add_(0.1 * torch.rand_like(buffer))
    return model.eval()


def write_model(folder: Path, kind: str, seed: int = 0) -> Path:
    """Writes a model as open_clip does for `local-dir:`; returns the folder."""
    config = CONFIGS[kind]
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: value.contiguous() for name, value in build(config, seed).state_dict().items()}
    save_file(state, folder / "open_clip_model.safetensors")
    values = {"model_cfg": config, "preprocess_cfg": PREPROCESSING}
    (folder / "open_clip_config.json").write_text(json.dumps(values))
    if "hf_tokenizer_name" in config["text_cfg"]:
        write_tokenizer(folder, opens=kind != "siglip", padding="!")
    return folder
