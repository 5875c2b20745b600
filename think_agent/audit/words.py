"""The wording for events of a run, shared by the console and the audit.

Rule 1: programs compare codes (`exit="limit"`). Texts for people are only here.
Rule 2: a code that isn't in a table (a file may contain anything) is shown as it is.
"""

from collections.abc import Collection, Iterator, Mapping

from ..messages import (
    THINK_NAME,
    Assistant,
    Checked,
    Force,
    Json,
    Message,
    Paused,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
    User,
    Verdict,
)
from ..outcome import describe_run, pluralize
from ..text import json_text, shorten
from ..think import is_remark, read_signal, read_thought
from ..tools import signature
from ..turn import Turn
from ..wire.json_reading import json_value

EXITS = {  # how a turn ended: short, and as a sentence
    "signal": ("✓ done", "A thought said that all was done; a last call without tools answered."),
    "silence": ("– ended by silence", "The model called no tool; its text is the answer."),
    "cannot": (
        "– cannot",
        "A thought said that it cannot be done; a last call without tools answered.",
    ),
    "unmet": (
        "✗ NOT MET",
        "The model said that it was done; a check says what is missing.",
    ),
    "limit": ("✗ stopped at a limit", "A limit was reached; no tool could be called any more."),
    "budget": ("✗ out of budget", "The budget of tokens or money was used up."),
    "gave_up": ("✗ gave up", "The run gave up: too many failures, repeats or refusals."),
    "declined": ("✗ declined", "Nothing more was run."),
    "needs_human": (
        "… waits for a person",
        "Paused: a person has to decide. To answer: agent.resume(transcript, "
        "verdict=outcome.question.yes()), or .no(reason); at a terminal --resume with "
        "--approve ask.",
    ),
    "refused": ("✗ refused", "The model, or its provider, refused."),
    "truncated": ("✗ cut off", "The reply broke off; nothing of it was acted on."),
    "empty": ("✗ no answer", "The model gave no text, not even after a nudge."),
    "invalid_answer": ("✗ no valid answer", "The answer does not have the required form."),
}
CAUSES = {  # why a reply was cut off: its `cause`, or else its stop reason
    "max_tokens": "it hit the output limit",
    "pause_turn": "its provider paused it",
    "deadline": "a limit of the run was reached in the middle of it",
}
REGULAR = ("signal", "silence")  # exits with an answer
HOW = {  # why a thought was written
    "forced": "forced by tool choice",
    "schema": "forced by schema",
    "carried": "carried by the call",
    "gated": "gated",
    "volunteered": "volunteered",
    "none": "without a thought",
}
STATUS = {  # what happened to a call
    "done": "✓ done",
    "done again": "! done again",
    "done after a no": "! done without a yes",
    "failed": "✗ failed",
    "refused": "✗ refused, not run",
    "in doubt": "? may have happened",
    "started": "? may have happened",
    "not run": "– not run",
    "waits": "… waits",
}
REFUSED = {  # why a call was refused, by its code
    "gate": "no thought justified it",
    "invalid": "there is no such tool, or its arguments are invalid",
    "text": "it was written as text",
    "repeat": "the same call had just succeeded in this reply",
    "limit": "a limit was reached",
    "person": "a person said no",
    "failed": "a call before it failed",
    "stopped": "the run was stopped before it",
}
ASKED = {  # what a tool choice without a name means for the model
    "auto": "free to choose",
    "required": "asked to call a tool",
    "none": "asked for closing words, without tools",
}
DECIDED = {"yes": "approved", "no": "denied", "quit": "stopped"}


def refusal(code: str) -> str:
    """Why a call was refused."""
    return f"refused: {REFUSED.get(code, code)}"


def say_choice(choice: ToolChoice) -> str:
    """A tool choice, to follow "the model was …"."""
    if isinstance(choice, Force):
        return f"asked to call {choice.name}"
    return ASKED.get(choice, choice)


def say_decision(verdict: Verdict) -> str:
    """A decision, and the person or rule that made it."""
    text = DECIDED.get(verdict.decision, verdict.decision)
    if verdict.new:
        text += " as a new one"
    if verdict.edited:
        text += " with other arguments"
    if verdict.by:
        text += f" by {verdict.by}"
    if verdict.reason:
        text += f": {verdict.reason}"
    return text


def say_pause(pause: Paused) -> str:
    """What a run is waiting for, and since when."""
    since = f" since {pause.at[:19].replace('T', ' ')} UTC" if pause.at else ""
    return f"waits for a person{since}: {pause.question}"


def say_check(check: Checked) -> str:
    """A check's result: its name and what is missing."""
    name = check.name.replace("_", " ")
    if check.missing is None:
        return name
    return f"{name}: {check.missing}"


def say_lines(message: Message) -> Iterator[str]:
    """A message inside a turn, on one line or one line per call."""
    match message:
        case Assistant(tool_calls=calls) if calls:
            for call in calls:
                yield _say_call(call)
        case Assistant(words=text):
            yield shorten(text)
        case ToolResult(name=name, content=content) if name != THINK_NAME:
            yield f"{name} gave: {gave(content, {})}"
        case User(kind=kind, text=text) if kind != "person":
            yield f"the kit said ({kind}): {shorten(text)}"
        case Verdict():
            yield say_decision(message)
        case Checked():
            yield say_check(message)
        case Paused():
            yield say_pause(message)


def _say_call(call: ToolCall) -> str:
    if call.name != THINK_NAME:
        return shorten(signature(call))
    name = call.name
    signal = read_signal(call)
    if signal is False or signal == "cannot":
        name += f', should_continue "{str(signal).lower()}"'
    return f"{name}: {shorten(read_thought(call))}"


def name_text(reply: Assistant) -> str:
    """The kind of a reply's text."""
    return "Commentary" if is_remark(reply) else "Said"


def behind(came_about: Mapping[str, int]) -> str:
    """Why the thoughts that cover actions were written: `1 forced by tool choice, 2 …`."""
    parts = [f"{number} {HOW[code]}" for code, number in came_about.items()]
    return ", ".join(parts) or "none"


def gave(result: str, arguments: Json | str) -> str:
    """The new information in a result, compared with its call's `arguments`, on one line."""
    data = json_value(result)
    if data is None:
        data = result
    if isinstance(arguments, dict):
        return brief(data, arguments.values())
    return brief(data)


def brief(data: object, known: Collection[object] = ()) -> str:
    """A result or arguments on one line: text as it is; for an object, the values that aren't empty
    or already `known`.
    """
    match data:
        case str():
            return shorten(data)
        case list() if data:
            return shorten(", ".join(brief(item) for item in data))
        case dict():
            facts = [_fact(key.replace("_", " "), value, known) for key, value in data.items()]
            return join_facts(*facts) or shorten(json_text(data))
    return json_text(data)


def _fact(name: str, value: object, known: Collection[object]) -> str:
    if isinstance(value, bool):  # before looking in `known`, where 1 equals True
        return f"{name}: {'yes' if value else 'no'}"
    if value in (None, "", [], {}) or value in known:
        return ""
    if isinstance(value, str):
        return shorten(value, 80)
    text = shorten(brief(value), 60)
    is_count = isinstance(value, int) and name.endswith("s") and " " not in name
    return f"{text} {name}" if is_count else f"{name}: {text}"  # 13 days


def tokens(usage: Usage) -> str:
    """Token counts as text; empty if there are none."""
    if not (usage.input_tokens or usage.output_tokens):
        return ""
    about = "about " if usage.estimated else ""
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    return f"{about}{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out"


def duration(seconds: float) -> str:
    """A duration as text; empty if it's unknown (0)."""
    if not seconds:
        return ""
    if seconds < 0.05:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s"


def say_model_call(number: int, most: int | None = None) -> str:
    """The number of a model call in its turn, and the limit if there is one."""
    if most is None:
        return f"model call {number}"
    return f"model call {number} of {most}"


def join_facts(*facts: str) -> str:
    """Join the facts that aren't empty, on one line."""
    return " · ".join(fact for fact in facts if fact)


def say_end(exit: str | None) -> str:
    """How a turn ended, as a short text."""
    if exit in EXITS:
        return EXITS[exit][0]
    return exit or "… not ended"


def why_ended(exit: str | None, cause: str = "") -> str:
    """How a turn ended, in sentences, with the `cause` if a reply was cut off. Empty for an exit
    that isn't in EXITS.
    """
    text = EXITS[exit][1] if exit in EXITS else ""
    return f"{text} The cause: {cause}." if cause else text


def cause(reply: Assistant | None) -> str:
    """Why a reply was cut off; empty if it wasn't or if the cause is unknown."""
    if reply is None:
        return ""
    return CAUSES.get(reply.cause or reply.stop_reason, reply.cause)


def figures(exit: str | None, turn: Turn) -> str:
    """The last line of a run: `✓ done · 3 actions, each after a thought · 6 model calls · …`."""
    return join_facts(
        say_end(exit), *describe_run(turn), tokens(turn.usage), duration(turn.seconds)
    )


def can_be_true(complaints: int) -> str:
    """The rules' verdict on a record, by the number of complaints."""
    if not complaints:
        return "the record can be true: no message in it breaks a rule of every run"
    return f"the record cannot be true: {pluralize(complaints, 'message')} that no run writes"


def say_differences(differences: int, steps: int) -> str:
    """Today's verdict, by the number of steps that would be planned differently."""
    planned = f"{pluralize(steps, 'step')} planned again"
    if not differences:
        return f"{planned}: this agent would do the same today"
    return f"{planned}: today this agent would do otherwise in {pluralize(differences, 'place')}"
