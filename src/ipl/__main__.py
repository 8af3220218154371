"""`python -m ipl` is the command `ipl`."""

from ipl.cli.main import main

if __name__ == "__main__":
    main()
