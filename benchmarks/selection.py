"""Measures one traversal of the pool: the plain loop, ours, their ratio and the floor.

    python benchmarks/selection.py --model pocket --classes 10
    python benchmarks/selection.py --model vit-b16 --device cuda --classes 10,50,100,500

Both sides run in this process on the same image features, 16 per class. The plain loop does what a
straightforward implementation does: for each word it tokenises one prompt per class, pads it to 77
tokens and runs the whole text tower, in half precision on a GPU and in fp32 on a CPU. It is timed
for at most --plain-seconds, and its time is scaled up to the whole pool. Ours is a step of the
exact search after a warm-up: features, losses, and the finalists again in fp32 where the search
begins in half precision. With --plain-torch, a GPU computes without the search's own kernels.
The best words of either side are scored again by the plain loop in fp32 and then compared. The
floor is the time for the matrix products that cannot be avoided, at the rate of one large product
that is measured in the same process.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import build, class_names, process_peak, synchronise, timed
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from ipl.backbone import ops
from ipl.backbone.backbone import Backbone
from ipl.backbone.clip import ClipBackbone
from ipl.words.gain import UTILITIES, Objective
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer
from ipl.words.search import score_words

SHOTS = 16
GPU_SECONDS = 2.0  # that a traversal is repeated for on a GPU


@dataclass(frozen=True)
class Measurement:
    """The results for one number of classes."""

    classes: int
    words: int
    precision: str
    plain_seconds: float
    plain_words: int  # that the plain loop was timed on
    ours_seconds: float
    exhaustive_seconds: float | None  # every word in fp32
    ratio: float
    floor_seconds: float
    peak_gib: float
    checked: int  # words that were scored in fp32
    best_word: str
    plain_best_word: str
    largest_loss_difference: float  # of the best twenty, from the plain loop in fp32


def task(
    backbone: Backbone, words: Sequence[str], classes: int
) -> tuple[list[str], Tensor, Tensor]:
    """Returns class names of one and two words, image features near their texts, and labels."""
    names = class_names(words, classes)
    texts = torch.cat([backbone.encode_texts([f"a photo of a {name}"]) for name in names])
    texts = normalize(texts, dim=-1).cpu()
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(classes).repeat_interleave(SHOTS)
    noise = torch.randn(len(labels), texts.shape[1], generator=generator)
    return names, normalize(texts[labels] + noise / 10, dim=-1), labels


def plain_loop(
    backbone: Backbone, scorer: SentenceScorer, words: Sequence[str], half: bool, most: float
) -> tuple[Tensor, float]:
    """Returns the losses of as many words as fit into the time, and the seconds per word."""
    device = backbone.device
    if half:
        clip = copy.deepcopy(backbone.model)
        backbone = ClipBackbone("half", clip, backbone.tokenizer, None, device, "fp16")
    images = scorer.cross_entropy.images.to(backbone.dtype)

    @torch.no_grad()
    def loss(word: str) -> Tensor:
        texts = [scorer.template.full(name, [word]) for name in scorer.class_names]
        tokens = backbone.tokenizer(
            texts, padding="max_length", max_length=backbone.positions, return_tensors="pt"
        )
        ids = tokens["input_ids"].to(device)
        eos = (ids == backbone.eos).int().argmax(1)
        rows = backbone.model.text_model(input_ids=ids).last_hidden_state
        rows = rows[torch.arange(len(rows), device=device), eos]
        features = normalize(backbone.model.text_projection(rows).float(), dim=-1)
        logits = backbone.logit_scale * images @ features.to(images.dtype).T
        return cross_entropy(logits.float(), scorer.cross_entropy.labels)

    loss(words[0])  # kernels are loaded
    synchronise(device)
    losses: list[Tensor] = []
    started = time.perf_counter()
    for word in words:
        losses.append(loss(word))
        if len(losses) % 16 == 0:
            synchronise(device)
            if time.perf_counter() - started > most:
                break
    synchronise(device)
    seconds = (time.perf_counter() - started) / len(losses)
    return torch.stack(losses).cpu(), seconds


def floor(backbone: Backbone, prefix: int, classes: int, words: int, half: bool) -> float:
    """Returns the seconds for the products that the candidate and EOS rows need in any case."""
    width, layers = backbone.text_width, backbone.text_layers
    wide = int(backbone.model.config.text_config.intermediate_size)
    mixing = 2 * 2 * width * (prefix + 2)  # attention of one row: scores and mixture
    row = 2 * (4 * width * width + 2 * width * wide) + mixing
    last = 2 * (6 * width * width + 2 * width * wide) + mixing  # two keys and values, one EOS row
    pair = 2 * row * (layers - 1) + last + 2 * width * backbone.feature_dim
    dtype = torch.float16 if half else torch.float32
    a = torch.randn(65536 if half else 4096, width, device=backbone.device, dtype=dtype)
    b = torch.randn(width, wide, device=backbone.device, dtype=dtype)
    many = 20
    _, seconds = timed(lambda: [a @ b for _ in range(many)], backbone.device, 3)
    rate = 2 * a.shape[0] * width * wide * many / seconds
    return pair * classes * words / rate


def measure(backbone: Backbone, words: tuple[str, ...], classes: int, options: Any) -> Measurement:
    """Returns the times and results of both sides for one number of classes."""
    device = backbone.device
    half = device.type == "cuda"
    names, images, labels = task(backbone, words, classes)
    objective = Objective(utility=options.utility)
    scorer = SentenceScorer(backbone, names, images, labels, objective=objective)

    def search(mode: str) -> np.ndarray[Any, Any]:
        losses, _ = score_words(mode, scorer, words, (), np.zeros(len(words)), lambda _: None)
        return losses.sum(1)

    times = 1
    if half:
        search("exact")  # warm up: compile, allocate
        torch.cuda.reset_peak_memory_stats()
        _, once = timed(lambda: search("exact"), device, 1)
        times = max(3, int(GPU_SECONDS / once))  # short ones vary more
    else:
        scorer.score([], words[:500])
    ours, seconds = timed(lambda: search("exact"), device, times)
    peak = torch.cuda.max_memory_allocated() / 2**30 if half else 0.0
    if not half:
        peak = process_peak()
    exhaustive = None
    if not options.no_exhaustive:
        _, exhaustive = timed(lambda: search("exhaustive"), device, 1)
    plain, each = plain_loop(backbone, scorer, words, half, options.plain_seconds)
    top = np.argsort(np.nan_to_num(ours, nan=np.inf))[:20]
    finalists = sorted({*top.tolist(), *plain.argsort()[:20].tolist()})
    again, _ = plain_loop(backbone, scorer, [words[i] for i in finalists], False, 1e9)
    exact = dict(zip(finalists, again.tolist(), strict=True))
    prefix = max(len(backbone.tokenize(scorer.template.before(name))) for name in names) + 1
    return Measurement(
        classes=classes,
        words=len(words),
        precision="fp16" if half else "fp32",
        plain_seconds=each * len(words),
        plain_words=len(plain),
        ours_seconds=seconds,
        exhaustive_seconds=exhaustive,
        ratio=each * len(words) / seconds,
        floor_seconds=floor(backbone, prefix, classes, len(words), half),
        peak_gib=peak,
        checked=int(np.isfinite(ours).sum()),
        best_word=words[int(top[0])],
        plain_best_word=words[min(exact, key=exact.__getitem__)],
        largest_loss_difference=max(abs(exact[i] - ours[i]) for i in top.tolist()),
    )


def table(measurements: Sequence[Measurement]) -> str:
    """Returns the measurements as a Markdown table."""
    lines = [
        "| classes | plain loop, s | ours, s | ratio | floor, s | all in fp32, s "
        "| peak, GiB | checked | best word: plain, ours | loss difference |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for m in measurements:
        every = f"{m.exhaustive_seconds:.2f}" if m.exhaustive_seconds else "-"
        lines.append(
            f"| {m.classes} | {m.plain_seconds:.1f} | {m.ours_seconds:.3f} | {m.ratio:.0f} "
            f"| {m.floor_seconds:.3f} | {every} | {m.peak_gib:.2f} | {m.checked} "
            f"| {m.plain_best_word}, {m.best_word} | {m.largest_loss_difference:.1e} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Prints a table; with --json, also writes a JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=["pocket", "vit-b16"], default="pocket")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--classes", default="10", help="numbers with commas between")
    parser.add_argument("--words", type=int, default=8900)
    parser.add_argument("--plain-seconds", type=float, default=60.0)
    parser.add_argument("--no-exhaustive", action="store_true")
    parser.add_argument("--plain-torch", action="store_true", help="leave the kernels out")
    parser.add_argument("--utility", choices=UTILITIES, default="paper")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.plain_torch:
        ops.find_kernels = lambda *_: None
    backbone = build(options.model, options.device)
    words = Pool.bundled().words[: options.words]
    measurements = []
    for classes in map(int, options.classes.split(",")):
        measurements.append(measure(backbone, words, classes, options))
        print(table(measurements[-1:]).splitlines()[-1], flush=True)
    where = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    threads = torch.get_num_threads()
    print(f"\n{options.model}, {where}, torch {torch.__version__}, {threads} threads\n")
    print(table(measurements))
    if options.json:
        values = {"model": options.model, "device": where, "torch": torch.__version__}
        values["measurements"] = [asdict(m) for m in measurements]
        options.json.write_text(json.dumps(values, indent=2) + "\n")


if __name__ == "__main__":
    main()
