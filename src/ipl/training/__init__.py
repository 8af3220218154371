"""Training the soft vectors: the fit, Algorithm 1, its schedule, views and checkpoints."""
