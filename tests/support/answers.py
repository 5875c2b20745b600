"""What a server answers, put in front of the real SDK of its protocol."""

from collections.abc import Sequence
from typing import Any

from tests.servers import Reply, sse
from tests.support.providers import ASK, talking
from think_agent import THINK, Assistant, Request, User, tool
from think_agent.messages import Json

WHOLE = ("plain", "async")
STREAMED = ("streamed", "async streamed")


@tool(read_only=True)
def look(id: str = "") -> str:
    """Look an order up."""
    return f"order {id}: a lamp"


@tool
def pay(amount: int = 0) -> str:
    """Pay an amount out."""
    return f"paid {amount}"


ASKED = Request([User("Pay it.")], [THINK, look, pay])


def as_chunks(provider: str, events: Sequence[Json | str]) -> list[bytes]:
    """The events of a stream, as the server of that protocol sends them; a text as it is."""
    chunks = []
    for event in events:
        if isinstance(event, str):
            chunks.append(event.encode())
        elif provider in ("anthropic", "openai-responses"):
            chunks.append(sse(event, event=event.get("type")))
        elif provider == "ollama":
            chunks.append(sse(event).removeprefix(b"data: ").replace(b"\n\n", b"\n"))
        else:
            chunks.append(sse(event))
    if provider == "openai-chat":
        chunks.append(sse("[DONE]"))
    return chunks


def canned(provider: str, answer: Json | Sequence[Json | str]) -> Reply:
    """A whole response, or a stream of events."""
    if isinstance(answer, dict):
        return Reply(body=answer)
    kind = "application/x-ndjson" if provider == "ollama" else "text/event-stream"
    return Reply(chunks=as_chunks(provider, answer), content_type=kind)


def reply_to(
    provider: str,
    way: str,
    *answers: Json | Sequence[Json | str],
    request: Request = ASKED,
    **options: Any,
) -> Assistant:
    """The reply of a server that gives these answers in turn, through the real SDK."""
    with talking(provider, **options) as (server, model):
        server.canned = [canned(provider, answer) for answer in answers]
        reply = ASK[way](model, request)
        assert not server.canned, "an answer was left over"
        assert len(server.requests) == len(answers)
    return reply
