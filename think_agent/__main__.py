"""`python -m think_agent` is the command `think-agent`."""

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
