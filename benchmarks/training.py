"""Measures a training step of each learner: a straightforward version, ours, their ratio.

    python benchmarks/training.py --model pocket --classes 50
    python benchmarks/training.py --model vit-b16 --device cuda --classes 50,500

Both sides train the same learner on the same crops in this process, at the learner's own batch
size, in fp16 on a GPU and in fp32 on a CPU. The straightforward side does what research code does:
prompts of 77 tokens, the image tower in the loop, one kernel after another. Ours is a step of
`ipl fit` with its bank of crops. Neither side reads files: the crops are bytes in memory. CoCoOp is
also timed in evaluation: the straightforward side takes one image at a time, ours takes batches.
Class names are as long as ImageNet's. With --plain-torch, a GPU computes without ipl's kernels.
Peaks are the memory that the process reserved on a GPU or, on a CPU, its
resident memory beyond what it held before.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from common import build, long_class_names, synchronise
from torch import Tensor
from torch.nn.functional import normalize, pad

from ipl.backbone import backbone as backbone_module
from ipl.backbone import ops
from ipl.backbone.backbone import Backbone
from ipl.backbone.features import to_device
from ipl.backbone.tower import DeepPrompts
from ipl.learners.learner import Batch, Learner
from ipl.learners.registry import learner_class
from ipl.support.progress import Reporter
from ipl.training.loop import new_optimiser
from ipl.training.step import TrainingStep, make_step
from ipl.training.views import BankedViews, from_bank
from ipl.words.pool import Pool

LEARNERS = "coop,kgcoop,cocoop,maple,promptsrc"
IMAGES = 256
WORDS = ("social", "visit", "blue")
EVERYTHING, PARTS = 1 << 60, backbone_module.ACTIVATION_BYTES
TESTED = 64  # images of CoCoOp's evaluation


@dataclass(frozen=True)
class Measurement:
    """The results of one learner with a number of words and classes; times in milliseconds."""

    learner: str
    words: int
    classes: int
    batch: int
    plain_ms: float
    ours_ms: float
    plain_gib: float
    ours_gib: float
    difference: float  # of the two sides' first losses, relative

    @property
    def ratio(self) -> float:
        """Returns how many times faster ours is."""
        return self.plain_ms / self.ours_ms


def run_whole_prompts(learner: Learner) -> None:
    """Lets a learner run its prompts as research code does: 77 tokens each, by the library."""
    backbone, prompts = learner.backbone, learner.prompts
    clip: Any = backbone.model
    endings, text = prompts.endings, clip.text_model
    own = endings.padded.view(len(endings.lengths), -1)
    beginning = torch.arange(endings.shared, device=backbone.device)
    index = torch.cat([beginning.expand(len(own), -1), own], dim=1)
    eos = endings.last - torch.tensor(endings.starts[:-1], device=backbone.device) + endings.shared
    positions = text.embeddings.position_embedding.weight

    def encode_prompts(soft: Tensor, deep: Tensor | None = None) -> Tensor:
        rows = prompts.assemble(soft if soft.ndim == 3 else soft[None])[:, index].flatten(0, 1)
        rows = pad(rows, (0, 0, 0, backbone.positions - rows.shape[1])).to(backbone.dtype)
        rows = rows + positions
        hook = DeepPrompts(learner.group_row, () if deep is None else deep.unbind())
        for number, layer in enumerate(text.encoder.layers):
            rows = layer(hook(number, rows), None, is_causal=True)
        at = eos.repeat(len(rows) // len(eos))
        rows = text.final_layer_norm(rows[torch.arange(len(rows), device=backbone.device), at])
        features = normalize(clip.text_projection(rows).float(), dim=-1)
        return features.unflatten(0, (len(soft), -1)) if soft.ndim == 3 else features

    learner.encode_prompts = encode_prompts  # type: ignore[method-assign]


class Bench:
    """A backbone, and images to train on."""

    def __init__(self, backbone: Backbone, classes: int) -> None:
        self.backbone, self.names = backbone, long_class_names(Pool.bundled().words, classes)
        generator = torch.Generator().manual_seed(0)
        edge = backbone.preprocessing.crop
        self.pixels = torch.randint(
            256, (IMAGES, edge, edge, 3), dtype=torch.uint8, generator=generator
        )
        self.labels = torch.randint(classes, (IMAGES,), generator=generator).to(backbone.device)
        with torch.no_grad():
            self.features = torch.cat([self.encode(part) for part in self.pixels.split(64)])

    @torch.no_grad()
    def encode(self, pixels: Tensor) -> Tensor:
        """Returns the features of the frozen image tower for images as bytes."""
        return normalize(self.backbone.encode_image(to_device(self.backbone, pixels)), dim=-1)

    def learner(self, name: str, words: int, straightforward: bool) -> Learner:
        """Returns a learner with all its words in place."""
        kind = learner_class(name)
        learner = kind.from_hyperparameters(
            self.backbone, self.names, words, kind.hyperparameters(words)
        )
        for word in WORDS[:words]:
            learner.place_word(word)
        if straightforward:
            run_whole_prompts(learner)
        return learner

    def plain_batch(self, kind: type[Learner], indices: Tensor) -> Batch:
        """Returns a batch whose image features are computed in the step."""
        pixels = to_device(self.backbone, self.pixels[indices])
        features = None
        if kind.wants_features:
            with torch.no_grad():
                features = normalize(self.backbone.encode_image(pixels), dim=-1)
        labels = self.labels[indices.to(self.labels.device)]
        return Batch(labels, features, pixels if kind.prompts_images else None)

    def views(self, kind: type[Learner]) -> BankedViews:
        """Returns a bank of one crop of each image."""
        features = self.features[None] if kind.wants_features else None
        pixels = from_bank(self.pixels[None]) if kind.prompts_images else None
        return BankedViews(self.backbone, self.labels, 1, features, pixels)

    def side(
        self, name: str, words: int, straightforward: bool, seconds: float
    ) -> tuple[float, float, float]:
        """Returns the milliseconds per step of a side, its peak in GiB, and its first loss."""
        device = self.backbone.device
        held = reset_peak(device)
        learner = self.learner(name, words, straightforward)
        # Research code does not run its text tower in parts.
        backbone_module.ACTIVATION_BYTES = EVERYTHING if straightforward else PARTS
        kind, size = type(learner), learner.hyperparameters(words).batch
        optimiser = new_optimiser(learner, 1e-5)
        views = self.views(kind)
        see: Callable[[Tensor], Batch] = lambda indices: next(views.batches([(0, indices)]))  # noqa: E731
        if straightforward:
            see = lambda indices: self.plain_batch(kind, indices)  # noqa: E731
        order = [torch.arange(start, start + size) % IMAGES for start in range(0, 64 * size, size)]
        first = see(order[0])
        with torch.no_grad():
            loss = float(learner.loss(first))
        step = TrainingStep(learner, optimiser)
        if not straightforward:
            step = make_step(learner, optimiser, first, Reporter())
        each = per_call([lambda i=i: step(see(i)) for i in order], device, seconds)
        return 1000 * each, peak(device, held), loss

    def measure(self, name: str, words: int, seconds: float) -> Measurement:
        """Returns both sides of one learner."""
        plain, plain_gib, expected = self.side(name, words, True, seconds)
        ours, ours_gib, loss = self.side(name, words, False, seconds)
        classes, size = len(self.names), learner_class(name).hyperparameters(words).batch
        difference = abs(loss - expected) / max(abs(expected), 1e-6)
        return Measurement(name, words, classes, size, plain, ours, plain_gib, ours_gib, difference)

    @torch.no_grad()
    def evaluation(self, words: int, seconds: float) -> Measurement:
        """Returns the milliseconds per image of CoCoOp's evaluation, for both sides."""
        device, found = self.backbone.device, []
        for straightforward in (True, False):
            held = reset_peak(device)
            learner = self.learner("cocoop", words, straightforward)
            parts = self.pixels[:TESTED].split(1 if straightforward else TESTED)
            logits = torch.cat([learner.logits(self.encode(part)) for part in parts])
            calls = [lambda part=part, le=learner: le.logits(self.encode(part)) for part in parts]
            each = per_call(calls, device, seconds) / (TESTED / len(parts))
            found.append((1000 * each, peak(device, held), logits))
        (plain, plain_gib, expected), (ours, ours_gib, logits) = found
        difference = float((logits - expected).abs().max() / expected.abs().max())
        return Measurement(
            "cocoop, evaluation",
            words,
            len(self.names),
            TESTED,
            plain,
            ours,
            plain_gib,
            ours_gib,
            difference,
        )


def per_call(calls: Sequence[Callable[[], Any]], device: torch.device, seconds: float) -> float:
    """Returns the mean seconds of a call, over rounds that last about the given time."""
    at_once = 16 if device.type == "cuda" else 1  # between two looks at the clock
    for call in calls[: min(3, at_once)]:
        call()
    synchronise(device)
    started, done = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        for call in calls[:at_once]:
            call()
        done += len(calls[:at_once])
        synchronise(device)
    return (time.perf_counter() - started) / done


def reset_peak(device: torch.device) -> float:
    """Resets the peak; returns the GiB that are held now."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        return 0.0
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak starts anew
    return _resident("VmRSS")


def peak(device: torch.device, held: float) -> float:
    """Returns the peak in GiB since it was reset."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved() / 2**30
    return _resident("VmHWM") - held


def _resident(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 2**20


def table(found: Sequence[Measurement]) -> str:
    """Returns the measurements as a Markdown table."""
    lines = [
        "| learner | classes | batch | words | straightforward, ms | ours, ms | ratio "
        "| words add, % | peak: straightforward, ours, GiB | loss difference |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    without = {(m.learner, m.classes): m.ours_ms for m in found if not m.words}
    for m in found:
        before = without.get((m.learner, m.classes))
        more = f"{100 * (m.ours_ms / before - 1):+.0f}" if m.words and before else ""
        lines.append(
            f"| {m.learner} | {m.classes} | {m.batch} | {m.words} | {m.plain_ms:.2f} "
            f"| {m.ours_ms:.2f} | {m.ratio:.1f} | {more} "
            f"| {m.plain_gib:.2f}, {m.ours_gib:.2f} | {m.difference:.0e} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=["pocket", "vit-b16"], default="pocket")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--classes", default="50", help="numbers with commas between")
    parser.add_argument("--learners", default=LEARNERS, help="names with commas between")
    parser.add_argument("--words", default="0,3", help="numbers with commas between")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each side is timed")
    parser.add_argument("--plain-torch", action="store_true", help="leave the kernels out")
    options = parser.parse_args()
    if options.plain_torch:
        ops.find_kernels = lambda *_: None
    precision = "fp16" if options.device == "cuda" else "fp32"
    backbone = build(options.model, options.device, precision)
    found: list[Measurement] = []

    def add(measurement: Measurement) -> None:
        found.append(measurement)
        print(table(found).splitlines()[-1], flush=True)

    for classes in map(int, options.classes.split(",")):
        bench = Bench(backbone, classes)
        for name in options.learners.split(","):
            for words in map(int, options.words.split(",")):
                add(bench.measure(name, words, options.seconds))
                if name == "cocoop":
                    add(bench.evaluation(words, options.seconds))
    where = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    threads = torch.get_num_threads()
    print(
        f"\n{options.model}, {where}, torch {torch.__version__}, {threads} threads, {precision}\n"
    )
    print(table(found))


if __name__ == "__main__":
    main()
