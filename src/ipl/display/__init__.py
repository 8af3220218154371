"""How things are shown: tables, documents, plots, pages. Knows nothing of the method."""
