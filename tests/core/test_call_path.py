"""How much one has to follow to understand a model call: the functions it passes through, of the
refund desk on Ollama, in the middle of a run, from planning it to its reply in the transcript.

Every code object counts, those of comprehensions too; the policies do not: each stands by itself.
"""

from datetime import date
from types import CodeType

from demos.refund.offline import reply
from demos.refund.shop import Shop
from tests.servers import serve
from tests.servers.ollama import OllamaServer
from tests.support.counting import PACKAGE, counted
from tests.support.providers import desk
from think_agent import Assistant, ToolResult, connect

FUNCTIONS, FILES = 50, 14


def passed_through() -> set[CodeType]:
    shop = Shop(today=date(2026, 3, 1))
    with serve(OllamaServer(), reply) as server:
        agent = desk(connect("ollama:qwen2.5:7b", base_url=server.url), shop)
        events = agent._events("I want a refund on order ORD-001", None, False)
        asked = 0
        for event in events:  # up to the last result before the third model call
            asked += isinstance(event, Assistant)
            if asked == 2 and isinstance(event, ToolResult):
                break
        with counted() as found:
            while not isinstance(event := next(events), Assistant):
                pass
        assert event.tool_calls
        events.close()
    policies = f"{PACKAGE}/policies/"
    return {code for code in found if not code.co_filename.startswith(policies)}


def test_one_model_call():
    path = passed_through()
    names = sorted(f"{code.co_filename[len(f'{PACKAGE}/') :]} {code.co_qualname}" for code in path)
    assert len(path) <= FUNCTIONS, f"{len(path)} functions:\n" + "\n".join(names)
    assert len({code.co_filename for code in path}) <= FILES, "\n".join(names)
