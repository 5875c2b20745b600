"""What a form costs and brings on a real Ollama, run by hand (CONTRIBUTING, "Benchmarks").

    OLLAMA_HOST=127.0.0.1:11500 python -m tests.benchmarks.ollama --seeds 20 smol

It asks for forced thoughts and closing replies of as many seeds, then sends one script of calls,
with the forms and without, and counts the tokens that the server evaluated: those of its prompts
that were not in its cache. It prints its figures with the date. A Modelfile with the lines
`RENDERER qwen3.5` and `PARSER qwen3.5` makes the prompts of that family with any weights.
"""

import argparse
import re
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from demos.refund.shop import INSTRUCTIONS, Shop
from think_agent import THINK, Assistant, Force, Request, ToolCall, ToolResult, User, connect
from think_agent.dialects.json_plan import json_plan
from think_agent.messages import Spoken

POLICY = INSTRUCTIONS.read_text(encoding="utf-8")
SLOWLY = {"dialect": "native", "timeout": 900}
TOOLS = (THINK, *Shop().tools())
ASKED = User("Please refund ORD-001. The toaster does not work.")
MARKUP = re.compile(r"<tool_call>|<function=|\"arguments\"")


def conversation() -> list[Spoken]:
    """Two refunds as they go: a thought, a look, a thought and a decision each."""
    talk: list[Spoken] = []
    for number in (1, 2):
        order = f"ORD-00{number}"
        talk.append(User(f"Please refund {order}."))
        thoughts = {"thought": f"Look {order} up first: date, price and state decide."}
        result = f'{{"order_id": "{order}", "days": 13, "total_usd": 89.0, "state": "delivered"}}'
        for name, arguments, content in (
            ("think", thoughts, "Thought recorded."),
            ("lookup_order", {"order_id": order}, result),
            ("think", {**thoughts, "should_continue": "false"}, "Thought recorded."),
        ):
            call = ToolCall(f"call_{len(talk):05}", name, arguments)
            talk += [Assistant(tool_calls=(call,)), ToolResult(call.id, name, content)]
        talk.append(Assistant(f"{order} is refunded."))
    return talk


def script(mark: str) -> list[Request]:
    """The requests of that conversation, as an agent sends them. They begin with `mark`, so that
    no earlier run has left them in the server's cache.
    """
    requests = []
    talk = conversation()
    for at, message in enumerate(talk):
        if not isinstance(message, Assistant):
            continue
        choice: Any = "auto"
        if not message.tool_calls:
            choice = "none"
        elif isinstance(talk[at - 1], User):
            choice = Force("think")
        request = Request(
            talk[:at], TOOLS, tool_choice=choice, system=mark + POLICY, max_output_tokens=1
        )
        requests.append(request)
    return requests


def evaluated(model: str, **options: Any) -> tuple[int, int, list[float]]:
    """The tokens evaluated in the script, all that were sent, and the part of each closing call's
    prompt that was evaluated.
    """
    server = connect(f"ollama:{model}", seed=0, **SLOWLY, **options)
    mark = f"{datetime.now(UTC):%H:%M:%S.%f}\n"
    total = sent = 0
    closing = []
    for request in script(mark):
        usage = server.complete(request).usage
        fresh = usage.input_tokens - usage.cached_tokens
        total += fresh
        sent += usage.input_tokens
        if request.tool_choice == "none":
            closing.append(fresh / usage.input_tokens)
    return total, sent, closing


def forms(model: str, seeds: int) -> Counter[str]:
    """How many thoughts and closing replies of as many seeds are what was asked for."""
    seen: Counter[str] = Counter()
    acted = tuple(conversation()[:5])
    for seed in range(seeds):
        server = connect(f"ollama:{model}", seed=seed, max_output_tokens=200, **SLOWLY)
        for name, messages in (("opening", (ASKED,)), ("after a result", acted)):
            request = Request(messages, TOOLS, tool_choice=Force("think"), system=POLICY)
            reply = server.complete(request)
            is_thought = reply.is_usable and [c.name for c in reply.tool_calls] == ["think"]
            seen[f"{name}: a whole thought by schema"] += is_thought and reply.enforced == "schema"
            seen[f"{name}: ignored"] += reply.enforced == "ignored"
        reply = server.complete(Request(acted, TOOLS, tool_choice="none", system=POLICY))
        seen["closing: by schema"] += reply.enforced == "schema"
        seen["closing: a call in text"] += bool(reply.tool_calls or MARKUP.search(reply.text))
    return seen


def plans(model: str, seeds: int) -> int:
    """How many first plans of the json dialect are whole, within 300 tokens."""
    whole = 0
    for seed in range(seeds):
        server = connect(f"ollama:{model}", seed=seed, max_output_tokens=300, **SLOWLY)
        reply = json_plan(server).complete(Request((ASKED,), TOOLS, system=POLICY))
        whole += reply.stop_reason != "max_tokens"
    return whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--seeds", type=int, default=20)
    asked = parser.parse_args()
    print(f"{datetime.now(UTC):%Y-%m-%d}, {asked.model}, {asked.seeds} seeds")
    totals = []
    for name, options in (("with forms", {}), ("without", {"format": False})):
        total, sent, closing = evaluated(asked.model, **options)
        totals.append(total)
        parts = ", ".join(f"{part:.0%}" for part in closing)
        print(f"evaluated {name}: {total} of {sent} tokens ({total / sent:.0%})", end="; ")
        print(f"of the closing calls {parts}")
    print(f"with forms / without: {totals[0] / totals[1]:.2f}")
    for name, count in forms(asked.model, asked.seeds).items():
        print(f"{name}: {count} of {asked.seeds}")
    print(f"plans that end: {plans(asked.model, asked.seeds)} of {asked.seeds}")


if __name__ == "__main__":
    main()
