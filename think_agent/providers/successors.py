"""Models that a provider has shut down or will shut down, with the successor that it names.

The dates for Anthropic and OpenAI are from their SDKs (anthropic 2.14.0,
`_data/deprecated_models.py`; openai 3.57.0, `types/shared/chat_model.py`, read 2026-11-29). The
successors are from stored copies of the providers' deprecation pages, read on 2026-11-29:
developers.openai.com/api/docs/ deprecations,
platform.claude.com/docs/en/about-claude/model-deprecations (and Anthropic's release notes of
2026-06-15), ai.google.dev/gemini-api/docs/deprecations. Where no copy names a successor, there is
none here.
"""

import re
from typing import NamedTuple


class End(NamedTuple):
    """When these models are shut down, and their successor."""

    models: tuple[str, ...]
    date: str
    successor: str = ""


ENDS = [
    End(("claude-sonnet-4", "claude-sonnet-4-0"), "2026-06-15", "claude-sonnet-4-6"),
    End(("claude-opus-4", "claude-opus-4-0"), "2026-06-15", "claude-opus-4-8"),
    End(("claude-sonnet-4-5",), "2026-11-30"),
    End(("claude-opus-4-5",), "2027-01-22", "claude-opus-5-5"),
    End(("gpt-3.5-turbo", "o4-mini"), "2026-10-23", "gpt-5.6-terra"),
    End(("gpt-4", "gpt-4-turbo", "o1", "o1-pro", "o3-mini"), "2026-10-23", "gpt-5.6-sol"),
    End(("gpt-4.1-nano",), "2026-10-23", "gpt-5.6-luna"),
    End(("gpt-5",), "2026-12-11", "gpt-6.1-sol"),
    End(("gpt-5-mini",), "2026-12-11", "gpt-6.1-terra"),
    End(("gpt-5-nano",), "2026-12-11", "gpt-5.6-luna"),
    End(("gpt-5-pro", "o3", "o3-pro"), "2026-12-11", "gpt-5.6-sol"),
    End(("gpt-4o", "gpt-4o-mini", "gpt-4.1", "gpt-4.1-mini"), "2027-01-14", "gpt-6-luna"),
    End(("gemini-3-pro-preview",), "2026-03-09", "gemini-3.1-pro-preview"),
    End(("gemini-2.5-pro",), "2026-12-01", "gemini-3.8-flash"),
    End(("gemini-2.5-flash",), "2026-12-01", "gemini-3.5-flash-lite"),
]


def describe_end(model: str) -> str:
    """What to add to "not found" if the model is one of `ENDS`; empty otherwise."""
    name = re.sub(r"^ft:|^.*/", "", model)  # a gateway adds the vendor as a prefix
    name = name.partition(":")[0]  # a fine-tuned model ends with its base
    name = re.sub(r"-\d{4}-\d{2}-\d{2}$|-20\d{6}$", "", name)  # a snapshot ends with its date
    for end in ENDS:
        if name in end.models:
            break
    else:
        return ""
    if not end.successor:
        return f"; its provider retires {name} on {end.date}"
    return f"; its provider retires {name} on {end.date} and names {end.successor} as its successor"
