"""The protocols: a class and a file each. A new one is a file and its line in `registry.py`."""
