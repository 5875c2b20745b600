"""The words for what happened in a run. The console, the audit and the spans all take them here.

Rule 1: a code is what programs compare (`exit="limit"`); its words are for people, and stand here
        alone.
Rule 2: a code that is not in a table (a file may hold anything) is shown as it is.
"""

from collections.abc import Collection, Mapping

from ..loop import CallModel
from ..messages import Assistant, Force, Json, ToolResult, Usage, Verdict
from ..text import json_text, json_value, shorten
from ..turn import Action, Turn

EXITS = {  # how a turn ended: in short, and as a sentence
    "signal": ("✓ done", "A thought said that all was done; a last call without tools answered."),
    "silence": ("– ended by silence", "The model called no tool; its text is the answer."),
    "limit": ("✗ stopped at a limit", "A limit was reached; no tool could be called any more."),
    "budget": ("✗ out of budget", "The budget of tokens or money was used up."),
    "gave_up": ("✗ gave up", "The run gave up: too many failures or repeats in a row."),
    "declined": ("✗ declined", "Nothing more was run."),
    "needs_human": ("… waits for a person", "Paused: a person has to decide."),
    "refused": ("✗ refused", "The model, or its provider, refused."),
    "truncated": ("✗ cut off", "The reply broke off; nothing of it was acted on."),
    "empty": ("✗ no answer", "The model had no words, not even after a nudge."),
    "invalid_answer": ("✗ no valid answer", "The answer is not of the form that was asked."),
}
CAUSES = {  # why a reply broke off: its `cause`, or else its stop reason
    "max_tokens": "it hit the output limit",
    "pause_turn": "its provider paused it",
    "deadline": "a limit of the run was reached in the middle of it",
    "too_long": "its server went on past the bound on its tokens",
}
REGULAR = ("signal", "silence")  # exits that come with an answer
HOW = {  # how a thought came, as in "a … thought", and what that means
    "forced": ("forced by tool choice", "the provider was made to call think, and did"),
    "schema": ("forced by schema", "the sampler could write nothing else"),
    "carried": ("carried by the call", "the call has its thought as its first argument"),
    "gated": ("gated", "an action without a thought was refused, then the model thought"),
    "volunteered": ("volunteered", "the model called think by itself"),
}
STATUS = {  # of a call: a mark and words
    "done": ("✓", "done"),
    "failed": ("✗", "failed"),
    "refused": ("✗", "refused, not run"),
    "started": ("?", "may have happened"),
    "not run": ("–", "not run"),
}
ASKED = {  # by a tool choice that names no tool
    "auto": "free to choose",
    "required": "told to call a tool",
    "none": "asked for closing words, without tools",
}
DECIDED = {"yes": "approved", "no": "denied", "quit": "stopped"}


def status(result: ToolResult) -> str:
    """What became of a call: a key of STATUS."""
    return "refused" if result.refused else "failed" if result.is_error else "done"


def asked(of: Assistant | CallModel) -> str:
    """What the tool choice of a reply, or of the step before it, asks, as in "the model was …"."""
    choice = of.tool_choice
    return f"told to call {choice.name}" if isinstance(choice, Force) else ASKED[choice]


def decided(verdict: Verdict, waited: float | None = None) -> str:
    """A decision, who or what made it (a rule is not a person, so it goes by its own name), and how
    long that was `waited` for.
    """
    words = DECIDED.get(verdict.decision, verdict.decision)
    edited = " with other arguments" if verdict.arguments is not None else ""
    by = f" by {verdict.by}" if verdict.by else ""
    after = f" after {duration(waited)}" if waited and waited >= 1 else ""
    return f"{words}{edited}{by}{after}{f': {verdict.reason}' if verdict.reason else ''}"


def how(code: str | None) -> str:
    """How a thought came, as in "a … thought"."""
    return HOW[code][0] if code in HOW else code or ""


def behind(came_about: Mapping[str, int]) -> str:
    """How the thoughts came that actions stand behind: `1 forced by tool choice, 2 …`."""
    named = ((n, "behind none" if code == "none" else how(code)) for code, n in came_about.items())
    return ", ".join(f"{number} {words}" for number, words in named) or "none"


def gave(result: str, arguments: Json | str | None) -> str:
    """What matters of a result, beside the `arguments` of its call."""
    data = json_value(result)
    known = list(arguments.values()) if isinstance(arguments, dict) else []
    return brief(result if data is None else data, known)


def brief(data: object, known: Collection[object] = ()) -> str:
    """What matters of a result, or of arguments, on one line: the values of an object, but for
    empty ones and those `known` already; text as it is.
    """
    if not isinstance(data, dict):
        return shorten(data if isinstance(data, str) else json_text(data))
    said = []
    for key, value in data.items():
        name = key.replace("_", " ")
        if isinstance(value, bool):  # it is never known: True equals 1
            said.append(name if value else f"{name}: no")
        elif isinstance(value, str):
            said.append(shorten(value, 80) if value not in known else "")
        elif value not in (None, [], {}, *known):
            text = shorten(json_text(value), 60)
            counted = isinstance(value, int) and name.endswith("s") and " " not in name
            said.append(f"{text} {name}" if counted else f"{name}: {text}")  # 13 days
    return joined(*said) or shorten(json_text(data))


def tokens(usage: Usage) -> str:
    """Tokens in words; empty where none were counted."""
    if not (usage.input_tokens or usage.output_tokens):
        return ""
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    read = f"{'about ' * usage.estimated}{usage.input_tokens:,} tokens in{cached}"
    return f"{read}, {usage.output_tokens:,} out"


def duration(seconds: float | None) -> str:
    """A time span as a person says it; empty when it is unknown."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds >= 0.05 else f"{seconds * 1000:.0f} ms"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s"


def joined(*facts: str) -> str:
    """What is known of these facts, on one line."""
    return " · ".join(fact for fact in facts if fact)


def ended(exit: str | None) -> str:
    """How a turn ended, in short."""
    return EXITS[exit][0] if exit in EXITS else exit or "not ended"


def why_ended(exit: str | None, cause: str = "") -> str:
    """How a turn ended, in sentences, with the `cause` for which a reply broke off; empty for what
    has none.
    """
    said = EXITS[exit][1] if exit in EXITS else ""
    return f"{said} The cause: {cause}." if cause else said


def cause(reply: Assistant | None) -> str:
    """Why a reply broke off; empty where it did not, and where that is not known."""
    return CAUSES.get(reply.cause or reply.stop_reason, reply.cause) if reply else ""


def figures(exit: str | None, turn: Turn, seconds: float | None) -> str:
    """The last line of a run: `✓ done · 3 actions, each behind a thought · 6 model calls · …`."""
    calls = f"{len(turn.replies)} model call{'s' * (len(turn.replies) != 1)}"
    took = joined(calls, tokens(turn.usage), duration(seconds))
    return joined(ended(exit), thought_of(turn.actions), took)


def thought_of(actions: Collection[Action]) -> str:
    """How many actions there were, and how many of them stand behind a thought."""
    if not actions:
        return "no action"
    many = f"{len(actions)} action{'s' * (len(actions) != 1)}, "
    behind_one = sum(action.thought is not None for action in actions)
    if behind_one == len(actions):
        return many + ("each " if behind_one > 1 else "") + "behind a thought"
    return f"{many}{behind_one or 'none'} of them behind a thought"
