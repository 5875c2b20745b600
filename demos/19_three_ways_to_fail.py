"""Three ways to fail: what happens to a run when a tool raises.

Since lesson 18: the tool is broken, and `on_tool_error` says who has to deal with it.

Rule 1: `"tell_model"`, the default: the error is a result like any other. The model reads it and
        may try another way. After `patience` failures in a row the run asks or gives up.
Rule 2: `"fail_fast"`: the first error ends the turn as `gave_up`. The answer says what was done.
Rule 3: `"raise"`: the exception is raised in your program, with `.transcript`. `resume` continues.
Rule 4: In each case, the error is first recorded as the result of its call.

Limitations: mistakes of the model (a wrong argument, an unknown tool) and NoResult or NothingDone
from a tool always go to the model, so "raise" doesn't raise them.
"""

import logging

from demos.common import call, follow_steps, play
from think_agent import Agent, Model, Turn, tool
from think_agent.tools import signature


@tool(read_only=True)
def fetch_rate(source: str) -> float:
    """The exchange rate from a source: "main" or "mirror"."""
    if source == "main":
        raise ConnectionError("the main source does not answer")
    return 1.08


stand_in = follow_steps(
    ("The main source first.", call("fetch_rate", source="main")),
    ("It is down. The mirror has the rate, too.", call("fetch_rate", source="mirror")),
)


def lesson(model: Model) -> None:
    """One broken tool, three policies."""
    # Without a handler, Python would print the traceback of each tool that raised.
    logging.getLogger("think_agent").addHandler(logging.NullHandler())
    for policy in ("tell_model", "fail_fast", "raise"):
        print(f"\n{policy}")
        agent = Agent(model, [fetch_rate], on_tool_error=policy)
        try:
            outcome = agent.run("What is the rate today?")
        except ConnectionError as error:
            print(f"  raised here: {error}")
            turn = Turn.of(vars(error)["transcript"])  # the kit has added it
        else:
            print(f"  exit {outcome.exit}: {outcome.answer.splitlines()[0]}")
            turn = outcome.turn
        for action in turn.actions:
            print(f"  recorded: {signature(action.call)} -> {action.result.content}")
    print("\nremember: an error is recorded first; the policy only says who reads it next.")


if __name__ == "__main__":
    play(lesson, stand_in)
