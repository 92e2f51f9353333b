"""What people start: the command line, and the experiments behind it."""
