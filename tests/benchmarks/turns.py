"""Does the loop itself stay linear? One run of more and more model calls, on a scripted model.

No SDK and no wire is in it: what is timed is `next_step`, the policies and the driver. Prints a
JSON object: CPU seconds by number of model calls. `python -m tests.benchmarks.turns`
"""

import json
import time

from think_agent import Agent, Assistant, ScriptedModel, ToolCall, tool

CALLS = (125, 250, 500, 1000)


@tool
def look(page: int) -> str:
    """Look at one page."""
    return f"This is page {page}."


def scripted(calls: int) -> Agent:
    """An agent that thinks and looks by turns."""
    replies = []
    for number in range(calls - 1):
        notes = {"thought": f"Page {number}.", "should_continue": "true"}
        name, arguments = ("look", {"page": number}) if number % 2 else ("think", notes)
        call = ToolCall(f"call_{number}", name, arguments)
        replies.append(Assistant(tool_calls=(call,), stop_reason="tool_use"))
    replies.append(Assistant("Done."))
    return Agent(ScriptedModel(replies), [look], max_model_calls=calls + 1)


def seconds(calls: int) -> float:
    agent = scripted(calls)
    start = time.process_time()
    outcome = agent.run("Look at every page.")
    assert (outcome.exit, outcome.model_calls) == ("silence", calls)
    return time.process_time() - start


if __name__ == "__main__":
    seconds(CALLS[0])  # the first run pays for what is made once
    print(json.dumps({calls: min(seconds(calls) for _ in range(3)) for calls in CALLS}))
