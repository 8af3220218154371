"""`python -m ipl` is the command `ipl`."""

import os
import signal


def main() -> None:
    """Runs the command; Ctrl-C while its modules are imported ends it at once."""

    def stop(*_: object) -> None:
        os.write(2, b"\nstopped.\n")
        os._exit(130)

    before = signal.getsignal(signal.SIGINT)
    if before != signal.SIG_IGN:  # as it is in background jobs of a script
        signal.signal(signal.SIGINT, stop)
    from ipl.cli.main import main as run

    signal.signal(signal.SIGINT, before)
    run()


if __name__ == "__main__":
    main()
