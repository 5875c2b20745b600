"""The base of json and react: the model gets no native tools and writes its calls as text.

Rule 1: the transcript keeps the model's own reply in `native`, and the model sees it unchanged.
Rule 2: without a think tool, the model's notes count as thinking. A tool that carries its own
        thought is shown unchanged.
Rule 3: the format makes it a call, so it's strict. If the reply has other text, a call in it may
        only be quoted ("I must not do this. It would have been:"). If that call has side effects,
        the reply is `"malformed"`, and the model is asked to write the call alone. Marked thinking
        at the start doesn't count as other text.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template

from ..errors import ToolsUnsupported
from ..messages import (
    CARRIED,
    THINK_NAME,
    Assistant,
    Enforced,
    Json,
    ToolCall,
    ToolChoice,
    User,
    from_json,
    to_json,
)
from ..model import Model, Request
from ..text import json_text
from ..think import bare, has_signal
from ..tools import ModelMistake, Tool
from ..wire.outgoing import pair_results, prepare_messages
from .base import Dialect, Kind, join_texts, may_call
from .tags import without_leading_thinking

Conversation = list[User | Assistant]


@dataclass(frozen=True)
class ParsedReply:
    """A reply, parsed: `text` for the user, notes, and calls. `is_leaving`: it says that everything
    is done. `missing`: why the request can't be done, if it says so. `is_alone`: it has no other
    text. `commentary`: an interim remark to the user.
    """

    text: str
    notes: str = ""
    calls: Sequence[ToolCall] = ()
    is_leaving: bool = False
    is_alone: bool = True
    missing: str = ""
    commentary: str = ""


class Written(Dialect):
    """A model that gets no native tools and writes its calls as text.

    A subclass writes a tool choice as text (`choice`), and a reply that wasn't in this dialect
    (`write`). It reads a reply (`understand`), and names the format it `expected`. `signal`
    explains to the model how to write the exit signal. `key` names the system prompt's file, and
    the model's own reply in `native`.
    """

    dialect: str
    key: str
    enforced: Enforced
    expected: str
    signal: str

    def schema(self, request: Request) -> Json | None:
        """The schema of a reply in this dialect, if it has one."""
        return None

    def choice(self, choice: ToolChoice) -> str:
        return ""

    def write(self, reply: Assistant) -> str:
        raise NotImplementedError

    def understand(self, text: str, request: Request) -> ParsedReply:
        """Raises ModelMistake."""
        raise NotImplementedError

    def more(self, request: Request) -> Mapping[str, str]:
        """Other text for the system prompt, by placeholder."""
        return {}

    def check(self) -> None:
        with suppress(ToolsUnsupported):  # it needs no tool calling
            super().check()

    def ask(self, request: Request) -> tuple[Model, Request]:
        conversation = self.conversation(request)
        system = request.system
        schema = request.output_schema
        if may_call(request):
            schema = self.schema(request)
        if request.tools:
            add_user_text(conversation, self.choice(request.tool_choice))
            path = Path(__file__).with_name(f"{self.key}.md")
            prompt = Template(path.read_text(encoding="utf-8"))
            tools = "\n".join([_describe_tool(tool) for tool in others(request.tools).values()])
            signal = ""
            if signals(request.tools):
                signal = self.signal
            filled = prompt.substitute(self.more(request), signal=signal, tools=tools)
            system = f"{system}\n\n{filled}".strip()
        return self.inner, replace(
            request,
            messages=tuple(conversation),
            system=system,
            output_schema=schema,
            tools=(),
            tool_choice="auto",
        )

    def read(self, reply: Assistant, request: Request) -> Assistant:
        if reply.tool_calls:  # it had no native tools
            reply = replace(reply, tool_calls=(), native=None)
        enforced = None if request.tool_choice == "auto" else self.enforced
        native = {self.key: to_json(reply)}
        reply = replace(reply, native=native, dialect=self.dialect, enforced=enforced)
        if not reply.is_usable or not request.tools:
            return reply
        try:
            return self._understood(reply, request)
        except ModelMistake as problem:
            mistake = f"Your reply could not be read: {problem}. {self.expected}"
            return replace(reply, stop_reason="malformed", mistake=mistake)

    def _understood(self, reply: Assistant, request: Request) -> Assistant:
        """`reply` with its parsed text in the fields that the loop reads. Raises ModelMistake."""
        if request.tool_choice != "none":
            reply = without_leading_thinking(reply)
        parsed = self.understand(reply.text, request)
        if not parsed.is_alone:
            _check_harmless(parsed.calls, request.tools)

        calls = list(parsed.calls)
        is_silent = parsed.is_leaving and not calls and not signals(request.tools)
        if is_silent or kind_of_notes(request) == "thinking":
            reply = replace(reply, thinking=join_texts([reply.thinking, parsed.notes]))
        elif parsed.notes or not calls:
            calls.insert(0, _think_call(parsed, request.tools))
        reason = "tool_use" if calls else "end_turn"
        return replace(
            reply,
            text=parsed.text,
            commentary=join_texts([reply.commentary, parsed.commentary]),
            tool_calls=tuple(calls),
            stop_reason=reason,
        )

    def conversation(self, request: Request) -> Conversation:
        """The messages as text. The model's own replies are unchanged; each follows the text of its
        tool choice. Other replies are rewritten in the dialect. Results become observations.
        """
        conversation: Conversation = []
        sent = prepare_messages(request.messages, self.name, self.dialect)
        for message, answered in pair_results(sent):
            match message:
                case User(text=text):
                    add_user_text(conversation, text)
                case Assistant(native={self.key: own}):
                    reply = from_json(own)
                    assert isinstance(reply, Assistant)
                    add_user_text(conversation, self.choice(message.tool_choice))
                    conversation.append(reply)
                case Assistant():
                    text = self.write(message)
                    conversation.append(
                        replace(message, text=text, tool_calls=(), native=None, dialect="")
                    )
            for call, result in answered:
                text = result.content
                if result.name != THINK_NAME:  # in the dialect, `think` isn't a tool
                    arguments = json_text(bare(call).arguments)
                    text = f"Observation ({call.name} {arguments}): {text}"
                add_user_text(conversation, text)
        return conversation


def add_user_text(conversation: Conversation, text: str) -> None:
    """Add a user message. Small models' chat templates expect the roles to alternate."""
    if not text:
        return
    if conversation and isinstance(conversation[-1], User):
        text = f"{conversation.pop().text}\n\n{text}"
    conversation.append(User(text))


def _describe_tool(tool: Tool) -> str:
    """A tool as text. Unlike native tool calling, text can describe what the tool returns."""
    described: Json = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    if tool.returns:
        described["returns"] = tool.returns
    return json_text(described)


def kind_of_notes(request: Request) -> Kind:
    """The kind of a reply's notes: a thought if there is a think tool, otherwise thinking."""
    names = [tool.name for tool in request.tools]
    if THINK_NAME in names and request.tool_choice != "none":
        return "thought"
    return "thinking"


def signals(tools: Sequence[Tool]) -> bool:
    """Is there a think tool that has the exit signal?"""
    return any(tool.name == THINK_NAME and has_signal(tool) for tool in tools)


def others(tools: Sequence[Tool]) -> dict[str, Tool]:
    """All tools except think, by name."""
    return {tool.name: tool for tool in tools if tool.name != THINK_NAME}


def _think_call(parsed: ParsedReply, tools: Sequence[Tool]) -> ToolCall:
    arguments = {CARRIED: parsed.notes}
    if signals(tools):
        arguments["should_continue"] = "false" if parsed.is_leaving else "true"
    if parsed.missing:
        arguments |= {"should_continue": "cannot", "missing": parsed.missing}
    return ToolCall("", THINK_NAME, arguments)


def _check_harmless(calls: Sequence[ToolCall], tools: Sequence[Tool]) -> None:
    """Raises ModelMistake if a call's tool isn't read-only."""
    by_name = others(tools)
    for call in calls:
        tool = by_name.get(call.name)
        if tool and not tool.read_only:
            raise ModelMistake(
                f"{tool.name} was not run: your reply has other text beside the call; to run it, "
                "write it alone"
            )
