"""The agent of a record: `think-agent audit --check RUN.jsonl` plans a run's steps again.

Its settings are today's defaults, except what the record's header shows: whether a manager was
there, whether calls carried their thoughts, whether the answer had sources. Its shop is new, as at
the start of the run.
"""

from think_agent import Agent, ScriptedModel
from think_agent.messages import CARRIED, Json
from think_agent.policies.answer import NUMBERED

from .checks import checks
from .session import MANAGER
from .shop import INSTRUCTIONS, Shop
from .sources import SourcedAnswer


def agent_of(header: Json) -> Agent | None:
    """The desk that made this record; None if it has other tools. It is asked for plans alone."""
    told = str(header.get("instructions", ""))
    shop = Shop(":memory:", manager=MANAGER.strip() in told)
    tools = {tool["name"]: tool for tool in header.get("tools", ()) if tool["name"] != "think"}
    if tools.keys() != {tool.name for tool in shop.tools()}:
        return None
    instructions = INSTRUCTIONS.read_text(encoding="utf-8")
    if shop.manager:
        instructions += MANAGER
    arguments = tools["process_refund"]["parameters"]["properties"]
    return Agent(
        ScriptedModel([]),
        shop.tools(),
        instructions=instructions,
        done_when=checks(shop),
        carry=CARRIED in arguments,
        answer=SourcedAnswer if NUMBERED in told else None,
    )
