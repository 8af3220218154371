"""Where images come from: class names and lists of (path, label), and nothing about models."""
