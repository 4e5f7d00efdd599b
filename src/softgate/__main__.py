"""`python -m softgate`, the same as the command `softgate`."""

import sys

from softgate.cli import main

if __name__ == "__main__":
    sys.exit(main())
