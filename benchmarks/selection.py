"""How long one traversal of the pool takes: whole prompts, the prefix cache, and the ratio.

    python benchmarks/selection.py [--classes 10] [--words 8900] [--naive-words 300]

Both sides run in this process on the same image features, in fp32, with PocketCLIP. The plain loop
does what a straightforward implementation does: for each word, tokenise one prompt per class, pad
to 77 tokens, run the whole text tower. It is timed on the first `--naive-words` words and scaled up
to the pool; the losses of those words are compared.
"""

from __future__ import annotations

import argparse
import json
import time

import torch
from torch.nn.functional import cross_entropy, normalize

from ipl.backbone import Backbone, load_backbone
from ipl.lexicon import Pool
from ipl.selection import CandidateScorer


def plain_loop(scorer: CandidateScorer, words: tuple[str, ...]) -> torch.Tensor:
    """Returns the loss of each word by whole prompts of 77 tokens."""
    backbone: Backbone = scorer.backbone
    losses = []
    for word in words:
        texts = [scorer.template.full(name, [word]) for name in scorer.class_names]
        tokens = backbone.tokenizer(
            texts, padding="max_length", max_length=backbone.positions, return_tensors="pt"
        )
        with torch.no_grad():
            hidden = backbone.clip.text_model(input_ids=tokens["input_ids"]).pooler_output
            features = normalize(backbone.clip.text_projection(hidden), dim=-1)
            logits = backbone.logit_scale * scorer.images @ features.T
            losses.append(cross_entropy(logits, scorer.labels))
    return torch.stack(losses)


def main() -> None:
    """Prints both times, their ratio and the largest difference between losses, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--words", type=int, default=8900)
    parser.add_argument("--naive-words", type=int, default=300)
    options = parser.parse_args()
    backbone = load_backbone("pocket", "cpu")
    words = Pool.bundled().words[: options.words]
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(options.classes).repeat_interleave(16)
    images = normalize(torch.randn(len(labels), backbone.feature_dim, generator=generator), dim=-1)
    names = words[:: len(words) // options.classes][: options.classes]  # any names will do
    scorer = CandidateScorer(backbone, names, images, labels)
    scorer.score([], words[:500])  # warm up

    started = time.perf_counter()
    ours = scorer.score([], words)
    ours_seconds = time.perf_counter() - started
    first = words[: options.naive_words]
    started = time.perf_counter()
    plain = plain_loop(scorer, first)
    plain_seconds = (time.perf_counter() - started) * len(words) / len(first)
    print(
        json.dumps(
            {
                "classes": options.classes,
                "words": len(words),
                "threads": torch.get_num_threads(),
                "plain_loop_seconds": round(plain_seconds, 1),
                "plain_loop_scaled_from_words": len(first),
                "prefix_cache_seconds": round(ours_seconds, 2),
                "ratio": round(plain_seconds / ours_seconds, 1),
                "largest_difference_of_losses": float((ours[: len(first)] - plain).abs().max()),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
