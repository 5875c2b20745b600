"""The web server of the refund desk: a page, and the requests that it makes.

    POST /conversations/NAME/turn        {model, text}          say something; a new NAME begins one
    POST /conversations/NAME/verdict     {model, decision, …}   answer the open question
    POST /conversations/NAME/edited      {arguments}            how they would run
    POST /conversations/NAME/resume      {model}                continue a stopped turn
    POST /conversations/NAME/stop
    GET  /conversations/NAME/events      everything so far, then each event (SSE)
    GET  /conversations, /models         for the lists

Rule 1: only this machine, and only its own pages: another website may neither ask (`Origin`) nor
        pretend that its name is this machine (`Host`), nor show the page in a frame.
Rule 2: one agent for each model serves all conversations, on one event loop.
Rule 3: slow work (loading an SDK, asking Ollama for its models) is done in a thread.
"""

import asyncio
import getpass
import json
import os
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi import Path as InPath
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, Field

from demos.refund.checks import make_checks
from demos.refund.offline import reply
from demos.refund.session import MANAGER
from demos.refund.shop import DESK_NAME, INSTRUCTIONS, Shop
from demos.web.conversations import Conversation, Unfitting, arguments_in
from think_agent import Agent, ModelError, Verdict, connect
from think_agent.errors import FileError
from think_agent.messages import Json
from think_agent.providers import PROVIDERS

HERE = Path(__file__).parent
OFFLINE = "offline:stand-in"
THIS_MACHINE = re.compile(r"(127\.0\.0\.1|localhost)(:\d{1,5})?")  # as a Host
NAME = re.compile(r"[\w-]{1,64}")  # of a conversation
# The SDK of each provider, and the variables that may hold its key. (To ask `connect` would load
# every SDK, which takes seconds of this process's time.)
HOSTED = {
    "anthropic": ("anthropic", "ANTHROPIC_API_KEY"),
    "openai": ("openai", "OPENAI_API_KEY"),
    "gemini": ("google.genai", "GOOGLE_API_KEY", "GEMINI_API_KEY"),
}
HEADERS = {  # rule 1; and what a model writes could load nothing, even if it became markup
    "Content-Security-Policy": "default-src 'self'; img-src data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


# What the page sends.


class Chosen(BaseModel, extra="forbid"):
    """A request that needs a model: one of `/models`."""

    model: str


class Said(Chosen):
    """What a person says."""

    text: Annotated[str, Field(min_length=1, max_length=20_000)]


class Answer(Chosen):
    """A person's answer to the question of the id `question`, as in `Verdict`. `arguments` may be
    JSON text: then no number in them passes through a browser.
    """

    question: Annotated[str, Field(min_length=1)]
    decision: Literal["yes", "no", "quit"]
    reason: str = ""
    arguments: Json | str | None = None
    new: bool = False

    def verdict(self) -> Verdict:
        """The answer as a message. Raises ValueError if the arguments aren't a JSON object."""
        given = self.model_dump(exclude={"model"})
        if isinstance(self.arguments, str):
            given["arguments"] = arguments_in(self.arguments)
        return Verdict(**given, by=getpass.getuser())


class Edited(BaseModel, extra="forbid"):
    """Arguments that a person is writing, as JSON text."""

    arguments: str


# What the server has.


class WebDesk:
    """The conversations in a folder, and the agents that work in them, around one shop."""

    def __init__(self, folder: Path, shop: Shop, *, pace: float) -> None:
        self._folder = folder
        self._shop = shop
        self._pace = pace
        self._agents: dict[str, Agent] = {}
        self._conversations: dict[str, Conversation] = {}

    async def agent_on(self, spec: str) -> Agent:
        """The agent on a model (rule 3). Raises ModelError."""
        if spec not in self._agents:
            made = await asyncio.to_thread(self._make_agent, spec)
            self._agents.setdefault(spec, made)
        return self._agents[spec]

    def conversation(self, name: str) -> Conversation:
        """The conversation of this name."""
        planner = self._agents.get(OFFLINE)
        if planner is None:
            planner = self._agents.setdefault(OFFLINE, self._make_agent(OFFLINE))
        path = self._folder / f"{name}.jsonl"
        return self._conversations.setdefault(name, Conversation(path, planner))

    def summaries(self) -> list[Json]:
        """All conversations, the latest first."""
        paths = [path for path in self._folder.glob("*.jsonl") if NAME.fullmatch(path.stem)]
        paths.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        return [self.conversation(path.stem).summary() for path in paths]

    def close(self) -> None:
        """Stop all runs, and end all event streams."""
        for conversation in self._conversations.values():
            conversation.close()

    def _make_agent(self, spec: str) -> Agent:
        options: dict[str, Any] = {}
        if spec == OFFLINE:
            options = {"script": reply, "pace": self._pace}
        return Agent(
            connect(spec, **options),
            self._shop.tools(),
            instructions=INSTRUCTIONS.read_text(encoding="utf-8") + MANAGER,
            done_when=make_checks(self._shop),
            name=DESK_NAME,
        )


def usable_models() -> list[str]:
    """The script, Ollama's models if it runs, and each provider that is installed and has a key."""
    found = [OFFLINE]
    with suppress(ModelError):
        ollama: Any = connect("ollama", timeout=3.0)  # `list_installed` is Ollama's alone
        found += [f"ollama:{name}" for name in ollama.list_installed()]
    for provider, (sdk, *keys) in HOSTED.items():
        has_key = any(os.environ.get(key) for key in keys)
        if has_key and find_spec(sdk):
            found.append(f"{provider}:{PROVIDERS[provider].default_model}")
    return found


# Requests.


def make_app(folder: Path, shop: Shop, *, pace: float = 0.02) -> FastAPI:
    """The server for the conversations in a folder, around a shop. `pace` is the script's. Its desk
    is in `app.state.desk`.
    """
    app = FastAPI(openapi_url=None, dependencies=[Depends(only_this_machine)])
    app.state.desk = WebDesk(folder, shop, pace=pace)
    for error in (Unfitting, FileError, ModelError, ValueError):
        app.add_exception_handler(error, refuse)
    app.include_router(talks, prefix="/conversations")
    app.include_router(pages)
    return app


async def only_this_machine(request: Request) -> None:
    """Rule 1, for every request."""
    host = request.headers.get("host", "")
    if not THIS_MACHINE.fullmatch(host):
        raise HTTPException(403, "this server has no other name than 127.0.0.1")
    origin = request.headers.get("origin")
    is_read = request.method == "GET" and origin is None
    if not is_read and origin != f"http://{host}":
        raise HTTPException(403, "only the page of this server may ask; open it in a browser")


async def refuse(request: Request, error: Exception) -> Response:
    """What does not fit, in one line."""
    return JSONResponse({"detail": str(error)}, 409)


async def find_desk(request: Request) -> WebDesk:
    desk: WebDesk = request.app.state.desk
    return desk


TheDesk = Annotated[WebDesk, Depends(find_desk)]


Name = Annotated[str, InPath(pattern=f"^{NAME.pattern}$")]


async def find_conversation(desk: TheDesk, name: Name) -> Any:
    return desk.conversation(name)


Talk = Annotated[Conversation, Depends(find_conversation)]
pages = APIRouter()
talks = APIRouter()


@pages.get("/")
async def page() -> Response:
    return FileResponse(HERE / "page.html", headers=HEADERS)


@pages.get("/models")
async def models() -> list[str]:
    return await asyncio.to_thread(usable_models)


@pages.get("/{name}")
async def part(name: Literal["page.css", "page.js"]) -> Response:
    return FileResponse(HERE / name, headers=HEADERS)


@talks.get("")
async def conversations(desk: TheDesk) -> list[Json]:
    return await asyncio.to_thread(desk.summaries)


@talks.get("/{name}/events")
async def events(talk: Talk) -> Response:
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return StreamingResponse(send_events(talk), media_type="text/event-stream", headers=headers)


@talks.post("/{name}/turn")
async def turn(desk: TheDesk, talk: Talk, said: Said) -> None:
    await talk.begin(await desk.agent_on(said.model), said.text)


@talks.post("/{name}/resume")
async def resume(desk: TheDesk, talk: Talk, chosen: Chosen) -> None:
    talk.go_on(await desk.agent_on(chosen.model))


@talks.post("/{name}/verdict")
async def verdict(desk: TheDesk, talk: Talk, answer: Answer) -> None:
    await talk.answer(await desk.agent_on(answer.model), answer.verdict())


@talks.post("/{name}/edited")
async def edited(talk: Talk, given: Edited) -> Json:
    return talk.show_edited(given.arguments)


@talks.post("/{name}/stop")
async def stop(talk: Talk) -> None:
    talk.stop()


async def send_events(conversation: Conversation) -> AsyncGenerator[str, None]:
    """The events of a conversation as Server-Sent Events, until the page is closed."""
    async with aclosing(conversation.watch()) as watched:
        async for event in watched:
            yield f"data: {json.dumps(event)}\n\n"
