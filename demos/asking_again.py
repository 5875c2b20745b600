"""Asks a model again, with another thought before its action. Lesson 13 shows the results.

Rule 1: only the thought changes: the messages, the tool and the instructions are the same.
Rule 2: what counts is the call: its name, the order and the decision. The reason may differ. A
        reply without a call is counted separately: it did nothing, not something else.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from think_agent import Model, Outcome, Request, Tool, ToolCall
from think_agent.messages import Assistant, Spoken, ToolResult, User
from think_agent.testing import think
from think_agent.turn import Action

TIMES = 10


def examine(model: Model, runs: Sequence[Outcome], tool: Tool, system: str) -> None:
    """Print how the guarded actions of two runs change, with three kinds of thoughts."""
    if any(run.turn.history.signed for run in runs):
        print(f"  cannot be said: {model.name} signs its history; no thought can be changed")
        return
    if not all(run.actions for run in runs):
        print("  cannot be said: one of the runs came to no decision")
        return

    first, second = runs
    foreign = {id(first): second.actions[0].thought, id(second): first.actions[0].thought}
    ways: dict[str, Counter[str]] = {}
    for run in runs:
        for action in run.actions:
            thoughts = {
                "kept": action.thought,
                "dropped": None,
                "from another run": foreign[id(run)],
            }
            for way, thought in thoughts.items():
                history = rewrite_history(run, action.call, thought)
                question = Request(history, [tool], system=system)
                ways.setdefault(way, Counter()).update(ask(model, question, action))
    for way, found in ways.items():
        acted = found["same"] + found["changed"]
        print(f"  {way:16}  {found['changed']:2} of {acted:2} changed, {found['words']} in words")


def ask(model: Model, question: Request, action: Action) -> Counter[str]:
    """Ask a few times. Counts the same call as in `action`, other calls, and replies in words."""
    found: Counter[str] = Counter()
    for _ in range(TIMES):
        calls = model.complete(question).tool_calls
        if not calls:
            found["words"] += 1
        elif read_what_counts(calls[0]) == read_what_counts(action.call):
            found["same"] += 1
        else:
            found["changed"] += 1
    return found


def rewrite_history(run: Outcome, action: ToolCall, thought: str | None) -> list[Spoken]:
    """The messages before an action, with `thought` (or none) in place of all thoughts."""
    history: list[Spoken] = []
    for message in run.turn.history.spoken:
        if isinstance(message, Assistant):
            if action in message.tool_calls:
                break
            others = tuple(call for call in message.tool_calls if call.name != "think")
            if others:
                history.append(replace(message, tool_calls=others, native=None))
        elif isinstance(message, User) or message.name != "think":
            history.append(message)
    if thought:
        noted = replace(think(thought), id="noted")
        history += [Assistant(tool_calls=(noted,)), ToolResult("noted", "think", "Recorded.")]
    return history


def read_what_counts(call: ToolCall) -> tuple[object, ...]:
    if isinstance(call.arguments, str):
        return call.name, call.arguments
    return call.name, call.arguments.get("order_id"), call.arguments.get("decision")


if __name__ == "__main__":
    print("This is a part of lesson 13. Run: python -m demos.13_did_the_thought_matter")
