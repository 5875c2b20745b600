"""The react dialect: tools in plain text, for models that know neither tool calls nor schemas.

    Thought: 13 days and $89, so rule 5.                     -> a think call
    Action: process_refund                                   -> a tool call
    Action Input: {"order_id": "ORD-001", …}
    (the result comes back as)  Observation (process_refund {…}): …
    Thought: All is recorded.
    Final Answer: Your refund is on its way.                 -> the exit signal

Rule 1: a label begins a line, in any case, bold or numbered as it may be. It rules until the next
        one. "Observation:" is a stop sequence: what a model invents after it is cut off. All other
        text after "Final Answer:" is the answer, "Action:" included.
Rule 2: a reply is read as a whole or not at all. Where anything in it cannot be read, nothing is
        run, and `mistake` tells the model what was wrong and what was expected.
Rule 3: a Final Answer is the exit signal, and its words are the final reply: the final call of the
        loop is answered with them, from the transcript, and the model is not asked a second time.
        With a think tool that has no exit signal, or without one, a Final Answer is silence; and
        where such a tool was asked for, one that stands beside the Thought is not its turn yet.
Rule 4: a Final Answer after an Action in the same reply was written before there was a result. It
        is dropped.
Rule 5: a tool choice is asked for in words, in the last message (`enforced="prompt"`); so the
        system prompt stays the same bytes for a whole run, and what was asked once stays asked.
Rule 6: the transcript keeps the model's own words in `native`, and they are what it sees again.

What counts as an Action Input: a JSON object, on several lines or in a fence as it may be, whatever
follows it; for a tool with one parameter, or one required one, also its bare value; for a tool
without required parameters also nothing. Where one is needed and missing, Rule 2 applies: half an
Action is not run. "Action: None" is no action, "Action: think" is a thought.

The edge: an undeclared tool is a call all the same, and the loop answers that there is none. A raw
line break in a JSON string, followed by a label, ends the Action Input; JSON wants it escaped. In
the final call plain words are the answer, wherever they stand outside of Thoughts and Actions. A
Thought that no think tool can take goes to `thinking`.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..loop import BROKEN_OFF
from ..messages import (
    THINK_NAME,
    Assistant,
    Force,
    Json,
    ToolCall,
    ToolChoice,
    ToolResult,
    User,
    from_json,
    mint_ids,
    to_json,
)
from ..model import Capabilities, Model, Request, Wrapper, sendable
from ..streaming import CallReader, Delta
from ..think import has_signal, thought
from ..tools import ModelMistake, Tool
from .labels import Piece, Sections, Splitter, split
from .text_calls import json_at, typed

NATIVE = "react"  # the key of the model's own reply in `Assistant.native`
ACTION = re.compile(r"[\s`*\"'\[(<]*([\w.-]*\w)[`*\"'>]*[\])]?\.?[`*\"'>]*(.*)", re.DOTALL)
INLINE = re.compile(r"[(\[](.*)[)\]]\.?", re.DOTALL)
FENCE = re.compile(r"\A```[\w-]*\s*|```\Z")
NOTHING = ("", "none", "null", "n/a")
FORMAT = """\
# How to reply

You work in turns. Every reply is plain text in this format, each label at the start of a line:

Thought: short working notes: which rules apply, what is still unknown, which step comes next
Action: the name of one tool
Action Input: its arguments, as one JSON object

Then stop: the result comes back as an Observation in the next message. Never write one yourself.
When everything is done and what is left is to tell the user, write instead:

Thought: a last check against the rules
Final Answer: what you tell the user
{think}
# Tools
"""
THINK_IS_THOUGHT = """
Where you are told to use the tool think, write a Thought{signal}.
"""
SIGNAL = '; a Final Answer is its\nshould_continue "false"'
EXPECTED = (
    'Write "Thought:" with your notes, then either "Action:" with the name of one tool and '
    '"Action Input:" with a JSON object, or "Final Answer:" with the words for the user; each label'
    " at the start of a line."
)


class React(Wrapper):
    """A model that is spoken to in Thoughts, Actions and Observations."""

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """Those of the model inside, but any of them can call, and none be forced to."""
        return replace(self.inner.capabilities, tools=True, forcing="none")

    def complete(self, request: Request) -> Assistant:
        if told := told_already(request):
            return told
        return read(self.inner.complete(asked(request, self.name)), request)

    async def acomplete(self, request: Request) -> Assistant:
        if told := told_already(request):
            return told
        return read(await self.inner.acomplete(asked(request, self.name)), request)

    def stream(self, request: Request) -> Iterator[Delta | Assistant]:
        if told := told_already(request):  # its Deltas came with the Final Answer
            yield told
            return
        teller = _Teller(request)
        for event in self.inner.stream(asked(request, self.name)):
            yield from teller.tell(event)

    async def astream(self, request: Request) -> AsyncIterator[Delta | Assistant]:
        if told := told_already(request):
            yield told
            return
        teller = _Teller(request)
        async for event in self.inner.astream(asked(request, self.name)):
            for piece in teller.tell(event):
                yield piece


def react(model: Model) -> Model:
    """`model`, spoken to in the react dialect."""
    return React(model)


# Asking: Request -> Request.


def asked(request: Request, provider: str) -> Request:
    """The request that the model inside gets: words, and no tools."""
    messages: list[User | Assistant] = []
    calls: dict[str, ToolCall] = {}
    for message in sendable(request.messages, provider, "react"):
        match message:
            case User(text=text):
                _say(messages, text)
            case ToolResult(call_id=id, name=name, content=content):
                _say(messages, _observation(calls.get(id, ToolCall(id, name)), content))
            case Assistant(native={"react": dict(before)}):
                calls |= {call.id: call for call in message.tool_calls}
                if before:  # else it was told from the transcript: the model has said it already
                    _say(messages, _in_words(message.tool_choice, request.tools))
                    messages.append(_assistant(before))
            case Assistant():
                calls |= {call.id: call for call in message.tool_calls}
                messages.append(
                    replace(message, text=_written(message), tool_calls=(), native=None, dialect="")
                )
    if not request.tools:
        return replace(request, messages=tuple(messages), tool_choice="auto")
    _say(messages, _in_words(request.tool_choice, request.tools))
    return Request(
        tuple(messages),
        system=f"{request.system}\n\n{instructions(request.tools)}".strip(),
        output_schema=request.output_schema if request.tool_choice == "none" else None,
    )


def instructions(tools: Sequence[Tool]) -> str:
    """The part of the system prompt that describes the format and the tools."""
    known = {tool.name: tool for tool in tools}
    signal = SIGNAL if _has_signal(known) else ""
    think = THINK_IS_THOUGHT.format(signal=signal) if THINK_NAME in known else ""
    lines = (
        f"- {tool.name}: {tool.description}\n"
        f"  Action Input: JSON of the schema {json.dumps(tool.parameters, ensure_ascii=False)}"
        for tool in tools
        if tool.name != THINK_NAME
    )
    return "\n".join([FORMAT.format(think=think), *lines])


def _say(messages: list[User | Assistant], text: str) -> None:
    """Add what the model hears. Chat templates of small models want the roles to take turns."""
    if not text:
        return
    if messages and isinstance(last := messages[-1], User):
        messages[-1] = User(f"{last.text}\n\n{text}")
    else:
        messages.append(User(text))


def _in_words(choice: ToolChoice, tools: Sequence[Tool]) -> str:
    match choice:
        case Force(name=name) if name == THINK_NAME:
            leaves = _has_signal({tool.name: tool for tool in tools})
            return f"Now write a Thought, and no Action{'' if leaves else ' or Final Answer'} yet."
        case Force(name=name):
            return f"Now write an Action with the tool {name}."
        case "required":
            return "Now write an Action; or, when everything is done, the Final Answer."
        case "none":
            return "Now write the Final Answer, in plain words, and no Action."
    return ""


def _observation(call: ToolCall, content: str) -> str:
    if call.name == THINK_NAME:
        return f"Observation (thought): {content}"
    return f"Observation ({call.name} {_json(call.arguments)}): {content}"


def _written(reply: Assistant) -> str:
    """How a reply that was not written in this dialect would have been."""
    if reply.stop_reason == "malformed":
        return reply.text
    if not reply.tool_calls:
        return f"Final Answer: {reply.text}"
    lines = [reply.text] if reply.text else []
    for call in reply.tool_calls:
        if call.name == THINK_NAME:
            lines.append(f"Thought: {thought(call)}")
        else:
            lines.append(f"Action: {call.name}\nAction Input: {_json(call.arguments)}")
    return "\n".join(lines)


def _json(arguments: Json | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _assistant(data: Json) -> Assistant:
    message = from_json(data)
    assert isinstance(message, Assistant)
    return message


# Reading: Assistant -> Assistant.


def read(inner: Assistant, request: Request) -> Assistant:
    """What the model wrote, as the loop knows it."""
    reply = replace(
        inner,
        tool_calls=(),
        native={NATIVE: to_json(inner)},
        dialect="react",
        enforced=None if request.tool_choice == "auto" else "prompt",
        tool_choice=request.tool_choice,
    )
    sections = split(inner.text)
    if _is_final(request) or inner.stop_reason in BROKEN_OFF:
        words = [text for label, text in sections if label in ("", "final answer") and text]
        return replace(reply, text="\n\n".join(words))
    try:
        return mint_ids(_acted(reply, sections, request.tools), request.messages)
    except ModelMistake as problem:
        return replace(reply, stop_reason="malformed", mistake=f"{problem} {EXPECTED}")


def told_already(request: Request) -> Assistant | None:
    """The reply to the final call, when the model has written it as its Final Answer before."""
    if request.tool_choice != "none" or request.output_schema is not None:
        return None
    for message in reversed(request.messages):
        match message:
            case ToolResult(name=name) if name == THINK_NAME:
                continue
            case Assistant(native={"react": dict(before)}, tool_calls=calls) if before and calls:
                words = dict(split(_assistant(before).text)).get("final answer", "")
                told = Assistant(
                    text=words,
                    model=message.model,
                    provider=message.provider,
                    native={NATIVE: {}},  # nobody was asked
                    dialect="react",
                    enforced="prompt",
                    tool_choice="none",
                )
                return told if words else None
        return None
    return None


def _is_final(request: Request) -> bool:
    return request.tool_choice == "none" or not request.tools


def _acted(reply: Assistant, sections: Sections, tools: Sequence[Tool]) -> Assistant:
    """The reply with the calls of its sections. Raises ModelMistake."""
    known = {tool.name: tool for tool in tools}
    signal = {"should_continue": "true"} if _has_signal(known) else {}
    calls: list[ToolCall] = []
    notes: list[str] = []
    answer: str | None = None
    before = ""
    for (label, text), (after, given) in zip(sections, [*sections[1:], ("", "")], strict=True):
        match label:
            case "thought" if text:
                notes.append(text)
                calls.append(ToolCall("", THINK_NAME, {"thought": text} | signal))
            case "action":
                name, inline = _named(text)
                given = given if after == "action input" else inline
                given = "" if given.lower() in NOTHING else given
                if name == THINK_NAME and name in known:
                    if given or not notes:  # else the Thought before it was meant
                        calls.append(ToolCall("", name, signal | _notes(given)))
                elif name.lower() not in NOTHING:
                    calls.append(ToolCall("", name, _arguments(name, given, known.get(name))))
            case "action input" if before != "action":
                raise ModelMistake("There was an Action Input without an Action before it.")
            case "final answer" if all(call.name == THINK_NAME for call in calls):
                answer = text
        before = label
    if notes and not signal and reply.tool_choice == Force(THINK_NAME):
        answer = None
    if answer is not None and signal:
        *first, last = calls or [ToolCall("", THINK_NAME, {"thought": ""})]
        assert isinstance(last.arguments, dict)
        calls = [*first, replace(last, arguments=last.arguments | {"should_continue": "false"})]
    elif answer is not None or THINK_NAME not in known:
        calls = [call for call in calls if call.name != THINK_NAME]
        reply = replace(reply, thinking="\n".join(filter(None, [reply.thinking, *notes])))
    if calls:
        return replace(reply, text=sections[0][1], tool_calls=tuple(calls), stop_reason="tool_use")
    if answer is None:
        raise ModelMistake("Your reply had no label with a text after it that could be acted on.")
    return replace(reply, text=answer)


def _has_signal(tools: Mapping[str, Tool]) -> bool:
    think = tools.get(THINK_NAME)
    return think is not None and has_signal(think)


def _named(text: str) -> tuple[str, str]:
    """The name in the text of an Action, and an input that stands there too: `look[ORD-001]`,
    `look({"order_id": …})`, `look {…}`.
    """
    found = ACTION.match(text)
    if found is None:
        return "", ""
    name, rest = found[1], found[2].strip()
    if inside := INLINE.fullmatch(rest):
        return name, inside[1].strip()
    return name, rest if rest.startswith(("{", "```")) else ""


def _notes(given: str) -> Json:
    """The arguments of an Action with the tool think: JSON, or plain notes."""
    value = _object(given)
    return {"thought": given} if value is None else value


def _arguments(name: str, given: str, tool: Tool | None) -> Json | str:
    """The arguments in an Action Input. Raises ModelMistake."""
    if (value := _object(given)) is not None:
        return value
    bare = FENCE.sub("", given).strip()
    if tool is None:  # the loop will say so
        return bare or {}
    properties = tool.parameters.get("properties", {})
    required = tool.parameters.get("required", [])
    missing = not bare
    if missing and not required:
        return {}
    if not missing and not bare.startswith("{"):
        for names in (required, list(properties)):
            if len(names) == 1:
                return {names[0]: _unquoted(bare, properties.get(names[0], {}))}
    what = "no Action Input" if missing else "an Action Input that cannot be read"
    wanted = ", ".join(required or properties) or "nothing in it"
    raise ModelMistake(f"The Action {name} has {what}. It must be one JSON object, with: {wanted}.")


def _object(text: str) -> Json | None:
    """The JSON object that a text, or the fence at its start, begins with."""
    fence = FENCE.match(text)
    found = json_at(text, fence.end() if fence else 0)
    return found[0] if found and isinstance(found[0], dict) else None


def _unquoted(text: str, schema: Json) -> Any:
    """A bare value, with the quotes of JSON taken off when they are around all of it."""
    found = json_at(text, 0) if text.startswith('"') else None
    return typed(found[0] if found and found[1] == len(text) else text, schema)


# Splitting a text at its labels, and telling a stream on.


class _Teller:
    """Makes Deltas of the sections as they form: thoughts, calls, and the answer."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._thinks = any(tool.name == THINK_NAME for tool in request.tools)
        self._splitter = Splitter()
        self._told = ""  # of this section
        self._space = ""  # that waits for more text
        self._calls = 0  # counted so far
        self._acted = self._answered = False
        self._action = ""
        self._input: CallReader | None = None

    def tell(self, event: Delta | Assistant) -> Iterator[Delta | Assistant]:
        """What to tell of an event of the inner stream."""
        match event:
            case Delta(kind="answer", text=text):
                for piece in self._splitter.feed(text):
                    yield from self._read(piece)
            case Delta(kind="thinking"):
                yield event
            case Assistant():
                for piece in self._splitter.close():
                    yield from self._read(piece)
                yield read(event, self._request)

    def _read(self, piece: Piece) -> Iterator[Delta]:
        if piece.new:
            self._told = self._space = ""
            if piece.label == "action":
                self._action, self._input, self._acted = "", None, True
            return
        if piece.label == "action":
            self._action += piece.text
            return
        text = self._trimmed(piece.text)
        if text:
            first, self._told = not self._told, self._told + text
            yield from self._deltas(piece.label, text, first)

    def _trimmed(self, piece: str) -> str:
        text = self._space + piece if self._told else piece.lstrip()
        body = text.rstrip()
        self._space = text[len(body) :]
        return body

    def _deltas(self, label: str, text: str, first: bool) -> Iterator[Delta]:
        final = _is_final(self._request)
        match label:
            case "thought" if not final:
                self._calls += first
                if self._thinks:
                    yield Delta("thought", text, THINK_NAME, self._calls - 1)
                else:
                    yield Delta("thinking", text)
            case "action input" if not final:
                if self._input is None:
                    self._input = CallReader(_named(self._action)[0], self._calls)
                    self._calls += 1
                yield from self._input.feed(text)
            case "" | "final answer" if final or (label and not self._acted):
                yield Delta("answer", "\n\n" + text if first and self._answered else text)
                self._answered = True
