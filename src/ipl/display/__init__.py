"""Tables, documents, plots and pages; nothing here depends on the method."""
