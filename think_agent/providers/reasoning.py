"""How much a model can be asked to reason: what is known before a request.

Rule 1: `off`, `low`, `medium` and `high` mean the same everywhere, or are refused before the
        request, with an error of one line.
Rule 2: Anthropic and Ollama can be asked what a model takes (`Provider.learn`). For OpenAI and
        Gemini there are tables here. A model that is not known is tried; then the provider's
        refusal is an error of one line.

The tables are from the providers' pages and from what pydantic-ai 2.68 has tried on the live APIs
(2026-11-23). The models that are new since then are from OpenAI's model pages, read in stored
copies on 2026-11-29: gpt-6.2-sol and gpt-6.2-astra refuse "none", gpt-6.1-terra takes it. For
gpt-6-rosalind no page was found, so it is tried. A model has the levels of the first row whose
pattern its name begins with.
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
    """Raises `error` if the level that was `asked` is not one of the model's `levels`."""
    if asked is not None and asked not in levels:  # rule 1
        possible = ", ".join([*levels, "none at all"])
        raise error(f"{model} takes no reasoning={asked!r}; use one of: {possible}")


def check_reasoning(model: str, asked: Reasoning | None, table: Table) -> None:
    """Raises ValueError if the table says that the model does not take the level."""
    for beginning, levels in table:
        if re.match(beginning, model):
            check_level(model, asked, levels)
            return
