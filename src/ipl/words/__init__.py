"""The pool of candidate words, and the search that chooses from it."""
