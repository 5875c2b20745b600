"""What all tests of the providers rely on."""

import os

import pytest

OF_PROVIDERS = ("ANTHROPIC_", "OPENAI_", "GOOGLE_", "GEMINI_", "OLLAMA_")


@pytest.fixture(autouse=True)
def _no_keys_but_ours(monkeypatch, tmp_path):
    """No key and no address comes from the environment of whoever runs the tests."""
    for name in list(os.environ):
        if name.startswith(OF_PROVIDERS):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))  # one SDK looks for profiles there
