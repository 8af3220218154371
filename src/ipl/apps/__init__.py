"""Programs with a page or an HTTP interface: `serve`, `rate`, `workbench`, and what they share."""
