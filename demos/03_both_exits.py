"""Both ways out, read step by step off the transcript.

Rule 1: the signal: a thought says should_continue "false"; then one last call without tools.
Rule 2: silence: the reply calls no tool; its text is the answer. It stays as the fallback, for
        small talk needs no thought.
Rule 3: `next_step` is a pure function. What a run did can be asked of it again, message by message.

`CallModel` shows its tool choice: under 'auto' the model may call tools, under 'none' it may not.
"""

from demos.common import call, follows, play
from think_agent import Agent, Assistant, Model, Request, Turn, tool
from think_agent.loop import CallModel, CallTool, Done, next_step
from think_agent.tools import signature


@tool
def lookup_order(order_id: str) -> str:
    """Look up an order by its number, such as ORD-001."""
    return f"{order_id}: Laptop Stand, 13 days old."


def stand_in(request: Request) -> Assistant:
    """Looks up what is asked for, and answers thanks with a word."""
    asked = Turn.of(request.messages).request
    if asked and "ORD-" in asked.text:
        return follows(("Look it up first.", call("lookup_order", order_id="ORD-001")))(request)
    return Assistant(text="You are welcome!")


def lesson(model: Model) -> None:
    """Both ways out, step by step."""
    agent = Agent(model, [lookup_order], force="never")
    for text in ("What is ORD-001?", "Thank you!"):
        print(f"\n{text}  (what comes next, after so many messages)")
        transcript = agent.run(text).transcript
        for length in range(1, len(transcript) + 1):
            match next_step(transcript[:length]):
                case CallModel(tool_choice=choice):
                    print(f"  after {length}: CallModel({choice!r})")
                case CallTool(call):
                    print(f"  after {length}: CallTool: {signature(call)}")
                case Done(exit=exit, answer=answer):
                    print(f"  after {length}: Done({exit!r}): {answer}")
    print(
        "\nwhat to notice: the run is over, and the same function still tells every step of it; "
        "the transcript is the only state."
    )


if __name__ == "__main__":
    play(lesson, stand_in)
