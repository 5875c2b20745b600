"""Counts of tokens, as providers report them."""

from typing import Any

from ..messages import Usage


def count(usage: Any, *path: str) -> int:
    """The number of tokens at `path` in a provider's `usage`; 0 if there is none."""
    try:
        for key in path:
            usage = usage[key]
        return int(usage)
    except (LookupError, TypeError, ValueError, OverflowError):
        return 0


def openai_usage(usage: Any, input: str, output: str) -> Usage:
    """The usage of both of OpenAI's APIs, which differ in the names of two fields."""
    details = f"{input}_tokens_details"
    return Usage(
        input_tokens=count(usage, f"{input}_tokens"),
        output_tokens=count(usage, f"{output}_tokens"),
        cached_tokens=count(usage, details, "cached_tokens"),
        written_tokens=count(usage, details, "cache_write_tokens"),
        reasoning_tokens=count(usage, f"{output}_tokens_details", "reasoning_tokens"),
    )
