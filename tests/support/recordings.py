"""Recorded exchanges with the real providers. Without their folder these tests are skipped."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.servers import Reply

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


def replayed(provider: str, case: str) -> Reply:
    """The recorded response, in pieces if it was streamed. A header says not to retry."""
    response = load(provider, case)["response"]
    headers = {**response["headers"], "x-should-retry": "false"}
    kind = headers.pop("content-type")
    if "stream" not in response:
        return Reply(response["status"], response["body"], None, kind, headers)
    raw = response["stream"].encode()
    chunks = [raw[at : at + 1000] for at in range(0, len(raw), 1000)]
    return Reply(response["status"], None, chunks, kind, headers)


def events_of(provider: str, case: str) -> list[dict[str, Any]]:
    """The JSON of a recorded stream, event by event (or line by line)."""
    lines = load(provider, case)["response"]["stream"].splitlines()
    data = (line.removeprefix("data: ") for line in lines)
    return [json.loads(line) for line in data if line.startswith("{")]
