"""How much a model can be asked to reason: what is known before a request.

Rule 1: `off`, `low`, `medium` and `high` mean the same everywhere, or are refused before the
        request, in one line.
Rule 2: where the provider tells, it is asked (Anthropic, Ollama: `Provider.learn`). Where it does
        not, the tables here know (OpenAI, Gemini). A model that nobody knows is tried; then the
        provider's refusal is one line.

The tables are of 2026-11-23: the providers' pages, and what pydantic-ai 2.68 has tried on the live
APIs. A name that begins with a row's pattern has its levels; the first row that fits counts.
"""

import re
from collections.abc import Sequence

from ..wire.settings import Reasoning

Levels = Sequence[Reasoning]
Table = Sequence[tuple[str, Levels]]

ALL: Levels = ("off", "low", "medium", "high")
ALWAYS: Levels = ("low", "medium", "high")

OPENAI: Table = (
    (r"gpt-5\.[245]-pro", ("medium", "high")),
    (r"gpt-5\.[123]-chat", ("medium",)),
    ("gpt-5-pro", ("high",)),
    ("gpt-5-chat|gpt-4|gpt-3|chatgpt", ()),
    (r"gpt-6-astra|gpt-6\.1-sol|gpt-5\.1-codex", ALWAYS),
    (r"gpt-6-|gpt-6\.1-terra|gpt-5\.[1-6]", ALL),
    ("gpt-5|o1|o3|o4", ALWAYS),
)
GEMINI: Table = (
    ("gemini-3-pro", ("low", "high")),
    (r"gemini-4-(argon|carbon)|gemini-3\.[78]-flash|gemini-(3\.1|2\.5)-pro", ALWAYS),
    (r"gemini-2\.5-flash-image|gemini-2\.0|gemini-1|gemma", ()),
    (r"gemini-2\.5", ALL),
)


def check_level(
    model: str, asked: Reasoning | None, levels: Levels, error: type[Exception] = ValueError
) -> None:
    """Raises `error` where a model that can reason at these levels was asked otherwise."""
    if asked is not None and asked not in levels:
        possible = ", ".join([*levels, "none at all"])
        raise error(f"{model} takes no reasoning={asked!r}; use one of: {possible}")


def check_reasoning(model: str, asked: Reasoning | None, table: Table) -> None:
    """Raises ValueError where the table knows that the model cannot be asked so."""
    for beginning, levels in table:
        if re.match(beginning, model):
            check_level(model, asked, levels)
            return
