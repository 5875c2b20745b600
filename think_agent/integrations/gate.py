"""A gate: an MCP server in front of another one, for agents that you didn't write.

    client  ⇄  gate  ⇄  server

Rule 1: The client plays the model: each of its calls is the next reply. So the loop, the policies,
        the limits and the record are the kit's. A session is a turn.
Rule 2: Calls run one at a time, in the order they arrived.
Rule 3: A call runs only while its client waits for it. If it was cancelled before it started, or a
        killed gate left it behind, it doesn't run. Once started, it may have happened.
Rule 4: The client gets the server's result unchanged. The record contains its text.
Rule 5: If the record can't be written, nothing runs any more.

Limitations: only tools and their progress pass through. A gate doesn't see what the client's user
asks, what its model answers, or what it does with other tools. It runs on the event loop of
`waiting.py`.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from ..installing import install_command

try:
    from mcp import MCPError, stdio_server
    from mcp import types as wire
    from mcp.server import NotificationOptions
    from mcp.server import Server as Front
    from mcp.server.session import ServerSession
    from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
except ImportError as missing:
    advice = install_command("think-agent[mcp]")
    raise ImportError(f"the gate needs an SDK; run: {advice}") from missing

from .. import __version__
from ..agent import Agent
from ..errors import TranscriptInUse
from ..loop import CallModel, CallTool, Refuse, Step
from ..messages import THINK_NAME, Assistant, Started, ToolCall, ToolResult, Verdict
from ..model import Request
from ..question import AskHuman
from ..running import Event
from ..streaming import Notice
from ..text import shorten
from ..tools import MAY_HAVE_HAPPENED, NoResult, NothingDone, Tool, ToolOptions
from ..transcript import Transcript
from ..turn import Turn
from ..waiting import background_loop
from .gate_client import (
    SHOWN_THINK,
    THINK,
    Answer,
    Cancelled,
    ClientCall,
    ClientModel,
    Context,
    describe_session,
    make_answer,
    make_error,
    show_tool,
)
from .gate_record import KILLED, find_record, give_lost_results, was_left_open
from .mcp import Server, text_of

INSTRUCTIONS = (
    "A tool that changes something runs only with a thought behind it: call think before it, or "
    "put the thought into the call itself, where the tool has an argument for it."
)
ANSWER = "(The answer is not seen here.)"
NOT_SEEN_HERE = "what the user asks, what the client answers, what it does with other tools"
NOT_STARTED = "not run: the client cancelled it before it was started."
LEFT_BEHIND = "not run: the session that made this call is over."
LIMIT_REACHED = "not run: the limit of this session is reached. Begin another session."
MAY_HAVE_RUN = (
    "the same call was made before and may have happened: check whether it did. Only a person may "
    "let it run again, and the client has no way to ask one"
)
NO_LIMIT = 2**31  # the client decides when to stop
LEAVE_SECONDS = 10.0  # for ending the turn and the server after Ctrl-C


class Gate:
    """An MCP server in front of another one: it lists that server's tools, and `think`.

    - `address`, `trusted`, `declared`, `timeout`, `env`: as for `integrations.mcp.Server`.
    - `record`: a transcript file. If another process has it open, the next free name is used:
      `run-2.jsonl` after `run.jsonl`.
    - `approve`: who approves calls that need a yes, if the client can't ask its user for the gate.
      `"client"`: the client, which asks before each call itself. `"never"`: they're refused. A call
      that may have happened runs again only after a person's yes.
    - `max_actions`: the most tool calls in a session.
    - `say`: called with each line of the log.

    Raises ConnectionError if the server doesn't start, ValueError if a declared tool can't be used,
    and TranscriptError if the record can't be used.
    """

    def __init__(
        self,
        address: Any,
        record: str | os.PathLike[str],
        *,
        trusted: bool = False,
        declared: Mapping[str, ToolOptions] | None = None,
        approve: Literal["client", "never"] = "client",
        max_actions: int | None = None,
        timeout: float | None = 600.0,
        env: Mapping[str, str] | None = None,
        say: Callable[[str], None] = print,
    ) -> None:
        self._server = Server(
            address,
            trusted=trusted,
            declared=declared,
            timeout=timeout,
            env=env,
            shows_log=True,
            on_change=self._note_change,
        )
        self._path = Path(record)
        self._trusted = trusted
        self._approver = approve
        self._max_actions = max_actions
        self._say = say
        # The tools, and their descriptions for the client.
        self._is_stale = False  # has the server reported a change of its tools?
        self._listing = asyncio.Lock()
        self._changes = InMemorySubscriptionBus()
        self._session: ServerSession | None = None  # the latest one
        # The client's calls, in order. None: it has left.
        self._calls: asyncio.Queue[ClientCall | None] = asyncio.Queue()
        self._upcoming: list[ClientCall | None] = []  # the next one, if it has been read already
        self._waiting: dict[str, ClientCall] = {}  # the calls without a result, by id
        self._running: ClientCall | None = None
        self._record: Transcript | None = None
        self._recorded: Agent[Any] | None = None  # the agent whose tools are in its header
        self._was_killed = False  # the gate that began the open turn
        self._over = ""  # why no calls run any more
        self._left = asyncio.Event()

    def run(self) -> None:
        """Serve on stdin and stdout until the client leaves."""
        loop = background_loop()
        serving = asyncio.run_coroutine_threadsafe(self._serve(), loop)
        try:
            serving.result()
        except KeyboardInterrupt:
            loop.call_soon_threadsafe(self._left.set)
            with suppress(TimeoutError):
                serving.result(LEAVE_SECONDS)
            raise

    async def _serve(self) -> None:
        async with self.open_front() as front:
            serving = asyncio.create_task(_serve_on_stdio(front))
            left = asyncio.create_task(self._left.wait())
            await asyncio.wait({serving, left}, return_when=asyncio.FIRST_COMPLETED)
            left.cancel()
            serving.cancel()  # not awaited: after Ctrl-C, one of its threads still waits for stdin

    @asynccontextmanager
    async def open_front(self) -> AsyncIterator[Front[Any]]:
        """The server for the client, while the real server and the record are open."""
        async with self._server:
            self._make_agent()
            self._check_record()
            self._greet()
            working = asyncio.create_task(self._work())
            try:
                yield self._make_front()
            finally:
                for call in self._waiting.values():
                    call.cancelled.set()
                self._calls.put_nowait(None)
                await working

    def _greet(self) -> None:
        tools = self._server.tools.values()
        guarded = sum(tool.think_first for tool in tools)
        self._say(f"gate: {len(tools)} tools, {guarded} of them only with a thought")
        self._say(f"gate: not seen here: {NOT_SEEN_HERE}")
        offered = self._server.session.server_capabilities
        kept_out = [name for name in ("resources", "prompts") if getattr(offered, name)]
        if kept_out:
            names = " and ".join(kept_out)
            self._say(f"gate: this server offers {names}, too. They don't pass, only its tools do.")

    # --- the kit's side: an agent whose model is the client (rule 1) ---

    def _make_agent(self) -> None:
        """Create an agent with the server's current tools."""
        tools: dict[str, Tool] = {}
        for name, tool in self._server.tools.items():
            tools[tool.name] = replace(tool, function=self._make_caller(name))
        self._instructions = INSTRUCTIONS
        if self._server.session.instructions:
            self._instructions += f"\n\n{self._server.session.instructions}"
        self._agent = Agent(
            ClientModel(self._reply),
            tools.values(),
            instructions=self._instructions,
            think=THINK,
            carry=True,
            force="never",
            silence="accept",
            approve=self._approve,
            policies=[self._refuse_unawaited, give_lost_results(tools), never_force],
            max_actions=self._max_actions,
            max_model_calls=NO_LIMIT,
            max_thoughts_in_a_row=NO_LIMIT,
            patience=NO_LIMIT,
            max_repeats=NO_LIMIT,
        )

    def _make_caller(self, name: str) -> Callable[..., Awaitable[str]]:
        """A function that calls this tool on the server."""

        async def call_server(**arguments: Any) -> str:
            running = self._running
            assert running
            if running.cancelled.is_set():
                raise NothingDone(NOT_STARTED)
            work = self._server.call(name, arguments, running.report_progress)
            try:
                result = await running.unless_cancelled(work)
            except Cancelled:
                raise NoResult("the client cancelled it.") from None
            running.result = result
            if result.is_error:
                raise NoResult(text_of(result) or "the server gives no reason.")
            return text_of(result)

        return call_server

    async def _work(self) -> None:
        """Run the client's calls, session after session, until it leaves."""
        try:
            while not self._over and (call := await self._peek()):
                await self._run_session(call)
        except Exception as error:
            self._end(f"nothing runs any more: {error}")  # rule 5
            raise
        finally:
            if self._record:
                self._record.close()

    async def _run_session(self, call: ClientCall) -> None:
        """Run a turn that begins with this call, until the client leaves or the tools change."""
        if self._is_stale:
            await self._list_again()
        record = self._open_record()
        if was_left_open(record.turn):
            self._was_killed = True  # so this turn ends, and its open call doesn't run (rule 3)
            await self._agent.aresume(record, on_event=self._watch)
            self._was_killed = False
        outcome = await self._agent.arun(
            describe_session(call), transcript=record, on_event=self._watch
        )
        if outcome.exit == "limit":
            self._end(LIMIT_REACHED)

    def _end(self, reason: str) -> None:
        """Answer every call with the reason from now on."""
        self._over = reason
        for call in self._waiting.values():
            text = reason
            if call.is_started:
                text = f"{reason} {MAY_HAVE_HAPPENED}"
            call.answers.put_nowait(make_error(text))
        self._waiting.clear()

    async def _peek(self) -> ClientCall | None:
        """The client's next call, without consuming it. None: it has left."""
        if not self._upcoming:
            self._upcoming.append(await self._calls.get())
        return self._upcoming[0]

    async def _reply(self, request: Request) -> Assistant:
        """The client's next message: a call, or a text, which ends the turn."""
        if self._was_killed:
            return KILLED
        if request.tool_choice == "none":
            return Assistant(ANSWER)
        call = await self._peek()
        has_changed = self._is_stale or self._agent is not self._recorded
        if call is None or has_changed:
            return Assistant(ANSWER)
        self._upcoming.clear()
        self._running = call
        return Assistant(tool_calls=(call.call,), stop_reason="tool_use")

    def _refuse_unawaited(self, step: Step, turn: Turn) -> Step:
        """The policy of rule 3."""
        if not isinstance(step, CallTool) or step.call.name == THINK_NAME:
            return step
        call = self._waiting.get(step.call.id)
        if call is None:
            return Refuse(step.call, "stopped", LEFT_BEHIND)
        if call.cancelled.is_set():
            return Refuse(step.call, "stopped", NOT_STARTED)
        return step

    async def _approve(self, question: AskHuman) -> Verdict:
        call = self._waiting.get(question.call_id)
        if call is None:
            return question.no("its session is over", by="the gate")
        if call.can_ask:
            verdict = await _ask(call, question)
            if verdict:
                return verdict
        if question.as_new:
            return question.no(MAY_HAVE_RUN, by="the gate")
        if self._approver == "client":
            return question.yes(by="the client, which asks by itself")
        return question.no("the client has no way to ask a person", by="the gate")

    def _watch(self, event: Event) -> None:
        match event:
            case Notice(text):
                self._say(text)
            case Started(call_id=id) if id in self._waiting:
                self._waiting[id].is_started = True
            case ToolResult(call_id=id) if id in self._waiting:
                call = self._waiting.pop(id)
                call.answers.put_nowait(make_answer(event, call.result))

    # --- the record ---

    def _check_record(self) -> None:
        """Report what the record contains, or raise its problem, at the start. The record itself is
        opened at the first call, because some clients start a gate only to ask for its version.
        """
        with suppress(TranscriptInUse), self._agent.open(self._path) as record:
            turn = record.turn
            if was_left_open(turn) and turn.started:
                self._say(f"gate: {turn.started.name} was started by a gate that was killed.")
                self._say(f"gate: {MAY_HAVE_HAPPENED}")

    def _open_record(self) -> Transcript:
        """The open record. Its header lists the tools, so it's reopened when these change."""
        if self._record and self._recorded is self._agent:
            return self._record
        if self._record:
            self._record.close()
        self._record = find_record(self._agent, self._path)
        self._recorded = self._agent
        self._say(f"gate: the record is {self._record.path}")
        return self._record

    # --- the client's side ---

    def _make_front(self) -> Front[Any]:
        return Front(
            "think-agent gate",
            version=__version__,
            instructions=self._instructions,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=ListenHandler(self._changes),
        )

    async def _list_tools(
        self, context: Context, _: wire.PaginatedRequestParams | None
    ) -> wire.ListToolsResult:
        self._session = context.session
        if self._is_stale:
            await self._list_again()
        shown = [SHOWN_THINK]
        for listed in self._server.listed:
            tool = self._server.tools.get(listed.name)
            if tool:
                shown.append(show_tool(listed, tool, trusted=self._trusted))
        return wire.ListToolsResult(tools=shown)

    async def _call_tool(self, context: Context, params: wire.CallToolRequestParams) -> Answer:
        self._session = context.session
        if self._over:
            return make_error(self._over)
        for call in self._waiting.values():
            if call.is_asked_again(params):
                call.go_on(context, params)
                return await call.answer()
        return await self._take(context, params).answer()

    def _take(self, context: Context, params: wire.CallToolRequestParams) -> ClientCall:
        """A new call, which is the client's next reply once earlier calls are done (rule 2)."""
        name = params.name
        if name in self._server.tools:
            name = self._server.tools[name].name  # the kit's name may be shorter
        made = ToolCall(os.urandom(12).hex(), name, params.arguments or {})
        call = ClientCall(made, context)
        self._waiting[made.id] = call
        self._calls.put_nowait(call)
        return call

    async def _note_change(self) -> None:
        """The server says that its tools have changed. Pass that on to the client."""
        self._is_stale = True
        await self._changes.publish(ToolsListChanged())
        if self._session:
            await self._session.send_tool_list_changed()

    async def _list_again(self) -> None:
        async with self._listing:
            if not self._is_stale:
                return
            self._is_stale = False
            try:
                await self._server.list_again()
                self._make_agent()
            except Exception as error:
                self._say(f"gate: the changed tools can't be used: {shorten(str(error))}")


def never_force(step: Step, turn: Turn) -> Step:
    """A policy: don't force a thought, since a client can't be forced. A refusal tells it to
    think.
    """
    if isinstance(step, CallModel) and step.tool_choice != "none":
        return replace(step, tool_choice="auto")
    return step


async def _ask(call: ClientCall, question: AskHuman) -> Verdict | None:
    """Let the client ask its user. None: it says it can, but fails."""
    try:
        answer = await call.unless_cancelled(call.ask(question))
    except Cancelled:
        return question.no("it cancelled the call", by="the client")
    except Exception as error:
        if isinstance(error, MCPError) and error.code == wire.METHOD_NOT_FOUND:
            return None
        return question.no(f"it could not ask: {shorten(str(error))}", by="the client")
    if answer.action == "accept":
        return question.yes(by="the client's user")
    reason = ""
    if answer.action == "cancel":
        reason = "closed the question without an answer"
    return question.no(reason, by="the client's user")


async def _serve_on_stdio(front: Front[Any]) -> None:
    options = front.create_initialization_options(NotificationOptions(tools_changed=True))
    async with stdio_server() as (read, write):
        await front.run(read, write, options)
