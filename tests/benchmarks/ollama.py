"""What a form costs and brings on a real Ollama, run by hand (CONTRIBUTING, "Benchmarks").

    OLLAMA_HOST=127.0.0.1:11500 python -m tests.benchmarks.ollama --seeds 20 smol

It sends one script of calls with the forms, without them, and as a naive loop does, which has no
think tool and half as many calls. It counts the tokens that the server evaluated: those of its
prompts that were not in its cache. Then it asks for forced thoughts and closing replies of as many
seeds. It prints its figures with the date and the template. A Modelfile with the lines `RENDERER
qwen3.5` and `PARSER qwen3.5` makes the prompts of that family with any weights.
"""

import argparse
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from demos.refund.shop import INSTRUCTIONS, Shop
from think_agent import (
    THINK,
    Assistant,
    Force,
    Request,
    Tool,
    ToolCall,
    ToolResult,
    User,
    connect,
)
from think_agent.dialects.json_plan import json_plan
from think_agent.messages import Spoken

POLICY = INSTRUCTIONS.read_text(encoding="utf-8")
SLOWLY = {"dialect": "native", "timeout": 900}
DESK = tuple(Shop().tools())
TOOLS = (THINK, *DESK)
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
    """The requests of that conversation, as an agent sends them. Tools and instructions begin with
    `mark`, so that no earlier run has left them in the server's cache: some templates show the
    tools first, others the instructions.
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
        requests.append(_request(talk[:at], TOOLS, mark, choice))
    return requests


def naive_script(mark: str) -> list[Request]:
    """The requests of a loop without a think tool that does the same: a look and an answer each."""
    talk = [message for message in conversation() if not _is_about_think(message)]
    requests = []
    for at, message in enumerate(talk):
        if isinstance(message, Assistant):
            requests.append(_request(talk[:at], DESK, mark, "auto"))
    return requests


def _request(said: list[Spoken], tools: tuple[Tool, ...], mark: str, choice: Any) -> Request:
    marked = [replace(tool, description=mark + tool.description) for tool in tools]
    return Request(said, marked, tool_choice=choice, system=mark + POLICY, max_output_tokens=1)


def _is_about_think(message: Spoken) -> bool:
    match message:
        case ToolResult(name="think") | Assistant(tool_calls=(ToolCall(name="think"),)):
            return True
    return False


@dataclass
class Evaluated:
    """What a server evaluated of a script."""

    calls: int = 0
    fresh: int = 0  # tokens that were not in its cache
    sent: int = 0  # tokens of all prompts
    closing: list[float] = field(default_factory=list)  # the fresh part of each closing prompt


def evaluated(
    model: str, requests: Callable[[str], list[Request]] = script, **options: Any
) -> Evaluated:
    """Send a script, and count."""
    server = connect(f"ollama:{model}", seed=0, **SLOWLY, **options)
    found = Evaluated()
    for request in requests(f"{datetime.now(UTC):%H:%M:%S.%f}\n"):
        usage = server.complete(request).usage
        fresh = usage.input_tokens - usage.cached_tokens
        found.calls += 1
        found.fresh += fresh
        found.sent += usage.input_tokens
        if request.tool_choice == "none":
            found.closing.append(fresh / usage.input_tokens)
    return found


def template_of(model: str) -> str:
    """Whose template makes the prompts: a figure holds for it alone."""
    server: Any = connect(f"ollama:{model}", **SLOWLY)
    shown = server._ask("POST", "/api/show", {"model": model})
    line = re.search(r"^RENDERER (\S+)", shown.get("modelfile") or "", re.MULTILINE)
    if line:
        return f"the renderer {line[1]}"
    kind = "a template with thinking" if "thinking" in shown["capabilities"] else "without thinking"
    return f"{shown['details']['family']}, {kind}"


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
    print(f"{datetime.now(UTC):%Y-%m-%d}, {asked.model}, {template_of(asked.model)}")
    sides = {
        "with forms": evaluated(asked.model),
        "without": evaluated(asked.model, format=False),
        "naive loop": evaluated(asked.model, naive_script),
    }
    for name, found in sides.items():
        share = f"{found.fresh / found.sent:.0%}"
        line = f"{name}: {found.fresh} of {found.sent} tokens evaluated ({share})"
        parts = ", ".join(f"{part:.0%}" for part in found.closing)
        if parts:
            line = f"{line}, of the closing calls {parts}"
        print(f"{line}; {found.calls} calls")
    with_forms = sides.pop("with forms").fresh
    for name, found in sides.items():
        print(f"with forms / {name}: {with_forms / found.fresh:.2f}")
    for name, count in forms(asked.model, asked.seeds).items():
        print(f"{name}: {count} of {asked.seeds}")
    print(f"plans that end: {plans(asked.model, asked.seeds)} of {asked.seeds}")


if __name__ == "__main__":
    main()
