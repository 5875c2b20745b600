"""Two models, one transcript."""

from tests.support.pieces import four_ways, told
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
    both = split(thinker=named("t"), actor=named("a"))
    history = [
        User("hi"),
        Assistant("1", provider="t", model="t-2026-01-01", native="of t"),
        Assistant("2", provider="a", model="a", native="of a"),
    ]
    for choice, natives in ((Force("think"), ["of t", None]), ("auto", [None, "of a"])):
        _, asked = both.ask(Request(history, tool_choice=choice))
        assert [reply.native for reply in asked.messages[1:]] == natives


def test_its_name_says_who_acts_and_who_thinks():
    both = split(thinker=named("wise"), actor=named("quick"))
    assert f"{both.name}:{both.model}" == "quick:quick, with thoughts of wise:wise"
