"""The names of a prompt and of what it must beat, in files, tables and sentences."""

from __future__ import annotations

ZERO_SHOT, LINEAR_PROBE, PROMPT = "zero-shot", "linear-probe", "prompt"
WITHOUT_WORDS = "without-words"  # the same layout and training, with empty slots
PLAIN_LEARNER = "plain"  # the published learner without words, which a report may train
# How a table and a sentence name each of them.
NAMES = {
    ZERO_SHOT: ("zero-shot CLIP", "zero-shot"),
    LINEAR_PROBE: ("linear probe", "a linear probe"),
    WITHOUT_WORDS: ("the same without words", "the same prompt without words"),
    PLAIN_LEARNER: ("learner without words", "the learner without words"),
    PROMPT: ("this prompt", "this prompt"),
}
ORDER = (ZERO_SHOT, WITHOUT_WORDS, PLAIN_LEARNER, LINEAR_PROBE)  # of the verdict
