"""Recorded request bodies, kept in files.

    tests/data/recorded/bodies/PROTOCOL-DIALECT.json   the request bodies of one talk, one a line

`tests/core/test_recorded.py` holds today's code against them. A change of how the code is arranged
changes none of it. `python -m tests.support.recording` records the bodies anew: run it only when
they are meant to change (a prompt, a schema, a newer SDK), and read the diff.

Rule 1: nothing in a recording is random or of the day: the shop has a date, the clock counts
        seconds, and no header or port is kept.
Rule 2: order counts, of keys too: a provider's prompt cache knows a request by its bytes.
Rule 3: only names that stay are used, and all are imported here, so that code may move.
"""

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from demos.refund import offline
from demos.refund.dialects import speak_dialect
from demos.refund.offline import MANAGER_PRESENT
from demos.refund.shop import INSTRUCTIONS, Shop
from tests.servers import serve
from tests.support.providers import SPEAKS, model_of, run_plain, run_streamed
from think_agent import Agent, AskHuman, Model, Request
from think_agent.dialects.json_plan import json_plan
from think_agent.dialects.react import react
from think_agent.messages import Assistant, Force, Message, ToolResult, User, Verdict

RECORDED = Path(__file__).parents[1] / "data" / "recorded"
BODIES = RECORDED / "bodies"

TODAY = date(2026, 3, 1)
POLICY = INSTRUCTIONS.read_text(encoding="utf-8") + f"\nToday {MANAGER_PRESENT}.\n"

Json = dict[str, Any]
WAYS = {"plain": run_plain, "streamed": run_streamed}
DIALECTS = ("native", "json", "react")
MODELS = {"ollama": "qwen2.5:7b", "openai-responses": "gpt-5.6-luna", "gemini": "gemini-3.8-flash"}


# The scripts behind the models, and the person.


def musing(request: Request) -> Assistant:
    """The offline model, with native reasoning, which has to be sent back unchanged."""
    return replace(offline.reply(request), thinking="Let me see.")


def hurried(request: Request) -> Assistant:
    """The offline model, but it decides without a thought until it is asked to think."""
    tried = [message for message in request.messages if not _asks_to_think(message)]
    heard = replace(request, messages=tried)  # what was refused is still to be done
    if _asks_to_think(request.messages[-1]):
        return musing(replace(heard, tool_choice=Force("think")))
    said = musing(heard)
    decisions = tuple(call for call in said.tool_calls if call.name == "process_refund")
    return replace(said, tool_calls=decisions or said.tool_calls)


def _asks_to_think(message: Message) -> bool:
    """The refusal of a call without a thought, or of a plan without a reason."""
    match message:
        case ToolResult(content=said) | User(text=said):
            return "Call think first" in said or "reasoning is blank" in said
    return False


def changed_by_ada(question: AskHuman) -> Verdict:
    """A person who passes on a refund over the limit."""
    assert question.call
    assert isinstance(question.call.arguments, dict)
    arguments = {**question.call.arguments, "decision": "escalate"}
    return Verdict("yes", by="Ada", reason="not today", arguments=arguments)


# Bodies: one talk, by every protocol and dialect.


TALK = (  # together: history, every tool choice, several calls a reply, the gate, a person's change
    ("I want a refund on order ORD-001", musing, "always"),
    ("Please refund ORD-002 and ORD-004 too", hurried, "never"),
)


def talked(protocol: str, dialect: str, way: str) -> list[str]:
    """The request bodies of the talk as lines of JSON, in the order in which the server got them.
    Asserts that the talk went well: a server that refuses a body gets one, too.
    """
    shop = Shop(today=TODAY, manager=True)
    transcript: Sequence[Message] = ()
    with serve(SPEAKS[protocol][0](), offline.reply) as server:
        model = spoken(model_of(protocol, server, MODELS.get(protocol, "")), dialect)
        for said, script, force in TALK:
            server.brain = speak_dialect(script, dialect)
            settings = {"instructions": POLICY, "approve": changed_by_ada}
            agent = Agent(model, shop.tools(), force=force, **settings)
            outcome = WAYS[way](agent, said, transcript)
            assert outcome.exit == "signal", outcome
            transcript = outcome.transcript
    decided = [(row.order_id[-1], row.decision) for row in shop.decisions()]
    assert decided == [("1", "approve"), ("2", "deny"), ("4", "escalate")]
    return [line(body) for body in server.requests]


def spoken(model: Model, dialect: str) -> Model:
    """`model` in a dialect, with several calls in one reply if the dialect can."""
    if dialect == "json":
        return json_plan(model)
    return react(model) if dialect == "react" else model


def line(value: Any) -> str:
    """JSON on one line, keys in the order they have."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def written_bodies(plain: Sequence[str], streamed: Sequence[str]) -> str:
    """The file of a talk. Each plain body is written as its difference from the body before it,
    each streamed one as its difference from the plain one. So a change of a prompt is one line.
    """
    parts = {
        "plain": [difference(*pair) for pair in zip(["{}", *plain], plain, strict=False)],
        "streamed": [difference(*pair) for pair in zip(plain, streamed, strict=True)],
    }
    texts = (f'"{way}":[\n' + ",\n".join(map(line, part)) + "\n]" for way, part in parts.items())
    return "{\n" + ",\n".join(texts) + "\n}\n"


def difference(before: str, after: str) -> Json:
    """The difference: each key whose value has changed, and under `keys` the order of all keys if
    that has changed.
    """
    old, new = json.loads(before), json.loads(after)
    changed = {key: new[key] for key in new if key not in old or line(new[key]) != line(old[key])}
    return changed if [*new] == [*old] else {"keys": [*new], **changed}


def read_bodies(path: Path, way: str) -> list[str]:
    """The bodies in a file of `written_bodies`, whole."""
    recorded = json.loads(path.read_text(encoding="utf-8"))
    plain = list(itertools.accumulate(recorded["plain"], _changed, initial={}))[1:]
    if way == "streamed":
        plain = [_changed(*pair) for pair in zip(plain, recorded["streamed"], strict=True)]
    return [line(body) for body in plain]


def _changed(body: Json, changed: Json) -> Json:
    return {key: changed[key] if key in changed else body[key] for key in changed.get("keys", body)}


def bodies_file(protocol: str, dialect: str) -> Path:
    """Where the bodies of a talk are kept."""
    return BODIES / f"{protocol}-{dialect}.json"


# The command.


def main() -> None:
    for protocol, dialect in itertools.product(SPEAKS, DIALECTS):
        lines = [talked(protocol, dialect, way) for way in WAYS]
        bodies_file(protocol, dialect).write_text(written_bodies(*lines), encoding="utf-8")


if __name__ == "__main__":
    main()
