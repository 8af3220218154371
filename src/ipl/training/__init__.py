"""Training the soft vectors: Algorithm 1, its schedule, its views of images, its checkpoints."""
