"""What a user's own function returns is checked where it comes back. An error names the culprit."""

import asyncio
import functools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import pydantic
import pytest

from tests.support.agents import results
from think_agent import (
    Agent,
    Assistant,
    CallModel,
    CallTool,
    Done,
    Model,
    Refuse,
    ScriptedModel,
    Tool,
    ToolCall,
    ToolResult,
    TranscriptError,
    Turn,
    Usage,
    User,
    Verdict,
    tool,
)
from think_agent.loop import is_action
from think_agent.policies import Price
from think_agent.testing import call

LOOK = call("look", item="tea")


@tool(read_only=True)
def look(item: str) -> str:
    """Look it up."""
    return "89 $"


def agent(*replies: Any, tools: Any = (look,), **settings: Any) -> Agent:
    model = ScriptedModel([*replies, "Done."])
    return Agent(model, tools, force="never", silence="accept", **settings)


def only_calls(value: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """A policy that returns this for each action."""

    def change(step, turn):
        return value(step) if is_action(step) else step

    return change


# Policies.


@dataclass
class Returned:
    """What a policy returns instead of a step, and what the error says."""

    name: str
    value: Callable[[Any], Any]
    says: str


RETURNED = [
    Returned("nothing", lambda step: None, "it returned None; return a step"),
    Returned("a text", lambda step: "refuse", "it returned 'refuse'"),
    Returned("True", lambda step: True, "it returned True"),
    Returned("a class", lambda step: Done, "it returned <class"),
    Returned("a coroutine", lambda step: asyncio.sleep(0), "it returned <coroutine"),
    Returned(
        "a text in place of a call", lambda step: CallTool("look"), "call='look' isn't a ToolCall"
    ),
    Returned("a text in place of a message", lambda step: CallModel("auto", "Go."), "isn't a User"),
    Returned("an exit that there is not", lambda step: Done("over"), "exit"),
    Returned(
        "a reason that is no text",
        lambda step: Refuse(step.call, "no", None),
        "reason=None isn't a str",
    ),
    Returned(
        "arguments that are no JSON",
        lambda step: replace(step, call=replace(step.call, arguments={"item": {1, 2}})),
        "not JSON serializable",
    ),
]


@pytest.mark.parametrize("case", RETURNED, ids=lambda case: case.name)
def test_a_policy_that_returns_no_step_is_named_with_its_file_and_line(case, saved):
    looked = agent(LOOK, policies=[only_calls(case.value)])
    with pytest.raises(TypeError) as caught:
        looked.run("Look.", transcript=saved)
    text = str(caught.value)
    assert case.says in text
    assert "change" in text
    assert "test_own_code.py, line" in text
    assert "\n" not in text
    assert not any(isinstance(message, ToolResult) for message in caught.value.transcript)


def test_a_step_may_be_of_a_subclass():
    class Noted(Refuse):
        """The user's own kind of refusal."""

    refusing = agent(LOOK, policies=[only_calls(lambda step: Noted(step.call, "no", "not today"))])
    [result] = results(refusing.run("Look."))
    assert result.refused == "no"


async def judge_later(step, turn):
    return step


class JudgeLater:
    async def __call__(self, step, turn):
        return step


@dataclass
class Setting:
    """A setting that cannot work, and the error."""

    name: str
    make: Callable[[], Any]
    says: str
    error: type[Exception] = TypeError


SETTINGS = [
    Setting("an async policy", lambda: agent(policies=[judge_later]), "judge_later .* is async"),
    Setting("an async object", lambda: agent(policies=[JudgeLater()]), "is async"),
    Setting("a policy, not a list", lambda: agent(policies=judge_later), "pass a list"),
    Setting("a policy of one argument", lambda: agent(policies=[lambda s: s]), r"\(step, turn\)"),
    Setting("no function", lambda: agent(policies=["limit"]), "pass a function"),
    Setting("seconds as a text", lambda: agent(max_seconds="60"), "max_seconds='60': use a number"),
    Setting("calls as a bool", lambda: agent(max_model_calls=True), "use a number"),
    Setting("nan", lambda: agent(max_seconds=math.nan), "above 0", ValueError),
    Setting("a price as a number", lambda: agent(prices={"m": 3}), "use Price"),
    Setting("a price without output", lambda: agent(prices={"m": {"input": 1}}), "output"),
    Setting(
        "a price as a text", lambda: agent(prices={"m": {"input": "1", "output": 2}}), "number"
    ),
    Setting("another tool named think", lambda: agent(think=THINKER), "pass THINK"),
    Setting("a thing named think", lambda: agent(think=NAMED), "pass THINK"),
]


class Named:
    name = "think"


NAMED = Named()
THINKER = "think"


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_setting_that_cannot_work_is_refused_when_the_agent_is_made(setting):
    with pytest.raises(setting.error, match=setting.says) as caught:
        setting.make()
    assert "\n" not in str(caught.value)


def test_prices_may_be_dicts_as_toml_has_them():
    limited = agent(max_cost=1, prices={"script": {"input": 1, "output": 2}})
    assert limited.limits.prices == {"script": Price(input=1, output=2)}


def test_an_async_predicate_is_refused_when_the_tool_is_declared():
    async def is_much(arguments):
        return False

    with pytest.raises(TypeError, match=r"tool look: needs_approval .*is_much.* is async"):
        replace(look, needs_approval=is_much)


# Models.


class OwnModel(Model):
    def __init__(self, reply: Any) -> None:
        self.reply = reply

    def complete(self, request: Any) -> Any:
        return self.reply


REPLIES: dict[str, Any] = {
    "a text": "Done.",
    "nothing": None,
    "a tuple": (Assistant("Done."), 1),
    "a text that is None": Assistant(None),
    "calls in a list": Assistant(tool_calls=[LOOK]),
    "arguments that are None": Assistant(tool_calls=(ToolCall("a", "look", None),)),
    "a number as an id": Assistant(tool_calls=(ToolCall(5, "look"),)),
    "usage that is None": Assistant("Done.", usage=None),
    "half a token": Assistant("Done.", usage=Usage(1.5, 2)),
    "NaN in arguments": Assistant(tool_calls=(call("look", n=math.nan),)),
    "bytes in arguments": Assistant(tool_calls=(call("look", n=b"x"),)),
    "numbers as keys": Assistant(tool_calls=(ToolCall("a", "look", {1: 2}),)),
    "a number of 5,000 digits": Assistant(tool_calls=(call("look", n=10**5_000),)),
    "an object as the native message": Assistant("Done.", native=object()),
}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_a_reply_that_cannot_be_recorded_raises_and_nothing_is_written(reply, streamed, tmp_path):
    path = tmp_path / "run.jsonl"
    own = Agent(OwnModel(reply), [look], force="never")
    watch = (lambda event: None) if streamed else None
    with pytest.raises(TypeError, match=r"the model OwnModel.complete .*test_own_code.py, line"):
        own.run("Look.", transcript=path, on_event=watch)
    kinds = [json.loads(line)["type"] for line in path.read_text().splitlines()]
    assert kinds == ["transcript", "user"]


# `approve=`.

ANSWERS: dict[str, Any] = {
    "nothing": None,
    "a text": "yes",
    "a decision that there is not": Verdict("perhaps"),
    "a reason that is no text": Verdict("no", reason=None),
    "arguments that are no JSON": Verdict("yes", arguments={"item": {1}}),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_that_cannot_be_recorded_raises_and_nothing_is_written(answer, saved):
    asks = agent(LOOK, tools=[replace(look, needs_approval=True)], approve=lambda question: answer)
    with pytest.raises(TypeError, match=r"approve= .*lambda.*own_code.py, line .* gave") as caught:
        asks.run("Look.", transcript=saved)
    assert not any(isinstance(message, Verdict) for message in caught.value.transcript)


# Results of tools.


class NoText:
    def __repr__(self) -> str:
        raise RuntimeError("the session is closed")


class Picture:
    def _repr_png_(self) -> bytes:
        return b"\x89PNG"


class BadError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def nest(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@dataclass
class Result:
    """What a tool returns, and what the model reads."""

    name: str
    value: Any
    reads: str
    options: dict[str, Any] = field(default_factory=dict)
    is_error: bool = False


RESULTS = [
    Result("an object without a text", NoText(), "(done; the result has no text: RuntimeError"),
    Result("a very deep list", nest(100_000), "(done; the result has no text: RecursionError"),
    Result("bytes of a payment", b"\x89PNG", "(done; the tool returned 4 bytes that aren't text"),
    Result("an image of a payment", Picture(), "(done; the tool returned an image (Picture)"),
    Result("bytes that were read", b"\x89PNG", "error: the tool", {"read_only": True}, True),
    Result("an image that was read", Picture(), "an image", {"read_only": True}, True),
    Result("bytes that are text", b"paid", '"paid"'),
]
WAYS = {
    "sync": (False, None),
    "sync, with a timeout": (False, 60),
    "async": (True, None),
    "async, with a timeout": (True, 60),
}
every_way = pytest.mark.parametrize(("is_async", "timeout"), WAYS.values(), ids=WAYS)


def run_tool(act: Callable[[], Any], is_async: bool, timeout: float | None, **options: Any) -> Any:
    def pay() -> object:
        """Pay."""
        return act()

    made = agent(call("pay"), tools=[tool(pay, timeout=timeout, **options)])
    if is_async:
        return asyncio.run(made.arun("Pay."))
    return made.run("Pay.")


@every_way
@pytest.mark.parametrize("case", RESULTS, ids=lambda case: case.name)
def test_a_result_that_is_done_is_kept(case, is_async, timeout):
    [result] = results(run_tool(lambda: case.value, is_async, timeout, **case.options))
    assert case.reads in result.content
    assert result.is_error == case.is_error
    assert not result.in_doubt


def raising(error: BaseException) -> Callable[[], Any]:
    def act() -> None:
        raise error

    return act


class Stop(BaseException):
    """No Exception, so it concerns the caller."""


@every_way
def test_an_error_without_a_text_is_an_error_result(is_async, timeout):
    [result] = results(run_tool(raising(BadError()), is_async, timeout))
    assert result.content.startswith("error: BadError\n")
    assert result.in_doubt


@every_way
@pytest.mark.parametrize("error", [Stop("x"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_what_is_no_exception_ends_the_run_in_every_way_of_running(error, is_async, timeout):
    with pytest.raises(type(error)) as caught:
        run_tool(raising(error), is_async, timeout)
    assert type(caught.value.transcript[-1]).__name__ == "Started"


@every_way
def test_a_cancelled_error_from_inside_a_tool_is_an_error_result(is_async, timeout):
    [result] = results(run_tool(raising(asyncio.CancelledError()), is_async, timeout))
    assert result.content.startswith("error: CancelledError")


# Tools as people have them.


def book(user: int, order: str) -> str:
    """Book an order."""
    return f"{user}: {order}"


class Booker:
    """Books orders."""

    def __call__(self, order: str) -> str:
        return f"booked {order}"

    def book(self, order: str) -> str:
        """Book one."""
        return f"booked {order}"


@dataclass
class Made:
    """A tool made of something callable: its name, its parameters and its result."""

    label: str
    make: Callable[[], Tool]
    name: str
    result: str
    description: str


MADE = [
    Made("a partial", lambda: tool(functools.partial(book, 7)), "book", "7: A", "Book an order."),
    Made(
        "a partial by keyword",
        lambda: tool(functools.partial(book, user=7)),
        "book",
        "7: A",
        "Book an order.",
    ),
    Made("a callable object", lambda: tool(Booker()), "Booker", "booked A", "Books orders."),
    Made("a bound method", lambda: tool(Booker().book), "book", "booked A", "Book one."),
    Made(
        "a name of its own",
        lambda: tool(functools.partial(book, 7), name="book_for_7"),
        "book_for_7",
        "7: A",
        "Book an order.",
    ),
]


@pytest.mark.parametrize("made", MADE, ids=lambda made: made.label)
def test_what_can_be_called_can_be_a_tool(made):
    found = made.make()
    assert found.name == made.name
    assert list(found.parameters["properties"]) == ["order"]
    assert found.description == made.description
    [result] = results(agent(call(made.name, order="A"), tools=[found]).run("Book."))
    assert result.content == made.result


def test_a_model_cannot_replace_what_a_partial_gives():
    bound = tool(functools.partial(book, user=7))
    [result] = results(agent(call("book", order="A", user=99), tools=[bound]).run("Book."))
    assert result.refused == "invalid"


@pytest.mark.parametrize("what", [lambda made: made, lambda made: made.run], ids=["agent", "run"])
def test_an_agent_as_a_tool_says_how(what):
    with pytest.raises(TypeError, match=r"agent\.run\(question\)\.answer"):
        tool(what(agent()))


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]


class Tree(pydantic.BaseModel):
    children: list["Tree"] = []


def test_a_schema_has_no_reference_left():
    def feed(pet: Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]) -> str:
        """Feed."""
        return pet.kind

    text = json.dumps(tool(feed).parameters)
    assert "$" not in text
    assert '"cat"' in text


def test_an_error_about_a_type_names_the_tool_and_the_parameter():
    def plant(tree: Tree) -> str:
        """Plant."""
        return ""

    with pytest.raises(TypeError, match=r"tool plant: parameter tree: .*Tree is recursive"):
        tool(plant)


# Arguments that are nearly right.


class Address(pydantic.BaseModel):
    street: str
    number: int = 1


@dataclass
class Nearly:
    """Arguments as a model writes them, and what the function gets."""

    name: str
    kind: Any
    written: Any
    gets: Any


NEARLY = [
    Nearly("as it should be", list[str], ["a"], ["a"]),
    Nearly("a list as JSON text", list[str], '["a", "b"]', ["a", "b"]),
    Nearly("an object as JSON text", dict[str, int], '{"a": 1}', {"a": 1}),
    Nearly("a model as JSON text", Address, ' {"street": "Main"}', Address(street="Main")),
    Nearly("a null inside that may be left out", Address, {"street": "M", "number": None},
           Address(street="M")),
    Nearly("a union as JSON text", list[int] | Address, '{"street": "M"}', Address(street="M")),
    Nearly("a text that is a text", str, '["a"]', '["a"]'),
    Nearly("a union that takes the text", str | list[str], '["a"]', '["a"]'),
    Nearly("a validator that splits a text", Annotated[list[str], pydantic.BeforeValidator(
           lambda value: value.split(";") if isinstance(value, str) else value)], "[a;b]",
           ["[a", "b]"]),
]  # fmt: skip


@pytest.mark.parametrize("case", NEARLY, ids=lambda case: case.name)
def test_nearly_right_arguments_are_read(case):
    got = []

    def act(value):
        got.append(value)
        return "done"

    act.__annotations__ = {"value": case.kind, "return": str}
    made = tool(act, name="act", description="Act.")
    outcome = agent(call("act", value=case.written), tools=[made]).run("Act.")
    assert got == [case.gets]
    [result] = results(outcome)
    assert "policy" not in result.content


def test_a_null_for_what_may_be_left_out_is_left_out():
    got = []

    @tool
    def act(value: int = 5) -> str:
        """Act."""
        got.append(value)
        return "done"

    outcome = agent(call("act", value=None), tools=[act]).run("Act.")
    assert got == [5]
    [action] = outcome.actions
    assert action.call.arguments == {}
    assert outcome.turn.replies[0].tool_calls[0].arguments == {"value": None}


def test_a_ready_schema_is_read_in_the_same_way():
    got = []
    parameters = {
        "type": "object",
        "properties": {"tags": {"type": "array"}, "note": {"type": "string"}},
        "required": ["tags"],
    }
    ready = Tool(
        name="act", description="Act.", parameters=parameters, function=lambda **a: got.append(a)
    )
    agent(call("act", tags='["a"]', note=None), tools=[ready]).run("Act.")
    assert got == [{"tags": ["a"]}]


def test_an_error_is_about_the_arguments_as_they_were_written():
    @tool
    def act(value: list[int]) -> str:
        """Act."""
        return "done"

    [result] = results(agent(call("act", value='["a"]'), tools=[act]).run("Act."))
    assert "got '[\"a\"]'" in result.content


def test_a_second_try_in_other_clothes_is_the_same_call():
    """The digest is of what the function gets, so a repair makes no new payment."""
    ran = []

    @tool
    def pay(orders: list[str]) -> str:
        """Pay."""
        ran.append(orders)
        return "paid"

    twice = (call("pay", orders=["A"]), call("pay", orders='["A"]'))
    outcome = agent(twice, tools=[pay]).run("Pay.")
    assert ran == [["A"]]
    assert [result.refused for result in results(outcome)] == ["", "repeat"]


def test_an_unknown_step_is_an_error_of_the_run():
    from think_agent.running import Run
    from think_agent.transcript import Transcript

    run = Run(agent(), Transcript([User("Hi")]))
    with pytest.raises(TypeError, match="isn't a step"):
        list(run.do("a step"))


def shape(*required, **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


def test_a_null_is_kept_where_it_is_a_value_and_dropped_where_it_means_left_out():
    """Models under a strict schema have to write every property."""
    got = []
    inner = shape("must", must={"type": ["string", "null"]}, may={"type": "string"})
    parameters = shape(
        list={"type": "array", "items": inner},
        map={"type": "object", "additionalProperties": inner},
        any={},
    )
    ready = Tool(
        name="act", description="Act.", parameters=parameters, function=lambda **a: got.append(a)
    )
    given, left = {"must": None, "may": None}, {"must": None}
    written = {"list": [dict(given)], "map": {"k": dict(given)}, "any": dict(given)}
    agent(call("act", **written), tools=[ready]).run("Act.")
    assert got == [{"list": [left], "map": {"k": left}, "any": given}]


def test_a_function_of_a_script_may_return_what_an_entry_of_its_list_may_be():
    replies = iter([LOOK, (LOOK,), "Done."])
    made = Agent(ScriptedModel(lambda request: next(replies)), [look], force="never")
    assert made.run("Look.").answer == "Done."


def test_a_script_that_returns_something_else_is_named():
    made = Agent(ScriptedModel(lambda request: 5), [look], force="never")
    with pytest.raises(TypeError, match="5 isn't a reply: use a text"):
        made.run("Look.")


def test_a_path_that_begins_with_a_tilde_is_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    agent(LOOK).run("Look.", transcript="~/run.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["run.jsonl"]


def test_a_file_that_was_closed_says_so(tmp_path):
    made = agent(LOOK)
    with made.open(tmp_path / "run.jsonl") as talk:
        made.run("Look.", transcript=talk)
    with pytest.raises(TranscriptError, match="it is closed; open it again"):
        made.run("Again.", transcript=talk)


def test_a_file_that_another_agent_holds_open_gets_its_header(tmp_path):
    path = tmp_path / "run.jsonl"
    with agent(instructions="One.").open(path) as talk:
        agent(instructions="Other.").run("Hi", transcript=talk)
    headers = [json.loads(line) for line in path.read_text().splitlines()]
    told = [line["instructions"] for line in headers if line["type"] == "transcript"]
    assert told == ["One.", "Other."]


def test_a_clock_that_steps_back_and_forth_is_no_work():
    at = "2026-11-29T10:00:{:02}+00:00".format
    times = [10, 12, 5, 13]
    messages = [User("Hi", at=at(times[0])), *[Assistant("x", at=at(t)) for t in times[1:]]]
    assert Turn.of(messages).seconds == 3
