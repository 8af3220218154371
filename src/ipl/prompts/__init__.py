"""Prompts as lists of segments: which row of which class is soft, a word, a name or fixed."""
