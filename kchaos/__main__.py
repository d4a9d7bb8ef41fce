"""`python -m kchaos` is the command `kchaos`."""

from kchaos import main

main()
