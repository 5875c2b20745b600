"""All at once, or one by one: what a plan can't know if it's made before the first action.

Since lesson 16: two loops around the same model. Only one of them asks again after an action.

Rule 1: A batch loop asks for the whole plan, runs all of it, and reports. A later action can't use
        an earlier result, and an error changes nothing in the plan.
Rule 2: An iterative loop asks again after each action. That costs a model call each time, and the
        next action is based on what is known by then.
Rule 3: Several calls in one reply are a small batch. That's right for calls that don't need each
        other, such as two look-ups.

The batch loop is the kit's loop with one more policy: the turn ends with the first plan.
"""

from demos.common import call, follow_steps, list_results, play
from demos.refund.offline import reply_with_calls
from think_agent import Agent, Assistant, CallModel, Done, Model, Request, Step, Tool, Turn, tool
from think_agent.tools import NoResult, signature

ALL_AT_ONCE = "Plan all calls now, in one reply. You are not asked again."


@tool(read_only=True)
def find_price(item: str) -> int:
    """The price of an item, in dollars."""
    if item != "desk lamp":
        raise NoResult(f'there is no "{item}"; the nearest is "desk lamp"')
    return 45


@tool(read_only=True)
def multiply(number: int, by: int) -> int:
    """Multiply two numbers."""
    return number * by


def batch(step: Step, turn: Turn) -> Step:
    """End the turn when the calls of the first plan have their results."""
    if turn.actions and isinstance(step, CallModel):
        return Done("silence", f"Done. The result is {turn.actions[-1].result.content}.")
    return step


def stand_in(request: Request) -> Assistant:
    """Plans all at once, with a guessed price, or takes one step after the other."""
    if request.system == ALL_AT_ONCE:
        return reply_with_calls(call("find_price", item="lamp"), call("multiply", number=20, by=3))
    contents = [result.content for result in list_results(request)]
    numbers = [int(content) for content in contents if content.isdecimal()]
    if request.tool_choice == "none":
        return Assistant(f"Three lamps cost ${numbers[-1]}.")
    price = numbers[0] if numbers else 0
    script = follow_steps(
        ("The price first.", call("find_price", item="lamp")),
        ("It has another name here.", call("find_price", item="desk lamp")),
        (f"Three, at ${price} each.", call("multiply", number=price, by=3)),
    )
    return script(request)


def lesson(model: Model) -> None:
    """Two loops around one model."""
    for plan, policies in ((ALL_AT_ONCE, [batch]), ("One call at a time.", [])):
        tools: list[Tool] = [find_price, multiply]
        agent = Agent(model, tools, instructions=plan, policies=policies, force="never")
        outcome = agent.run("What do three lamps cost?")
        print(f"\n{plan}\n  model calls: {outcome.model_calls}; answer: {outcome.answer}")
        for action in outcome.actions:
            print(f"  {signature(action.call)} -> {action.result.content}")
    print("\nremember: a plan made at once is made of guesses; ask again where a result matters.")


if __name__ == "__main__":
    play(lesson, stand_in)
