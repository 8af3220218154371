"""`python -m ipl` is the command `ipl`."""

from ipl.cli.main import main

main()
