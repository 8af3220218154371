"""The saved form of a learnt prompt: config.json, prompt.safetensors and a card."""

from ipl.saving.card import model_card
from ipl.saving.format import FORMAT_VERSION, SavedPrompt, check_target, read_run, write_run

__all__ = [
    "FORMAT_VERSION",
    "SavedPrompt",
    "check_target",
    "model_card",
    "read_run",
    "write_run",
]
