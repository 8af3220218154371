"""What a prompt has learnt: a file for each question, with its numbers and how they are shown."""
