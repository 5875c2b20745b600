"""The recorded exchanges with the real providers, where the folder is there; without it those tests
are skipped.
"""

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2].parent / "shared" / "wire"

needs_wire = pytest.mark.skipif(
    not ROOT.is_dir(), reason="the recorded exchanges (../shared/wire) are not here"
)


def cases(provider: str) -> list[str]:
    """The names of all recordings of a provider; empty where the folder is absent."""
    return sorted(path.stem for path in (ROOT / provider).glob("*.json"))


def load(provider: str, case: str) -> dict[str, Any]:
    """One recording: `request` (or None) and `response` with status, headers and body or stream."""
    return json.loads((ROOT / provider / f"{case}.json").read_text())
