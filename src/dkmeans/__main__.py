"""`python -m dkmeans`: the command line."""

from dkmeans.cli.entry import main

main()
