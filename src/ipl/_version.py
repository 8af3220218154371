"""The version, stated once."""

__version__ = "0.3.0.dev0"
