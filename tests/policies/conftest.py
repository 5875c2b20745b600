"""Where a conversation is kept."""

import pytest


@pytest.fixture(params=["memory", "file"])
def saved(request, tmp_path):
    """The path of the transcript; None if it is kept in memory."""
    return tmp_path / "run.jsonl" if request.param == "file" else None
