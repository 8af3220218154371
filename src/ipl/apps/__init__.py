"""Programs with a page or an HTTP interface: `serve`, `workbench`, and what they share."""
