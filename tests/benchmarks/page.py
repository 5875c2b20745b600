"""All tables of this folder's README: `python -m tests.benchmarks.page [--quick]`.

`--quick` shows that it runs: figures of one round mean nothing.
"""

import os
import platform
import sys
from datetime import date

from tests.benchmarks import core, overhead


def main() -> None:
    quick = "--quick" in sys.argv
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}"
    print(f"Measured {date.today()}, Python {platform.python_version()}, {machine}.\n")
    providers = overhead.PROVIDERS[-1:] if quick else overhead.PROVIDERS
    for table in core.tables(1 if quick else 5, quick=quick):
        print(f"{table}\n")
    for table in overhead.tables(providers, 1 if quick else 6):
        print(f"{table}\n")


if __name__ == "__main__":
    main()
