"""Swap the provider, even in the middle of a conversation.

Since lesson 03: one conversation, two models.

Rule 1: A model is a name: `connect("ollama")`, `connect("anthropic:claude-haiku-5-5")`. Agent,
        tools and instructions stay as they are.
Rule 2: The transcript belongs to no provider, so another model can continue it. It gets the text,
        the calls and the results, but not the signatures.
Rule 3: What a provider needs (roles, ids, how to force, how to forbid tools) is in its adapter.

A scripted model always answers the first question. The model of --provider answers the second.
"""

from demos.common import call, follow_steps, play
from think_agent import Agent, Assistant, Model, Request, ScriptedModel, Turn, User, tool

ITEMS = {"ORD-001": "Laptop Stand", "ORD-002": "Keyboard"}


@tool(read_only=True)
def lookup_order(order_id: str) -> str:
    """Look up an order by its number, such as ORD-001."""
    return f"{order_id} is a {ITEMS[order_id]}."


def stand_in(request: Request) -> Assistant:
    """Looks up the order that the last question names."""
    asked = Turn.of(request.messages).request
    number = "ORD-002"
    if asked and "ORD-001" in asked.text:
        number = "ORD-001"
    script = follow_steps(("Look it up first.", call("lookup_order", order_id=number)))
    return script(request)


def lesson(model: Model) -> None:
    """Swap the provider."""
    first = Agent(ScriptedModel(stand_in, name="scripted", model="stand-in"), [lookup_order])
    second = Agent(model, [lookup_order])
    earlier = first.run("What is ORD-001?")
    outcome = second.run("And ORD-002?", transcript=earlier.transcript)
    for message in outcome.transcript:
        match message:
            case User(text=text):
                print(f"\nuser: {text}")
            case Assistant(provider=provider, model=name, tool_calls=calls, text=text):
                names = [call.name for call in calls]
                print(f"  {provider}:{name}: {', '.join(names) if names else text}")
    print(
        "\nremember: one list of messages, two models; "
        "try --provider ollama, anthropic, openai or gemini."
    )


if __name__ == "__main__":
    play(lesson, stand_in)
