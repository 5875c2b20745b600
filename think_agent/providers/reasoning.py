"""The levels of reasoning that a model supports, as far as they're known before a request.

Rule 1: `off`, `low`, `medium` and `high` mean the same for every provider. An unsupported level is
        an error before the request, in one line.
Rule 2: Anthropic and Ollama can be asked what a model supports (`Provider.learn`). For OpenAI and
        Gemini there are tables here. An unknown model is tried; if the provider refuses, that's an
        error in one line.

The tables come from the providers' pages and from pydantic-ai 2.68's tests against the live APIs
(2026-11-23). Newer models come from stored copies of OpenAI's model pages, read on 2026-11-29:
gpt-6.2-sol and gpt-6.2-astra refuse "none", gpt-6.1-terra accepts it. No page was found for
gpt-6-rosalind, so it's tried. A model has the levels of the first row whose pattern matches the
beginning of its name.
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
    (r"gpt-6(\.2)?-astra|gpt-6\.[12]-sol|gpt-5\.1-codex", ALWAYS),
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
    """Raises `error` if the model's `levels` don't include the one that was `asked`."""
    if asked is not None and asked not in levels:  # rule 1
        possible = ", ".join([*levels, "none at all"])
        raise error(f"{model} takes no reasoning={asked!r}; use one of: {possible}")


def check_reasoning(model: str, asked: Reasoning | None, table: Table) -> None:
    """Raises ValueError if the table says that the model doesn't support the level."""
    for beginning, levels in table:
        if re.match(beginning, model):
            check_level(model, asked, levels)
            return
