"""The names of settings, and the advice for an unknown name.

Rule 1: SETTINGS has the flags of all commands, so several commands can share one file. A name that
        isn't in it is an error. A setting of another command is ignored.
Rule 2: an alias is another design's name for a setting. It works in the file and in variables; a
        flag has only one name.
Rule 3: a setting may be given once in each place, by its own name or its alias.

Source of the aliases: "Iterative LLM Consultation for CCOS Agent", 2026-02-10.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import click

SETTINGS = frozenset(
    {
        "advice",
        "approve",
        "base_url",
        "carry",
        "check",
        "close",
        "concurrency",
        "config",
        "cover",
        "db",
        "dialect",
        "done_when",
        "enforce",
        "explain",
        "fleet",
        "force",
        "four_rows",
        "guarded",
        "hide_thoughts",
        "html",
        "idempotent",
        "json",
        "keep",
        "keep_turns",
        "lost_after",
        "max_actions",
        "max_cost",
        "max_model_calls",
        "max_output_tokens",
        "max_seconds",
        "max_tokens",
        "mixed",
        "model",
        "name",
        "newest",
        "no_stream",
        "num_ctx",
        "on_tool_error",
        "out",
        "pace",
        "patience",
        "per_minute",
        "prices",  # only in the file: one table per model
        "provider",
        "quiet",
        "read_only",
        "reasoning",
        "record",
        "redact",
        "resume",
        "seed",
        "shard",
        "show_config",
        "silence",
        "sources",
        "steps",
        "suite",
        "temperature",
        "text",
        "think",
        "thinker",
        "timeout",
        "transcript",
        "trials",
        "trusted",
        "until_done",
        "verbose",
    }
)
"""The flags of all commands, including the demos'."""


@dataclass(frozen=True)
class Alias:
    """Another design's name for `setting`. `values`: its values, if they have other names here."""

    setting: str
    values: Mapping[str, str] = field(default_factory=dict)


ALIASES = {
    "max_iterations": Alias("max_model_calls"),
    "max_consecutive_failures": Alias("patience"),
    "failure_handling": Alias("on_tool_error", {"ask_user": "tell_model", "abort": "fail_fast"}),
}
"""`abort` stops at the first failure. `ask_user` asks a person after `patience` failures, if there
is one to ask (`approve`); otherwise the run gives up.
"""

INSTEAD = {  # names that mean something else here, or don't exist
    "budget": "use max_cost, max_tokens or max_seconds",
    "context_strategy": "nothing is summarized; keep_turns leaves whole turns out",
    "max_context_entries": "an entry isn't a turn; keep_turns says how many turns are shown",
    "max_steps": "use max_model_calls, or max_actions for the tool calls",
    "max_turns": "a turn is a whole request here; use max_model_calls or max_actions",
    "send_intermediate_responses": "text next to an action is always shown; hide_thoughts hides it",
}


@dataclass(frozen=True)
class Given:
    """A setting's value, and the name it was given by."""

    value: str
    name: str


def by_setting(given: Mapping[str, str], place: str) -> dict[str, Given]:
    """The values given in one `place`, by the settings' names. Raises UsageError if a setting was
    given twice (rule 3), or for a value that its alias doesn't have.
    """
    found: dict[str, Given] = {}
    for name, value in given.items():
        alias = ALIASES.get(name, Alias(name))
        setting = alias.setting
        if setting in found:
            both = f"{found[setting].name} and {name}"
            raise click.UsageError(f"{both} are the same setting; leave one out ({place})")
        if alias.values and value not in alias.values:
            choices = " or ".join(alias.values)
            raise click.UsageError(f"{name}: {value!r} isn't a choice; use {choices} ({place})")
        found[setting] = Given(alias.values.get(value, value), name)
    return found


def check_names(places: Mapping[str, str], known: Iterable[str]) -> None:
    """Raises UsageError for a name that isn't a setting of any command. `places`: where each name
    was given. `known`: this command's settings, in case it isn't one of the kit's.
    """
    names = {*SETTINGS, *known}
    for name, place in places.items():
        if name not in names and name not in ALIASES:
            problem = f"{name}: there is no such setting; {advice(name, names)}"
            raise click.UsageError(f"{problem} ({place})")


def advice(name: str, names: Iterable[str]) -> str:
    """What to use instead of an unknown name."""
    if name in INSTEAD:
        return INSTEAD[name]
    if name in ALIASES:
        return f"it is called {ALIASES[name].setting} here"
    near = difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.8)
    if near:
        return f"did you mean {near[0]}?"
    first, second, third = difflib.get_close_matches(name, sorted(names), n=3, cutoff=0.0)
    return f"the nearest names are {first}, {second} and {third}"
