"""Counts of tokens, as hosts report them.

Rule 1: tokens that are paid are counted, so that limits hold. A host may report some of them apart
        (more cached tokens than the prompt has, more reasoning than the reply), or in the total
        alone.
Rule 2: gateways translate a reply from one protocol to another, but not always its counts. So each
        protocol reads the names of the others, too.
Rule 3: a stream may give its counts in several events. A count of nothing changes nothing.
"""

from typing import Any

from ..messages import Json, Usage

Path = tuple[str, ...]

# The names of OpenAI's two APIs, and those that hosts of them use instead (rule 2).
PROMPT: tuple[Path, ...] = (("prompt_tokens",), ("input_tokens",))
COMPLETION: tuple[Path, ...] = (("completion_tokens",), ("output_tokens",))
CACHED: tuple[Path, ...] = (  # input tokens that were read from a cache
    ("prompt_tokens_details", "cached_tokens"),
    ("input_tokens_details", "cached_tokens"),
    ("prompt_tokens_details", "cached_read_tokens"),  # Bifrost
    ("prompt_token_details", "cached_tokens"),  # Mistral
    ("num_cached_tokens",),  # Mistral
    ("prompt_cache_hit_tokens",),  # DeepSeek
    ("cached_tokens",),  # Kimi
    ("cache_read_input_tokens",),  # gateways to Claude
)
WRITTEN: tuple[Path, ...] = (  # and those that were written to one
    ("prompt_tokens_details", "cache_write_tokens"),
    ("input_tokens_details", "cache_write_tokens"),
    ("prompt_tokens_details", "cached_write_tokens"),  # Bifrost
    ("cache_creation_input_tokens",),
)
REASONING: tuple[Path, ...] = (
    ("completion_tokens_details", "reasoning_tokens"),
    ("output_tokens_details", "reasoning_tokens"),
    ("reasoning_tokens",),
)


def read_count(usage: Any, *path: str) -> int:
    """The token count at `path` in a provider's `usage`, or 0 if there is none."""
    try:
        for key in path:
            usage = usage[key]
        return max(int(usage), 0)
    except (LookupError, TypeError, ValueError, OverflowError):
        return 0


def read_first_count(usage: Any, *paths: Path) -> int:
    """The first token count at one of `paths` that isn't 0: hosts use different names."""
    for path in paths:
        count = read_count(usage, *path)
        if count:
            return count
    return 0


def merge_counts(before: Any, now: Any) -> Json:
    """The counts of a stream, after another event of it (rule 3)."""
    merged: Json = {}
    for counts in (before, now):
        if isinstance(counts, dict):
            merged |= {key: value for key, value in counts.items() if value}
    return merged


def read_openai_usage(usage: Any) -> Usage:
    """The tokens in the `usage` of one of OpenAI's APIs."""
    return balance(
        read_first_count(usage, *PROMPT),
        read_first_count(usage, *COMPLETION),
        read_count(usage, "total_tokens"),
        cached=read_first_count(usage, *CACHED),
        written=read_first_count(usage, *WRITTEN),
        reasoning=read_first_count(usage, *REASONING),
    )


def balance(
    prompt: int,
    completion: int,
    total: int,
    *,
    cached: int = 0,
    written: int = 0,
    reasoning: int = 0,
) -> Usage:
    """The tokens of a reply in which `total` may count some that `prompt` and `completion` do not
    (rule 1).
    """
    if cached > prompt > 0:
        prompt += cached + written
    if total and not prompt:
        prompt = max(total - completion, 0)

    uncounted = total - prompt - completion
    for hidden in (cached, written, cached + written):
        if hidden and uncounted in (hidden, hidden + reasoning):
            prompt += hidden
            break
    if reasoning > completion:
        completion += reasoning
    completion = max(completion, total - prompt)  # as the reasoning of xAI
    return Usage(prompt, completion, cached, reasoning, written_tokens=written)
