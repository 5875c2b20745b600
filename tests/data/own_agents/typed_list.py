"""An answer that is a typed list, behind FastAPI: written from the READMEs alone."""

import asyncio

import httpx
from fastapi import FastAPI
from pydantic import BaseModel

from think_agent import Agent, Model, ScriptedModel, tool
from think_agent.testing import call, think


class Refund(BaseModel):
    order_id: str
    dollars: float


@tool(read_only=True)
async def orders_of(customer: str) -> list[str]:
    """The open orders of a customer."""
    await asyncio.sleep(0)
    return ["ORD-001", "ORD-003"]


def make_app(model: Model) -> FastAPI:
    agent = Agent(model, [orders_of], answer=list[Refund])
    app = FastAPI()

    @app.get("/refunds/{customer}")
    async def refunds(customer: str) -> list[Refund]:
        outcome = await agent.arun(f"Which refunds are due to {customer}?")
        return outcome.data or []

    return app


SCRIPT = [
    (think("Look."), call("orders_of", customer="Ada")),
    think("Only the first is due.", should_continue=False),
    '{"answer": [{"order_id": "ORD-001", "dollars": 89}]}',
]


async def main() -> None:
    transport = httpx.ASGITransport(app=make_app(ScriptedModel(SCRIPT)))
    async with httpx.AsyncClient(transport=transport, base_url="http://desk") as client:
        said = (await client.get("/refunds/Ada")).json()
    assert said == [{"order_id": "ORD-001", "dollars": 89.0}], said
    print(said)


if __name__ == "__main__":
    asyncio.run(main())
