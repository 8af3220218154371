"""What several test files share: makers of small inputs, and checks of what comes out."""
