"""What the benchmarks share: backbones, class names, timing and peak memory."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ipl.backbone.backbone import Backbone
from ipl.backbone.clip import ClipBackbone
from ipl.backbone.loading import load_backbone

VIT_B16 = 224  # pixels along an edge


def build(model: str, device: str, precision: str = "fp32") -> Backbone:
    """Returns PocketCLIP, or ViT-B/16 with random weights and PocketCLIP's tokenizer."""
    pocket = load_backbone("pocket", device, precision)
    if model == "pocket":
        return pocket
    from transformers import CLIPConfig, CLIPModel

    torch.manual_seed(0)
    ids = {"bos_token_id": pocket.sos, "eos_token_id": pocket.eos}
    vision = {"patch_size": 16, "image_size": VIT_B16}
    clip = CLIPModel(CLIPConfig(text_config={"vocab_size": 49408, **ids}, vision_config=vision))
    clip.logit_scale.data.fill_(np.log(100.0))
    preprocessing = replace(pocket.preprocessing, resize=VIT_B16, crop=VIT_B16)
    return ClipBackbone(model, clip, pocket.tokenizer, preprocessing, device, precision)


def class_names(words: Sequence[str], classes: int) -> list[str]:
    """Returns `classes` names of one or two words each."""
    names = list(words[:: len(words) // classes][:classes])
    names[::3] = [f"{name} {words[-1 - i]}" for i, name in enumerate(names[::3])]
    return names


def long_class_names(words: Sequence[str], classes: int) -> list[str]:
    """Returns `classes` names with as many tokens as those of ImageNet: 1 to 7, 2.2 on average."""
    sizes = [1] * 24 + [2] * 51 + [3] * 16 + [4] * 5 + [5] * 2 + [6, 7]
    names, step = [], max(1, len(words) // classes)
    for index in range(classes):
        size = sizes[37 * index % len(sizes)]
        rest = [words[-1 - (7 * index + place) % len(words)] for place in range(size - 1)]
        names.append(" ".join([words[index * step], *rest]))
    return names


def synchronise(device: torch.device) -> None:
    """Waits until the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def timed(run: Callable[[], Any], device: torch.device, times: int) -> tuple[Any, float]:
    """Returns the last result and the shortest time of several calls, in seconds."""
    best = float("inf")
    for _ in range(times):
        synchronise(device)
        started = time.perf_counter()
        result = run()
        synchronise(device)
        best = min(best, time.perf_counter() - started)
    return result, best


def process_peak() -> float:
    """Returns the largest resident memory of this process so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
