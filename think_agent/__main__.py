"""`python -m think_agent` is the command `think-agent`."""

import sys

from .cli import main

sys.exit(main())
