"""How methods are compared: protocols, runs and their records, engines, tables."""
