"""One frozen CLIP or SigLIP behind one interface: tokens, features, and where prompts enter."""
