"""The saved form of a learnt prompt: config.json, prompt.safetensors and a card."""
