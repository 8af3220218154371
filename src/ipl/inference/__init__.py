"""Using a trained classifier: streaming predictions, and exports for other programs."""
