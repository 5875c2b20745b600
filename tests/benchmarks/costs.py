"""What a recorded thought costs: `python -m tests.benchmarks.costs` writes COSTS.md.

Rule 1: no provider is asked. The kit's own requests, sent to a local server that a script answers,
        are charged by the simulator of `caches.py`.
Rule 2: each side does the same work: the refund desk in three turns, and one turn that reads thirty
        files. What differs is how thoughts come about.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from demos.refund.dialects import speaking
from demos.refund.offline import reply as desk_script
from demos.refund.shop import INSTRUCTIONS, Shop
from tests.benchmarks.caches import CUT, PROVIDERS, Bill, Cache, Rules, bill_of, tokens_in
from tests.servers import Brain, ProviderServer, serve
from tests.servers.anthropic import without_marks
from tests.support.providers import SPEAKS, model_of
from think_agent import (
    Agent,
    Assistant,
    Force,
    Message,
    Model,
    Request,
    ToolCall,
    ToolResult,
    User,
    tool,
)
from think_agent.dialects import in_dialect
from think_agent.messages import Json

PAGE = Path(__file__).with_name("COSTS.md")
ORDERS = ("ORD-001", "ORD-002", "ORD-003")
FILES = 30
TEXT = "The quick brown fox jumps over the lazy dog. " * 20  # of a file


# Two jobs. A job takes a model and how to think, and gives the transcript.


@tool(read_only=True)
def read_file(number: int) -> str:
    """Read one of the files, by its number."""
    return f"File {number}. {TEXT}"


def thirty_files(model: Model, **how: Any) -> Sequence[Message]:
    agent = Agent(model, [read_file], instructions="Read every file.", max_model_calls=99, **how)
    return agent.run("Read files 1 to 30.").transcript


def thrice_thirty(model: Model, **how: Any) -> Sequence[Message]:
    agent = Agent(model, [read_file], instructions="Read every file.", max_model_calls=99, **how)
    transcript: Sequence[Message] = ()
    for _ in range(3):
        transcript = agent.run("Read files 1 to 30.", transcript=transcript).transcript
    return transcript


def desk_agent(model: Model, **how: Any) -> Agent:
    tools = Shop().tools()
    if how.get("think", True) is None:  # then nothing can be guarded by a thought
        tools = [replace(item, think_first=False) for item in tools]
    return Agent(model, tools, instructions=INSTRUCTIONS.read_text(encoding="utf-8"), **how)


def refund_desk(model: Model, **how: Any) -> Sequence[Message]:
    agent = desk_agent(model, **how)
    transcript: Sequence[Message] = ()
    for order in ORDERS:
        outcome = agent.run(f"I want a refund on order {order}", transcript=transcript)
        transcript = outcome.transcript
    return transcript


def file_script(request: Request) -> Assistant:
    """Reads the files one after another, and thinks at every fifth."""
    said = [n for n, message in enumerate(request.messages) if isinstance(message, User)]
    done = [message for message in request.messages[said[-1] :] if _is_read(message)]
    last = request.messages[-1]
    has_thought = isinstance(last, ToolResult) and last.name == "think"
    can_think = any(tool.name == "think" for tool in request.tools)
    is_over = len(done) == FILES
    if request.tool_choice == "none":
        return Assistant(f"All {FILES} files are read. {TEXT[:200]}")
    if isinstance(request.tool_choice, Force):
        return _thinking(len(done), is_over)
    if is_over and not can_think:
        return Assistant(f"All {FILES} files are read. {TEXT[:200]}")
    if can_think and (is_over or (len(done) % 5 == 0 and not has_thought)):
        return _thinking(len(done), is_over)
    return _calling("read_file", {"number": len(done) + 1})


def with_reasons(request: Request) -> Assistant:
    """The same script, with the reason that a plan has to give for each action."""
    reply = file_script(request)
    if not reply.tool_calls or reply.tool_calls[0].name == "think":
        return reply
    number = reply.tool_calls[0].arguments["number"]  # type: ignore[index]
    thought = {"thought": f"File {number} is next.", "should_continue": "true"}
    return replace(reply, tool_calls=(ToolCall("", "think", thought), *reply.tool_calls))


def _is_read(message: Message) -> bool:
    return isinstance(message, ToolResult) and message.name == "read_file"


def _thinking(count: int, is_over: bool) -> Assistant:
    thought = f"{count} of {FILES} files are read, none of them contradicts another. Next: go on."
    return _calling("think", {"thought": thought, "should_continue": str(not is_over).lower()})


def _calling(name: str, arguments: Json) -> Assistant:
    return Assistant(tool_calls=(ToolCall("", name, arguments),), stop_reason="tool_use")


def carrying(request: Request) -> Assistant:
    """The desk's script, but a call that takes a thought carries it."""
    takes = {tool.name for tool in request.tools if tool.carries}
    reply = desk_script(request)
    calls = []
    for call in reply.tool_calls:
        if call.name in takes and isinstance(call.arguments, dict):
            thought = "Checked against the rules: bought in time, no final sale, not too dear."
            call = replace(call, arguments={"thought": thought, **call.arguments})
        calls.append(call)
    return replace(reply, tool_calls=tuple(calls))


@dataclass(frozen=True)
class Job:
    """`script` plays the model; `scripts` has other scripts for some sides, by their names."""

    name: str
    run: Callable[..., Sequence[Message]]
    script: Brain
    scripts: Mapping[str, Brain] = field(default_factory=dict)


CARRY, JSON = "`carry=True`", "`json` dialect"
DESK = Job("refund desk, three turns", refund_desk, desk_script, {CARRY: carrying})
THIRTY = Job("thirty files, one turn", thirty_files, file_script, {JSON: with_reasons})
TALK = Job("thirty files, three turns", thrice_thirty, file_script)


@dataclass(frozen=True)
class Side:
    """How thoughts come about: settings of the agent, and the dialect."""

    name: str
    how: Json
    dialect: str = "native"


SIDES = (
    Side("no think tool (as a loop by hand)", {"think": None, "silence": "accept"}),
    Side('`force="never"`', {"force": "never"}),
    Side('`force="first"` (the default)', {"force": "first"}),
    Side('`force="always"`', {"force": "always"}),
    Side(CARRY, {"carry": True, "force": "never"}),
    Side(JSON, {"force": "first"}, dialect="json"),
)


# The requests and replies, and what they cost.


@contextmanager
def serving(provider: str, script: Brain) -> Iterator[tuple[ProviderServer, Model]]:
    with serve(SPEAKS[provider][0](), script) as server:
        yield server, model_of(provider, server, PROVIDERS[provider].model)


Call = tuple[Json, int]  # a body, and the tokens that were generated


def played(provider: str, job: Job, side: Side) -> tuple[list[Call], Sequence[Message]]:
    """The calls of a job, and its transcript."""
    script = job.scripts.get(side.name, job.script)
    with serving(provider, speaking(script, side.dialect)) as (server, model):
        transcript = job.run(in_dialect(model, side.dialect), **side.how)
        bodies = list(server.requests)
    replies = [message for message in transcript if isinstance(message, Assistant)]
    generated = [_generated(reply) for reply in replies]
    return list(zip(bodies, generated, strict=True)), transcript


def _generated(reply: Assistant) -> int:
    tokens = tokens_in(reply.text) if reply.text else 0
    for call in reply.tool_calls:
        tokens += tokens_in(call.name) + tokens_in(call.arguments)
    return tokens


def cost_row(name: str, bill: Bill, rules: Rules) -> str:
    dollars = bill.dollars(rules)
    price = "–" if dollars is None else f"{dollars * 1000:.2f}"
    share = bill.units(rules) / bill.sent
    figures = f"{bill.fresh:,} | {bill.written:,} | {bill.read:,} | {bill.generated:,}"
    units = f"{bill.units(rules):,.0f} | {share:.0%}"
    return f"| {name} | {bill.calls} | {figures} | {units} | {price} |"


HEAD = (
    "| | calls | fresh | written | read | generated | input units | of all fresh | $ a 1,000 |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def table(provider: str, job: Job) -> str:
    rules = PROVIDERS[provider]
    rows = [HEAD]
    for side in SIDES:
        if side.name == CARRY and job is THIRTY:
            continue  # no call of it is guarded
        calls, _ = played(provider, job, side)
        rows.append(cost_row(side.name, bill_of(rules, CUT[provider], calls), rules))
    return "\n".join(rows)


# What each extra of the kit costs: the calls it causes.


def stumbling(request: Request) -> Assistant:
    """The desk's script, but it stops once although its thought says that there is more to do."""
    asked = [m for m in request.messages if isinstance(m, User) and m.kind != "person"]
    results = [m for m in request.messages if isinstance(m, ToolResult)]
    heard = replace(request, messages=[m for m in request.messages if m not in asked])
    last = results[-1] if results else None
    if last and last.name == "lookup_order" and not _was_silent(request):
        return Assistant("I have found the order. Now let me check it against the policy.")
    if isinstance(request.messages[-1], User) and results:
        return _calling("check_refund_policy", {"order_id": ORDERS[0]})
    return desk_script(heard)


def _was_silent(request: Request) -> bool:
    return any(isinstance(m, Assistant) and not m.tool_calls for m in request.messages)


def one_refund(model: Model, **how: Any) -> Sequence[Message]:
    return desk_agent(model, **how).run(f"I want a refund on order {ORDERS[0]}").transcript


def cause_of(body: Json, before: Message) -> str:
    """Which extra caused a call; "" for none. `before`: the message before its reply."""
    choice = str(body.get("tool_choice") or body.get("toolConfig") or "auto").lower()
    if isinstance(before, User) and before.kind in ("silence", "check"):
        return f"{before.kind} question"
    if "none" in choice or not body.get("tools"):
        return "final call"
    return "forced thought" if "think" in choice else ""


def extras(provider: str) -> str:
    rules = PROVIDERS[provider]
    asked_once: list[int] = []

    def missing_once(turn: Any) -> str | None:
        """The receipt is missing, the first time."""
        asked_once.append(1)
        return "ORD-001: no receipt was sent" if len(asked_once) == 1 else None

    bills: dict[str, Bill] = {}
    for script, how in [
        (desk_script, {}),
        (stumbling, {"force": "never"}),
        (desk_script, {"done_when": [missing_once]}),
    ]:
        job = Job("one refund", one_refund, script)
        calls, transcript = played(provider, job, Side("", how))
        cache = Cache(rules)
        before = _before_replies(transcript)
        for (body, generated), message in zip(calls, before, strict=True):
            bill = cache.charge(CUT[provider](body), generated)
            cause = cause_of(body, message)
            if cause and cause not in bills:
                bills[cause] = bill
    rows = [HEAD, *(cost_row(cause, bill, rules) for cause, bill in bills.items())]
    return "\n".join(rows)


def _before_replies(transcript: Sequence[Message]) -> list[Message]:
    """The last message that the model read before each reply."""
    before: list[Message] = []
    for number, message in enumerate(transcript):
        if isinstance(message, Assistant):
            read = [m for m in transcript[:number] if isinstance(m, User | ToolResult)]
            before.append(read[-1])
    return before


def one_mark(body: Json) -> Json:
    """The request to Anthropic with only the mark at the end of the request."""
    return {**without_marks(body), "cache_control": {"type": "ephemeral"}}


def free(body: Json, kind: str) -> Json:
    """The request to Anthropic if calls with this tool choice had a free choice."""
    if body.get("tool_choice", {}).get("type") == kind:
        return {key: value for key, value in body.items() if key != "tool_choice"}
    return body


def changed(calls: list[Call], change: Callable[..., Json], *arguments: str) -> list[Call]:
    """The calls, with each body changed."""
    return [(change(body, *arguments), generated) for body, generated in calls]


def claude_table(*rows: tuple[str, Rules, list[Call]]) -> str:
    """A row of costs for each: its name, the rules of the cache, the calls."""
    lines = [HEAD]
    for name, rules, calls in rows:
        lines.append(cost_row(name, bill_of(rules, CUT["anthropic"], calls), rules))
    return "\n".join(lines)


def variants() -> str:
    """The desk on Claude: as the kit sends it, with other marks, and with other minimums."""
    rules = PROVIDERS["anthropic"]
    calls, _ = played("anthropic", DESK, SIDES[2])
    return claude_table(
        ("`cache=False`", rules, changed(calls, without_marks)),
        ("only a mark at the end", rules, changed(calls, one_mark)),
        ("as the kit sends it", rules, calls),
        ("… with a minimum of 512", replace(rules, minimum=512), calls),
        ("… with a minimum of 4,096", replace(rules, minimum=4096), calls),
        ("… to a model that refuses forcing", rules, changed(calls, free, "tool")),
        ("(a free choice at the end)", rules, changed(calls, free, "none")),
    )


def long_talk() -> str:
    """Thirty files, three times over: turns longer than a cache looks back."""
    rules = PROVIDERS["anthropic"]
    calls, _ = played("anthropic", TALK, SIDES[2])
    return claude_table(
        ("only a mark at the end", rules, changed(calls, one_mark)),
        ("as the kit sends it", rules, calls),
    )


def thought_line() -> str:
    """The README's one line."""
    rules, cut = PROVIDERS["anthropic"], CUT["anthropic"]
    plain, _ = played("anthropic", DESK, SIDES[0])
    thinking, transcript = played("anthropic", DESK, SIDES[2])
    thoughts = sum(
        call.name == "think"
        for message in transcript
        if isinstance(message, Assistant)
        for call in message.tool_calls
    )
    more = bill_of(rules, cut, thinking).dollars(rules) or 0
    more -= bill_of(rules, cut, plain).dollars(rules) or 0
    return (
        f"A thousand recorded thoughts cost about ${more / thoughts * 1000:.2f} on {rules.model} "
        f"at the refund desk: three turns take {len(thinking)} calls with {thoughts} thoughts; the "
        f"loop without thoughts takes {len(plain)} calls."
    )


def page() -> str:
    """COSTS.md."""
    parts = [
        "# What a run costs in tokens",
        "`python -m tests.benchmarks.costs` makes this page. **No provider was asked**: the kit "
        "sent its requests to a local server, where a script answered, and the published rules "
        "([`caches.py`](caches.py)) gave the cost. A token is 3.5 characters. One input unit is "
        "the price of one fresh input token. The rules, read 2026-11-23:",
        "\n".join(
            f"- **{rules.model}**: a read costs {rules.reads:g}, a write {rules.writes:g}. "
            f"{rules.source}."
            for rules in PROVIDERS.values()
        ),
        thought_line(),
    ]
    for job in (DESK, THIRTY):
        for provider in PROVIDERS:
            parts += [f"## {job.name}: {PROVIDERS[provider].model}", table(provider, job)]
    parts.append("## What each extra costs")
    parts.append(
        "Each row is one call of a run with one order at the refund desk. Tokens that are read "
        "from the cache are cheap. On Claude a forced thought and the final call have another tool "
        "choice than the calls around them, so they cannot read the messages from the cache."
    )
    for provider in PROVIDERS:
        parts += [f"### {PROVIDERS[provider].model}", extras(provider)]
    parts += [
        "## The desk on Claude, with other cache marks",
        "The kit sends three marks: at the end of the system prompt, at the end of the request, "
        "and where the last request with the same tool choice ended. A request with another tool "
        "choice cannot read the messages from the cache. So they are written once for each of the "
        "three choices: forced, free and none. That is most of the remaining cost, and no mark can "
        "avoid it. Models that refuse forcing have only two choices. The kit does not send the "
        "last row: it shows what the final call without tools costs.",
        variants(),
        "Thirty files in each of three turns (a cache looks back 20 blocks from a mark):",
        long_talk(),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    text = page()
    PAGE.write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
