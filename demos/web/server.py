"""The web server of the refund desk: a page, and the requests that it makes.

    POST /conversations/NAME/turn        {model, text}          say something; a new NAME begins one
    POST /conversations/NAME/verdict     {model, decision, …}   answer the question that waits
    POST /conversations/NAME/resume      {model}                go on with what was stopped
    POST /conversations/NAME/stop
    GET  /conversations/NAME/events      all that was said so far, then each event (SSE)
    GET  /conversations, /models         for the lists

Rule 1: only this machine, and only its own pages: another website may neither ask (`Origin`) nor
        pretend that its name is this machine (`Host`), nor show the page in a frame of its own.
Rule 2: one agent for each model serves all conversations, on one event loop.
"""

import asyncio
import getpass
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi import Path as InPath
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, Field

from demos.refund.checks import checks
from demos.refund.offline import reply
from demos.refund.session import MANAGER
from demos.refund.shop import INSTRUCTIONS, Shop
from demos.web.conversations import Conversation, Unfitting
from think_agent import Agent, ModelError, Verdict, connect
from think_agent.errors import FileError
from think_agent.messages import Json
from think_agent.providers import PROVIDERS

HERE = Path(__file__).parent
OFFLINE = "offline:stand-in"
HEADERS = {  # rule 1; and what a model writes could load nothing, even if it became markup
    "Content-Security-Policy": "default-src 'self'; img-src data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class Chosen(BaseModel, extra="forbid"):
    """A request that needs a model: one of `/models`."""

    model: str


class Said(Chosen):
    """What a person says."""

    text: Annotated[str, Field(min_length=1, max_length=20_000)]


class Answer(Chosen):
    """A person's answer to the question about the call `call_id`, as in `Verdict`."""

    call_id: str
    decision: Literal["yes", "no", "quit"]
    reason: str = ""
    arguments: Json | None = None
    new: bool = False


def usable_models() -> list[str]:
    """The script, Ollama's models if it runs, and each provider that is installed and has a key."""
    found = [OFFLINE]
    for provider, entry in PROVIDERS.items():
        if provider == "offline":
            continue
        with suppress(ModelError):
            model = connect(provider, timeout=3.0)
            names = [entry.default_model]
            if provider == "ollama":
                names = model.installed()  # type: ignore[attr-defined]  # only Ollama has it
            found += [f"{provider}:{name}" for name in names]
    return found


async def only_this_machine(request: Request) -> None:
    """Rule 1, for every request."""
    if request.url.hostname not in ("127.0.0.1", "localhost"):
        raise HTTPException(403, "this server has no other name than 127.0.0.1")
    origin = request.headers.get("origin")
    is_read = request.method == "GET" and origin is None
    if not is_read and origin != f"http://{request.headers['host']}":
        raise HTTPException(403, "only the page of this server may ask; open it in a browser")


async def refuse(request: Request, error: Exception) -> Response:
    """What does not fit, in one line."""
    return JSONResponse({"detail": str(error)}, 409)


def make_app(folder: Path, shop: Shop, *, pace: float = 0.02) -> FastAPI:
    """The server for the conversations in a folder, around a shop. `pace` is the script's."""
    app = FastAPI(openapi_url=None, dependencies=[Depends(only_this_machine)])

    @cache
    def agent_on(spec: str) -> Agent:
        options: dict[str, Any] = {}
        if spec == OFFLINE:
            options = {"script": reply, "pace": pace}
        return Agent(
            connect(spec, **options),
            shop.tools(),
            instructions=INSTRUCTIONS.read_text(encoding="utf-8") + MANAGER,
            done_when=checks(shop),
        )

    @cache
    def conversation(name: str) -> Conversation:
        return Conversation(folder / f"{name}.jsonl", agent_on(OFFLINE))

    async def named(name: Annotated[str, InPath(pattern=r"^[\w-]{1,64}$")]) -> Conversation:
        return conversation(name)

    Named = Annotated[Conversation, Depends(named)]

    for error in (Unfitting, FileError, ModelError, ValueError):
        app.add_exception_handler(error, refuse)

    @app.get("/")
    async def page() -> Response:
        return FileResponse(HERE / "page.html", headers=HEADERS)

    @app.get("/models")
    async def models() -> list[str]:
        return await asyncio.to_thread(usable_models)

    @app.get("/conversations")
    async def conversations() -> list[Json]:
        paths = sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime, reverse=True)
        return [conversation(path.stem).summary() for path in paths]

    @app.get("/{name}")
    async def part(name: Literal["page.css", "page.js"]) -> Response:
        return FileResponse(HERE / name, headers=HEADERS)

    @app.post("/conversations/{name}/turn")
    async def turn(chat: Named, said: Said) -> None:
        await chat.begin(agent_on(said.model), said.text)

    @app.post("/conversations/{name}/resume")
    async def resume(chat: Named, chosen: Chosen) -> None:
        chat.go_on(agent_on(chosen.model))

    @app.post("/conversations/{name}/verdict")
    async def verdict(chat: Named, answer: Answer) -> None:
        given = answer.model_dump(exclude={"model"})
        await chat.answer(agent_on(answer.model), Verdict(**given, by=getpass.getuser()))

    @app.post("/conversations/{name}/stop")
    async def stop(chat: Named) -> None:
        chat.stop()

    @app.get("/conversations/{name}/events")
    async def events(chat: Named) -> Response:
        return StreamingResponse(as_sse(chat), media_type="text/event-stream")

    return app


async def as_sse(conversation: Conversation) -> AsyncGenerator[str, None]:
    """The events of a conversation as Server-Sent Events, until the page is closed."""
    async with aclosing(conversation.watch()) as watched:
        async for event in watched:
            yield f"data: {json.dumps(event)}\n\n"
