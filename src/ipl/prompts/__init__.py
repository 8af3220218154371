"""Prompts as lists of segments: soft vectors, words, the class name and fixed text."""
