"""The commands of the project as a user runs them: in a process of their own, without the settings
of whoever runs the tests, and with no Ollama to be found.
"""

import os
import subprocess
import sys

from tests.readme import ROOT


def run(*words: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """`python WORDS` at the root of the project."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("THINK_AGENT_", "OLLAMA_"))}
    return subprocess.run(
        [sys.executable, *words],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**clean, "OLLAMA_HOST": "127.0.0.1:9", **env},
        timeout=60,
        check=False,
    )
