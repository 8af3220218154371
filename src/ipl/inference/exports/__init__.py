"""A learnt prompt for other programs, one file per target of `ipl export --to`."""
