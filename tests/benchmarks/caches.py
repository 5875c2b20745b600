"""Simulates what a provider charges for a series of requests, by its published rules.

Rule 1: no provider is asked. A request is cut into blocks in the order in which the provider reads
        them (tools, system prompt, messages). Tokens are characters of JSON by `per_token`.
Rule 2: a cache is a set of prefixes that were written. A request reads the longest prefix that it
        begins with, looking back from its own marks. It writes up to its marks.
Rule 3: each token of a request is read from the cache, written to it, or fresh. A prefix below the
        model's minimum is not cached.

The rules are data (`PROVIDERS`), each with its source and date. Nothing expires here: the calls of
a run are seconds apart, and caches live for minutes.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

TOKEN_SIZES = (4.0, 2.7)  # characters of English and JSON a token: old tokenizers, and the newest
LOOK_BACK = 20  # blocks before a mark in which Anthropic looks for what was written

CHOICES = ("tool_choice", "thinking", "output_config")  # they are part of what a cache compares

Json = dict[str, Any]


@dataclass(frozen=True)
class Rules:
    """What one model costs, in shares of the price of an input token, and when it caches.

    `minimum`: tokens; a shorter beginning is not cached. `writes`, `reads`: the price of a token
    that is written or read. `input`, `output`: dollars per million tokens. `marks_only`: only what
    ends at a mark is kept; else every beginning is. `per_token`: characters.
    """

    model: str
    minimum: int
    writes: float
    reads: float
    input: float | None
    output: float | None
    marks_only: bool
    source: str
    per_token: float = 3.5

    def tokens(self, characters: int) -> int:
        return math.ceil(characters / self.per_token)


class Block(NamedTuple):
    """A piece of a request: what it is to the cache, its size in characters, and whether a mark
    stands on it.
    """

    key: str
    size: int
    is_marked: bool = False


@dataclass(frozen=True)
class Bill:
    """The tokens of one or more calls."""

    fresh: int = 0
    written: int = 0
    read: int = 0
    generated: int = 0
    calls: int = 0

    def __add__(self, other: "Bill") -> "Bill":
        return Bill(
            self.fresh + other.fresh,
            self.written + other.written,
            self.read + other.read,
            self.generated + other.generated,
            self.calls + other.calls,
        )

    @property
    def sent(self) -> int:
        return self.fresh + self.written + self.read

    def units(self, rules: Rules) -> float:
        """The input, in prices of one fresh input token."""
        return self.fresh + self.written * rules.writes + self.read * rules.reads

    def dollars(self, rules: Rules) -> float | None:
        """None where the prices are not known."""
        if rules.input is None or rules.output is None:
            return None
        millionths = self.units(rules) * rules.input + self.generated * rules.output
        return millionths / 1_000_000


@dataclass
class Cache:
    """What a provider keeps of the requests of one account."""

    rules: Rules
    kept: set[tuple[str, ...]] = field(default_factory=set)

    def charge(self, blocks: Sequence[Block], generated: int) -> Bill:
        """The bill of one request; what it writes is kept. `generated`: characters."""
        keys = tuple(block.key for block in blocks)
        ends = self._ends(blocks)
        read_to = self._longest_kept(keys, ends)
        written_to = max(ends, default=0)
        for end in ends:
            self.kept.add(keys[:end])

        read = self._tokens(blocks[:read_to])
        kept = self._tokens(blocks[: max(read_to, written_to)])
        fresh = self._tokens(blocks) - kept
        return Bill(fresh, kept - read, read, self.rules.tokens(generated), 1)

    def _ends(self, blocks: Sequence[Block]) -> list[int]:
        """Where a beginning ends that can be kept."""
        ends = []
        for end in range(1, len(blocks) + 1):
            may_end = blocks[end - 1].is_marked or not self.rules.marks_only
            if may_end and self._tokens(blocks[:end]) >= self.rules.minimum:
                ends.append(end)
        return ends

    def _tokens(self, blocks: Iterable[Block]) -> int:
        return self.rules.tokens(sum(block.size for block in blocks))

    def _longest_kept(self, keys: tuple[str, ...], ends: Iterable[int]) -> int:
        for end in sorted(ends, reverse=True):
            for back in range(end, max(0, end - LOOK_BACK), -1):
                if keys[:back] in self.kept:
                    return back
        return 0


def size_of(value: Any) -> int:
    """The characters of a text or of JSON."""
    return len(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


# A request, cut into blocks.


def anthropic_blocks(body: Json) -> list[Block]:
    """Tools, system prompt, blocks of messages. A mark on the whole request stands on its last
    block. Messages that were cached under one tool choice are no use under another.
    """
    blocks = [_block(tool) for tool in body.get("tools", ())]
    system = body.get("system", "")
    if isinstance(system, str):
        system = [{"text": system}]
    for part in system:
        blocks.append(_block(part["text"])._replace(is_marked="cache_control" in part))
    schema = json.dumps(body.get("output_config"))  # another one is another prompt
    blocks = [block._replace(key=schema + block.key) for block in blocks]
    choice = json.dumps([body.get("tool_choice"), body.get("thinking"), schema])
    for message in body["messages"]:
        for part in message["content"]:
            block = _block(part)
            blocks.append(block._replace(key=f"{choice}{message['role']}{block.key}"))
    if body.get("cache_control"):
        blocks[-1] = blocks[-1]._replace(is_marked=True)
    return blocks


def responses_blocks(body: Json) -> list[Block]:
    """OpenAI marks the end of the latest message by itself."""
    blocks = [_block(tool) for tool in body.get("tools", ())]
    if body.get("instructions"):
        blocks.append(_block(body["instructions"]))
    if body.get("text"):
        blocks.append(_block(body["text"]))  # another schema is another prompt
    blocks += [_block(item) for item in body["input"]]
    blocks[-1] = blocks[-1]._replace(is_marked=True)
    return blocks


def gemini_blocks(body: Json) -> list[Block]:
    """Every beginning may be kept."""
    blocks = [_block(body["systemInstruction"])] if "systemInstruction" in body else []
    for group in body.get("tools", ()):
        blocks += [_block(tool) for tool in group["functionDeclarations"]]
    return blocks + [_block(content) for content in body["contents"]]


def ollama_blocks(body: Json) -> list[Block]:
    """The prompt of qwen3.5. The tools stand first, so without them it is another prompt. Replies
    of the newest turn have marks for their thinking, so the next turn reads them anew. A form
    (`format`) is not in it.
    """
    blocks = [_block(tool) for tool in body.get("tools", ())]
    roles = [message["role"] for message in body["messages"]]
    newest = len(roles) - roles[::-1].index("user")
    for at, message in enumerate(body["messages"]):
        block = _block(message)
        if at >= newest and message["role"] == "assistant":
            block = block._replace(key=f"newest {block.key}")
        blocks.append(block)
    return blocks


def _block(part: Any) -> Block:
    is_marked = isinstance(part, dict) and "cache_control" in part
    if is_marked:
        part = {key: value for key, value in part.items() if key != "cache_control"}
    return Block(json.dumps(part, sort_keys=True), size_of(part), is_marked)


CUT = {
    "anthropic": anthropic_blocks,
    "openai-responses": responses_blocks,
    "gemini": gemini_blocks,
    "ollama": ollama_blocks,
}
PROVIDERS = {
    "anthropic": Rules(
        model="claude-haiku-5-5",
        minimum=1024,
        writes=1.25,
        reads=0.1,
        input=0.10,
        output=0.50,
        marks_only=True,
        source="platform.claude.com, prompt caching (2026-09): a write ends at a mark, a read "
        "looks back 20 blocks, another tool_choice is no match for the messages. A read costs 0.05 "
        "on Opus 5.5 and Sonnet 5.5, 0.025 on Fable 5.1 and Mythos 5.1. At least 512 tokens on "
        "Opus 5 and Fable 5, 1,024 on Sonnet 5, 4,096 on Haiku 4.5; for Haiku 5.5 one stored copy "
        "of the page says 512, another says nothing, 1,024 is taken. Above 100,000 tokens of a "
        "prompt, Haiku 5.5 costs five times as much",
    ),
    "openai-responses": Rules(
        model="gpt-6-luna",
        minimum=1024,
        writes=1.25,
        reads=0.1,
        input=0.10,
        output=0.50,
        marks_only=True,
        source="developers.openai.com, prompt caching, for GPT-5.6 and later (2026-09): a mark "
        "stands at the end of the latest message by itself, a write costs 1.25, 1,024 tokens at "
        "least. The price of output is from four secondary sources",
    ),
    "gemini": Rules(
        model="gemini-3.8-flash",
        minimum=4096,
        writes=1.0,
        reads=0.1,
        input=None,
        output=None,
        marks_only=False,
        source="ai.google.dev, context caching (2026-10): implicit, not guaranteed, no fee for a "
        "write, 4,096 tokens at least",
    ),
    "ollama": Rules(
        model="qwen3.5:4b",
        minimum=1,
        writes=1.0,
        reads=0.0,
        input=None,
        output=None,
        marks_only=False,
        source="no price: a unit is a token that the machine evaluates anew. What was evaluated "
        "before is kept, but a new turn reads the replies of the turn before it anew, without the "
        "marks for their thinking. A real Ollama 0.34.4 with the renderer of qwen3.5 evaluated "
        "17 % of the tokens of two refunds, and 30 % with `format=False` "
        "(`python -m tests.benchmarks.ollama`, 2026-11-29)",
    ),
}


Call = tuple[Json, int]  # a body, and the characters that were generated


def bill_of(rules: Rules, cut: Any, calls: Iterable[Call]) -> Bill:
    """The bill of a series of requests."""
    cache = Cache(rules)
    total = Bill()
    for body, generated in calls:
        total += cache.charge(cut(body), generated)
    return total


def least(rules: Rules, cut: Any, calls: Iterable[Call]) -> Bill:
    """What no cache can go below: every token is sent once and generated once."""
    sent: Counter[Block] = Counter()
    generated = 0
    for body, characters in calls:
        plain = {key: value for key, value in body.items() if key not in CHOICES}
        sent |= Counter(block._replace(is_marked=False) for block in cut(plain))
        generated += characters
    size = sum(block.size * count for block, count in sent.items())
    return Bill(fresh=rules.tokens(size), generated=rules.tokens(generated))
