"""The agent of a record: `think-agent audit --check RUN.jsonl` plans the steps of a run again.

Its settings are today's defaults, except for what the record's header says: whether a manager was
present, whether calls carried their thoughts, whether the answer had sources. Its shop is new, as
it was when the run began.
"""

from think_agent import Agent, ScriptedModel
from think_agent.messages import CARRIED, Json
from think_agent.policies.answer import NUMBERED

from .checks import make_checks
from .session import MANAGER
from .shop import INSTRUCTIONS, Shop
from .sources import SourcedAnswer


def agent_of(header: Json) -> Agent | None:
    """The desk that made this record; None if it has other tools. It's only asked for plans."""
    recorded = str(header.get("instructions", ""))
    shop = Shop(":memory:", manager=MANAGER.strip() in recorded)
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
        done_when=make_checks(shop),
        carry=CARRIED in arguments,
        answer=SourcedAnswer if NUMBERED in recorded else None,
    )
