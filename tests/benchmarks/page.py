"""All tables of this folder's README: `python -m tests.benchmarks.page [--quick]`.

`--quick` shows that it runs: figures of one round mean nothing.
"""

import os
import platform
import subprocess
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
    sys.stdout.flush()
    # In a process of its own: what a child says of its memory is never less than its parent's.
    names = [word for name in providers for word in ("--provider", name)]
    rounds = ["--quick"] if quick else ["--rounds", "6"]
    command = [sys.executable, "-m", "tests.benchmarks.overhead", *rounds, *names]
    sys.exit(subprocess.run(command).returncode)


if __name__ == "__main__":
    main()
