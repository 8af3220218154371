"""One frozen CLIP: tokens, features, the places where prompts enter, and the prefix cache."""
