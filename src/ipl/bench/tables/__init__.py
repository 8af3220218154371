"""Tables of run records, with the paper's numbers beside ours where they may stand there."""
