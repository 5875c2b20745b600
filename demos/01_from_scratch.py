"""The whole pattern from scratch, on the bare `ollama` package. Nothing of the kit is in here.

Rule 1: `think` is a tool like any other, but it does nothing. Its value is in its arguments: the
        notes that the model writes, and a typed exit signal.
Rule 2: every call gets a result before the model is asked again, think calls too.
Rule 3: there are two ways out. After the signal, one last call without tools gives the answer.
        Silence means that the model called no tool; its text is the answer.
Rule 4: the model's mistakes go back to the model, as results that it can read.

Limitations: no forcing, no streaming, only one limit and one provider. The kit adds all of these.
"""

from collections.abc import Callable

import ollama

from demos.scripted_ollama import ollama_or_stand_in

ORDERS = {"ORD-001": "Laptop Stand, $89, 13 days old", "ORD-002": "Keyboard, $220, 44 days old"}
RULES = "An order can be refunded within 30 days. Look it up, think, then tell the customer."


def think(thought: str, should_continue: str) -> str:
    """Write down working notes. Call it before you act and after each result.

    Args:
        thought: a plan, open questions, a check against the rules
        should_continue: "true" while there is more to do, "false" when all is done
    """
    return "Thought recorded."


def lookup_order(order_id: str) -> str:
    """Look up an order by its number.

    Args:
        order_id: such as ORD-001
    """
    return ORDERS.get(order_id) or f"error: there is no order {order_id}"


TOOLS: dict[str, Callable[..., str]] = {"think": think, "lookup_order": lookup_order}


def run(client: ollama.Client, model: str, question: str) -> tuple[str, str | None]:
    """Run the loop. Returns which way out was taken, and the answer."""
    messages: list[ollama.Message] = [
        ollama.Message(role="system", content=RULES),  # a `system` field would be dropped
        ollama.Message(role="user", content=question),
    ]
    for _ in range(20):
        reply = client.chat(model, messages, tools=list(TOOLS.values())).message
        messages.append(reply)
        if not reply.tool_calls:
            return "silence", reply.content
        leaving = False
        for call in reply.tool_calls:
            name, arguments = call.function.name, dict(call.function.arguments)
            print(f"  {name} {arguments}")
            if name == "think":
                leaving = str(arguments.get("should_continue")).lower() == "false"
            try:
                result = TOOLS[name](**arguments)
            except (KeyError, TypeError) as error:
                result = f"error: {error!r}"
            messages.append(ollama.Message(role="tool", tool_name=name, content=result))
        if leaving:  # the last call has no tools, so it can be nothing but the answer
            return "signal", client.chat(model, messages).message.content
    return "limit", "I gave up."


if __name__ == "__main__":
    with ollama_or_stand_in() as (client, model):
        for question in ("Can I return ORD-001 and ORD-002?", "Thank you!"):
            print(question)
            print("  exit {}: {}".format(*run(client, model, question)))
        print("what to notice: the loop is one screen, and all it reads is the list of messages.")
