"""Loggers: where the numbers, words and files of a run are written while it is done."""
