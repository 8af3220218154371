"""What every room may use: errors, files, the disk cache, progress, names on the hub."""
