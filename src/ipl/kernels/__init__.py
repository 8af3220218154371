"""Triton versions of the operations in `ipl.backbone.ops`, which looks them up."""
