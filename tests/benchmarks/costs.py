"""What a recorded thought costs: `python -m tests.benchmarks.costs` writes COSTS.md.

Rule 1: no provider is asked. The kit's own requests, sent to a local server that a script answers,
        are charged by the simulator of `caches.py`.
Rule 2: each side does the same work: the refund desk in three turns, and one turn that reads thirty
        files. What differs is how thoughts come about.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from demos.refund.dialects import speak_dialect
from demos.refund.offline import reply as desk_script
from demos.refund.shop import INSTRUCTIONS, Shop
from tests.benchmarks.caches import (
    CUT,
    PROVIDERS,
    TOKEN_SIZES,
    Bill,
    Cache,
    Call,
    Rules,
    bill_of,
    least,
    size_of,
)
from tests.servers import Brain, serve
from tests.servers.anthropic import without_marks
from tests.support.agents import of_kind
from tests.support.providers import SPEAKS, carrying, model_of
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
from think_agent.wire.forms import TEXT as ANY_TEXT

PAGE = Path(__file__).with_name("COSTS.md")
ORDERS = ("ORD-001", "ORD-002", "ORD-003")
FILES = 30
TEXT = "The quick brown fox jumps over the lazy dog. " * 20  # of a file


# The jobs. An agent of a model and of how to think is sent one request after another.


@tool(read_only=True)
def read_file(number: int) -> str:
    """Read one of the files, by its number."""
    return f"File {number}. {TEXT}"


def reader(model: Model, **how: Any) -> Agent:
    return Agent(model, [read_file], instructions="Read every file.", max_model_calls=99, **how)


def desk_agent(model: Model, **how: Any) -> Agent:
    tools = Shop().tools()
    if how.get("think", True) is None:  # then nothing can be guarded by a thought
        tools = [replace(item, think_first=False) for item in tools]
    return Agent(model, tools, instructions=INSTRUCTIONS.read_text(encoding="utf-8"), **how)


def file_script(request: Request) -> Assistant:
    """Reads the files one after another, and thinks at every fifth."""
    said = [n for n, message in enumerate(request.messages) if isinstance(message, User)]
    done = [message for message in request.messages[said[-1] :] if _is_read(message)]
    last = request.messages[-1]
    has_thought = isinstance(last, ToolResult) and last.name == "think"
    can_think = any(tool.name == "think" for tool in request.tools)
    is_over = len(done) == FILES
    answer = Assistant(f"All {FILES} files are read. {TEXT[:200]}")
    if request.tool_choice == "none":
        return answer
    if isinstance(request.tool_choice, Force):
        return _thinking(len(done), is_over)
    if is_over and not can_think:
        return answer
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


@dataclass(frozen=True)
class Job:
    """What an agent is asked for. `script` plays the model; `scripts` has other scripts for some
    sides, by their names.
    """

    name: str
    agent: Callable[..., Agent]
    requests: Sequence[str]
    script: Brain
    scripts: Mapping[str, Brain] = field(default_factory=dict)


CARRY, JSON = "`carry=True`", "`json` dialect"
REFUNDS = [f"I want a refund on order {order}" for order in ORDERS]
READING = ["Read files 1 to 30."]
WITH_THOUGHTS = {CARRY: carrying(desk_script)}
DESK = Job("refund desk, three turns", desk_agent, REFUNDS, desk_script, WITH_THOUGHTS)
THIRTY = Job("thirty files, one turn", reader, READING, file_script, {JSON: with_reasons})
TALK = Job("thirty files, three turns", reader, READING * 3, file_script)


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


def played(
    provider: str, job: Job, side: Side, **options: Any
) -> tuple[list[Call], Sequence[Message]]:
    """The calls of a job, and its transcript. `options` are the provider's."""
    script = job.scripts.get(side.name, job.script)
    with serve(SPEAKS[provider][0](), speak_dialect(script, side.dialect)) as server:
        model = model_of(provider, server, PROVIDERS[provider].model, **options)
        agent = job.agent(in_dialect(model, side.dialect), **side.how)
        transcript: Sequence[Message] = ()
        for text in job.requests:
            transcript = agent.run(text, transcript=transcript).transcript
    generated = [_generated(reply) for reply in of_kind(transcript, Assistant)]
    return list(zip(server.requests, generated, strict=True)), transcript


def _generated(reply: Assistant) -> int:
    calls = [len(call.name) + size_of(call.arguments) for call in reply.tool_calls]
    return len(reply.text) + sum(calls)


HEAD = (
    "| | calls | input units | of all fresh | $ a 1,000 | at least | $ at least |\n"
    "|---|---|---|---|---|---|---|"
)


def sized(rules: Rules) -> list[Rules]:
    """The rules for large tokens and for small ones."""
    return [replace(rules, per_token=size) for size in TOKEN_SIZES]


def cost_table(*rows: tuple[str, str, Rules, list[Call]]) -> str:
    """A row of costs for each (its name, the provider, its rules, the calls), with the range over
    the size of a token, and the limit of any cache.
    """
    lines = [HEAD]
    for name, provider, rules, calls in rows:
        cut = CUT[provider]
        bills = [bill_of(each, cut, calls) for each in sized(rules)]
        limits = [least(each, cut, calls) for each in sized(rules)]
        limit = between(limits, lambda bill, of=rules: f"{bill.units(of):,.0f}")
        dollars = between(limits, price(rules))
        lines.append(f"{bills_row(name, rules, bills)} {limit} | {dollars} |")
    return "\n".join(lines)


def bills_row(name: str, rules: Rules, bills: list[Bill]) -> str:
    units = between(bills, lambda bill: f"{bill.units(rules):,.0f}")
    share = between(bills, lambda bill: f"{bill.units(rules) / bill.sent:.0%}")
    return f"| {name} | {bills[0].calls} | {units} | {share} | {between(bills, price(rules))} |"


def price(rules: Rules) -> Callable[[Bill], str]:
    def dollars(bill: Bill) -> str:
        cost = bill.dollars(rules)
        return "–" if cost is None else f"{cost * 1000:.2f}"

    return dollars


def between(bills: list[Bill], shown: Callable[[Bill], str]) -> str:
    """A figure of both bills: one text if they are the same."""
    return " – ".join(dict.fromkeys(shown(bill) for bill in bills))


def table(provider: str, job: Job) -> str:
    rules = PROVIDERS[provider]
    rows = [(side.name, provider, rules, calls) for side, calls in sides(provider, job)]
    return cost_table(*rows)


def sides(provider: str, job: Job) -> Iterator[tuple[Side, list[Call]]]:
    """The calls of each way to think."""
    for side in SIDES:
        if side.name == CARRY and job is THIRTY:
            continue  # no call of it is guarded
        calls, _ = played(provider, job, side)
        yield side, calls


READS = {"Haiku 5.5": 0.1, "Opus 5.5, Sonnet 5.5": 0.05, "Fable 5.1, Mythos 5.1": 0.025}


def reads(job: Job) -> str:
    """The share of all fresh on Claude, for each price of a read."""
    rows = [f"| | {' | '.join(f'{name} ({read:g})' for name, read in READS.items())} |"]
    rows.append("|---" * (len(READS) + 1) + "|")
    for side, calls in sides("anthropic", job):
        cells = []
        for read in READS.values():
            rules = replace(PROVIDERS["anthropic"], reads=read)
            bills = [bill_of(each, CUT["anthropic"], calls) for each in sized(rules)]
            cells.append(between(bills, lambda bill, of=rules: f"{bill.units(of) / bill.sent:.0%}"))
        rows.append(f"| {side.name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def minimums() -> str:
    """Both jobs where a cache begins at another length."""
    rows = []
    for provider in ("openai-responses", "gemini"):
        rules = PROVIDERS[provider]
        for job in (DESK, THIRTY):
            calls, _ = played(provider, job, SIDES[2])
            for minimum in sorted({1, 1024, rules.minimum}):
                name = f"{job.name}: {rules.model}, {minimum:,}"
                mark = " (its own)" if minimum == rules.minimum else ""
                rows.append((name + mark, provider, replace(rules, minimum=minimum), calls))
    return cost_table(*rows)


# What each extra of the kit costs: the calls it causes.


def stumbling(request: Request) -> Assistant:
    """The desk's script, but it stops once although its thought says that there is more to do."""
    asked = [said for said in of_kind(request.messages, User) if said.kind != "person"]
    results = of_kind(request.messages, ToolResult)
    heard = replace(request, messages=[m for m in request.messages if m not in asked])
    last = results[-1] if results else None
    was_silent = any(not reply.tool_calls for reply in of_kind(request.messages, Assistant))
    if last and last.name == "lookup_order" and not was_silent:
        return Assistant("I have found the order. Now let me check it against the policy.")
    if isinstance(request.messages[-1], User) and results:
        return _calling("check_refund_policy", {"order_id": ORDERS[0]})
    return desk_script(heard)


def cause_of(body: Json, before: Message) -> str:
    """Which extra caused a call; "" for none. `before`: the message before its reply."""
    choice = str(body.get("tool_choice") or body.get("toolConfig") or "auto").lower()
    form = body.get("format")
    if isinstance(before, User) and before.kind in ("silence", "check"):
        return f"{before.kind} question"
    if "none" in choice or form == ANY_TEXT or not body.get("tools"):
        return "final call"
    return "forced thought" if "think" in choice or form else ""


def extras(provider: str) -> str:
    rules = PROVIDERS[provider]
    asked_once: list[int] = []

    def missing_once(turn: Any) -> str | None:
        """The receipt is missing, the first time."""
        asked_once.append(1)
        return "ORD-001: no receipt was sent" if len(asked_once) == 1 else None

    bills: dict[str, list[Bill]] = {}
    for script, how in [
        (desk_script, {}),
        (stumbling, {"force": "never"}),
        (desk_script, {"done_when": [missing_once]}),
    ]:
        job = Job("one refund", desk_agent, REFUNDS[:1], script)
        calls, transcript = played(provider, job, Side("", how))
        caches = [Cache(each) for each in sized(rules)]
        before = _before_replies(transcript)
        for (body, generated), message in zip(calls, before, strict=True):
            charged = [cache.charge(CUT[provider](body), generated) for cache in caches]
            cause = cause_of(body, message)
            if cause:
                bills.setdefault(cause, charged)
    head = "| | calls | input units | of all fresh | $ a 1,000 |\n|---|---|---|---|---|"
    return "\n".join([head, *(bills_row(cause, rules, bills[cause]) for cause in bills)])


def _before_replies(transcript: Sequence[Message]) -> list[Message]:
    """The last message that the model read before each reply."""
    before = []
    read = transcript[0]
    for message in transcript:
        if isinstance(message, Assistant):
            before.append(read)
        elif isinstance(message, User | ToolResult):
            read = message
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


def variants() -> str:
    """The desk on Claude: as the kit sends it, with other marks, and with other minimums."""
    claude = "anthropic"
    rules = PROVIDERS[claude]
    calls, _ = played(claude, DESK, SIDES[2])
    return cost_table(
        ("`cache=False`", claude, rules, changed(calls, without_marks)),
        ("only a mark at the end", claude, rules, changed(calls, one_mark)),
        ("as the kit sends it", claude, rules, calls),
        ("… with a minimum of 512", claude, replace(rules, minimum=512), calls),
        ("… with a minimum of 4,096", claude, replace(rules, minimum=4096), calls),
        ("… to a model that refuses forcing", claude, rules, changed(calls, free, "tool")),
        ("(a free choice at the end)", claude, rules, changed(calls, free, "none")),
    )


def kept_prefix() -> str:
    """The desk on Ollama: the final call with the tools and a form, and without both."""
    rules = PROVIDERS["ollama"]
    rows = []
    for name, options in (("as the kit sends it", {}), ("`format=False`", {"format": False})):
        for job in (DESK, TALK):
            calls, _ = played("ollama", job, SIDES[2], **options)
            rows.append((f"{job.name}, {name}", "ollama", rules, calls))
    return cost_table(*rows)


def long_talk() -> str:
    """Thirty files, three times over: turns longer than a cache looks back."""
    rules = PROVIDERS["anthropic"]
    calls, _ = played("anthropic", TALK, SIDES[2])
    return cost_table(
        ("only a mark at the end", "anthropic", rules, changed(calls, one_mark)),
        ("as the kit sends it", "anthropic", rules, calls),
    )


def thought_line() -> str:
    """The README's one line: both jobs, and both sizes of a token."""
    rules, cut = PROVIDERS["anthropic"], CUT["anthropic"]
    prices = []
    for job in (DESK, THIRTY):
        plain, _ = played("anthropic", job, SIDES[0])
        thinking, transcript = played("anthropic", job, SIDES[2])
        replies = of_kind(transcript, Assistant)
        calls = [call.name for reply in replies for call in reply.tool_calls]
        thoughts = calls.count("think")
        for each in sized(rules):
            more = bill_of(each, cut, thinking).dollars(each) or 0
            more -= bill_of(each, cut, plain).dollars(each) or 0
            prices.append(more / thoughts * 1000)
    return (
        f"A thousand recorded thoughts cost ${min(prices):.2f} to ${max(prices):.2f} on "
        f"{rules.model}: that is how much more the default costs than the loop without thoughts, "
        "in both jobs and with both sizes of a token."
    )


ON_OLLAMA = [  # template, then tokens: with forms, without them, by a naive loop
    ("Go, without thinking (the Modelfile of `smol`)", 1381, 2685, 944),
    ("the renderer qwen3.5, with thinking", 2130, 3238, 1400),
]
"""What no simulation can show: measured 2026-11-29 by `python -m tests.benchmarks.ollama MODEL`."""


def beside_naive() -> str:
    rows = [
        "| template | with forms, 8 calls | without, 8 calls | naive loop, 4 calls "
        "| with / without | with / naive |",
        "|---|---|---|---|---|---|",
    ]
    for template, forms, without, naive in ON_OLLAMA:
        rows.append(
            f"| {template} | {forms:,} | {without:,} | {naive:,} | {forms / without:.2f} "
            f"| {forms / naive:.2f} |"
        )
    return "\n".join(rows)


def page() -> str:
    """COSTS.md."""
    parts = [
        "# What a run costs in tokens",
        "`python -m tests.benchmarks.costs` makes this page. **No provider was asked**: the kit "
        "sent its requests to a local server, where a script answered, and the published rules "
        "([`caches.py`](caches.py)) gave the cost. A range is over the size of a token: 4.0 "
        "characters, then 2.7 (the newest tokenizers make about 30 % more tokens of a text). A "
        "short job may cost less with more tokens, because more of it reaches the length at which "
        "a cache begins. One input unit is the price of one fresh input token. *At least* is the "
        "limit of a design: every token is sent once and generated once. The rules, read "
        "2026-11-23:",
        "\n".join(
            f"- **{rules.model}**: a read costs {rules.reads:g}, a write {rules.writes:g}. "
            f"{rules.source}."
            for rules in PROVIDERS.values()
        ),
        thought_line(),
        "Left out: native reasoning (what a model thinks by itself is paid as output, on top of "
        "all rows), requests that are tried again, caches that expire, and discounts for batches.",
    ]
    for job in (DESK, THIRTY):
        for provider in PROVIDERS:
            parts += [f"## {job.name}: {PROVIDERS[provider].model}", table(provider, job)]
    parts.append("## Claude, by the price of a read")
    parts.append("Of all fresh. The prices of these models differ, their rules do not.")
    for job in (DESK, THIRTY):
        parts += [f"### {job.name}", reads(job)]
    parts.append("## OpenAI and Gemini, by the length at which a cache begins")
    parts += ["With the default. On Gemini hardly anything of a short job is cached.", minimums()]
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
        "## Ollama, with and without a kept prefix",
        "The kit asks for the final reply in a form, with the tools, so the prompt begins as "
        "before. With `format=False` it leaves the tools out: they stand first, and all of it is "
        "evaluated anew.",
        kept_prefix(),
        "## Ollama, beside a naive loop",
        "Forms save tokens against the same calls without them. They still cost more than a loop "
        "without thoughts: about 1.5 times its tokens, for twice the calls (a thought before each "
        "look, and the signal after it). It depends on the template. Tokens evaluated in two "
        "refunds by a real Ollama 0.34.4 with a model of 135M parameters, measured 2026-11-29 by "
        "`python -m tests.benchmarks.ollama MODEL`:",
        beside_naive(),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    text = page()
    PAGE.write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
