from pathlib import Path

import pytest

from tests.support.sizes import ROOT


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where an MCP shop notes its payments (tests/servers/mcp_shop.py)."""
    monkeypatch.chdir(ROOT)  # as a command, the shop finds its module there
    path = tmp_path / "ledger"
    monkeypatch.setenv("LEDGER", str(path))
    return path
