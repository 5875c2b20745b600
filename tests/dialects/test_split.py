"""Two models, one transcript."""

from demos.refund.offline import reply
from demos.refund.shop import Shop
from tests.servers import serve
from tests.support.pieces import four_ways, told
from tests.support.providers import RIGHT, SPEAKS, decided, desk, model_of
from think_agent import Assistant, Force, Request, ScriptedModel, User
from think_agent.dialects import split


def named(name: str) -> ScriptedModel:
    return ScriptedModel(lambda request: Assistant(name), name=name, model=name)


def test_a_forced_thought_goes_to_the_thinker_and_all_else_to_the_actor():
    both = split(thinker=named("thinker"), actor=named("actor"))
    ask = [User("hi")]
    for choice in (Force("think"), Force("pay"), "auto", "required", "none"):
        who = "thinker" if choice == Force("think") else "actor"
        request = Request(ask, tool_choice=choice)
        said, deltas = four_ways(both, request)
        assert said.text == told(deltas, "answer") == who


def test_each_sees_only_its_own_words_as_native():
    seen = {}

    def spy(name):
        def script(request):
            seen[name] = [m.native for m in request.messages if isinstance(m, Assistant)]
            return Assistant("ok")

        return ScriptedModel(script, name=name, model=name)

    both = split(thinker=spy("t"), actor=spy("a"))
    history = [
        User("hi"),
        Assistant("1", provider="t", model="t-2026-01-01", native="of t"),
        Assistant("2", provider="a", model="a", native="of a"),
    ]
    both.complete(Request(history, tool_choice=Force("think")))
    both.complete(Request(history))
    assert seen == {"t": ["of t", None], "a": [None, "of a"]}


def test_its_name_says_who_acts_and_who_thinks():
    both = split(thinker=named("wise"), actor=named("quick"))
    assert f"{both.name}:{both.model}" == "quick:quick, with thoughts of wise:wise"


def test_the_refund_desk_with_the_thoughts_of_one_provider_and_the_actions_of_another():
    asked = {"thinker": [], "actor": []}

    def watched(name):
        def brain(request: Request) -> Assistant:
            answer = reply(request)
            asked[name].extend(call.name for call in answer.tool_calls)
            return answer

        return brain

    think_server = serve(SPEAKS["anthropic"][0](), watched("thinker"))
    act_server = serve(SPEAKS["openai-responses"][0](), watched("actor"))
    with think_server as one, act_server as two:
        shop = Shop()
        both = split(thinker=model_of("anthropic", one), actor=model_of("openai-responses", two))
        outcome = desk(both, shop, "always").run("ORD-001 ORD-002 ORD-003 ORD-004")
    assert decided(shop) == RIGHT
    assert outcome.behind_a_thought == len(outcome.actions) == 12
    assert set(asked["thinker"]) == {"think"}
    assert "think" not in asked["actor"]
