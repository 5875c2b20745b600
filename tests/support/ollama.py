"""What a real Ollama 0.34.4 said to bodies of `Ollama.to_wire`, kept in `tests/data/ollama/`."""

import json
from functools import cache
from typing import Any

from tests.support.sizes import ROOT


@cache
def recorded(name: str) -> Any:
    """The answers in one file."""
    path = ROOT / "tests/data/ollama" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))
