"""Where images come from: class names and lists of (path, label), nothing about models."""
