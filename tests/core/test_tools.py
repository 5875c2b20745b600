"""A tool gets arguments of its types, and gives a result or an error (`tools.py`).

The schema of a tool: `test_schema.py`. Tools that hang: `test_hanging.py`.
"""

import asyncio
import contextlib
import functools
import threading
import warnings
from collections import deque
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

import pydantic
import pytest

from tests.support.echo import GOOD, Color, Order, Point, ask, called, taking
from think_agent import Tool, ToolCall, ToolResult, tool
from think_agent.schema import dump
from think_agent.tools import (
    MAY_HAVE_HAPPENED,
    NoResult,
    NothingDone,
    as_result,
    bind_call,
    fit,
    index,
    signature,
)
from think_agent.waiting import asettle


def ask_async(made: Tool, /, **arguments) -> ToolResult:
    request = ToolCall("c1", made.name, arguments)
    work = asettle(*bind_call({made.name: made}, request, ""))
    settled = asyncio.run(asyncio.wait_for(work, 60))
    return as_result(made, request, settled, 20_000)


@pytest.mark.parametrize(("kind", "sent", "got"), GOOD)
def test_arguments_arrive_as_the_declared_type(kind, sent, got):
    assert ask(taking(kind), value=sent) == ToolResult("c1", "echo", repr(got))


BAD = [
    (int, "soon", "value: Input should be a valid integer"),
    (float, "NaN", "value: Input should be a finite number"),
    (str, 5, "value: Input should be a valid string"),
    (list[int], [1, "x"], "value.1: Input should be a valid integer"),
    (Literal["a", "b"], "c", "value: Input should be 'a' or 'b'"),
    (Color, "green", "value: Input should be 'red' or 'blue'"),
    (Point, {}, "value.x: this field is required"),
    (Order, {"id": "7", "lines": [{"x": "?"}]}, "value.lines.0.x: Input should be a valid integer"),
    (Annotated[int, pydantic.Field(ge=1)], 0, "value: Input should be greater than or equal to 1"),
]


@pytest.mark.parametrize(("kind", "sent", "says"), BAD)
def test_a_wrong_argument_is_answered_with_its_field_and_what_was_expected(kind, sent, says):
    result = ask(taking(kind), value=sent)
    assert result.is_error
    assert result.content.startswith("error: bad arguments for echo: ")
    assert says in result.content
    assert "pydantic" not in result.content
    assert "\n" not in result.content


def test_a_wrong_argument_is_quoted_but_cut_if_it_is_long():
    assert "got 'soon'" in ask(taking(int), value="soon").content
    assert len(ask(taking(int), value="x" * 5000).content) < 300


def test_missing_and_unknown_fields_are_named_together():
    result = ask(taking(int), days=3)
    assert result.content == (
        "error: bad arguments for echo: value: this field is required; "
        "days: there is no such field. Correct them and call again."
    )


@pytest.mark.parametrize("arguments", ["", "{", "[1]", "value=1"])
def test_arguments_that_are_no_object_are_an_error(arguments):
    result = called({"echo": taking(int)}, ToolCall("c1", "echo", arguments))
    assert result.is_error
    assert result.content.startswith("error: the arguments of echo are not a JSON object")


def test_an_unknown_tool_is_answered_with_the_list_of_tools():
    refund = ToolCall("c1", "refund", {})
    result = called({"look": taking(int), "pay": taking(int)}, refund)
    assert result.is_error
    assert result.refused == "invalid"
    assert result.content == "error: there is no tool 'refund'. Tools: look, pay."
    assert "Tools: none." in called({}, refund).content


def test_name_and_description_may_be_given():
    @tool(name="pay-out", description="Pays.")
    def pay() -> str:
        """Not this."""
        return "paid"

    assert pay.name == "pay-out"
    assert pay.description == "Pays."
    assert ask(pay).name == "pay-out"


def test_a_tool_is_still_a_function():
    assert taking(int)("as it is") == "'as it is'"
    assert taking(int, default=5)() == "5"


class Pantry:
    def add(self, item: str) -> str:
        """Add an item."""
        return f"{item} is there"


def test_a_bound_method_is_a_tool():
    add = tool(Pantry().add)
    assert list(add.parameters["properties"]) == ["item"]
    assert ask(add, item="tea").content == add(item="tea") == "tea is there"


def test_errors_about_methods_say_how_a_method_becomes_a_tool():
    with pytest.raises(TypeError, match=r"tool\(desk\.add\)"):
        tool(Pantry.add)
    with pytest.raises(TypeError, match=r"tool\(desk\.add\)"):
        index([Pantry().add])


def no_type(value): ...
def args(*values: int): ...
def kwargs(**values: int): ...
def positional(value: int, /): ...


def generator():
    yield 1
    raise OSError("disk")


async def rows():
    yield 1


@pytest.mark.parametrize("function", [no_type, args, kwargs, positional, generator, rows])
def test_a_function_that_cannot_be_a_tool_is_refused(function):
    wrong = "a generator" if function in (generator, rows) else "parameter"
    with pytest.raises(TypeError, match=f"tool {function.__name__}: {wrong}"):
        tool(function)


IMPOSSIBLE = {  # a field of a Tool: values that are refused, and what the error says
    "name": (["", "a b", "é", "a.b", "x" * 65, "a\n"], "use 1 to 64 letters"),
    "parameters": ([{}, {"type": "string"}, {"properties": {}}], "type object"),
    "timeout": ([0, -1, float("nan")], "use seconds above 0"),
}


@pytest.mark.parametrize("field", IMPOSSIBLE)
def test_a_value_that_cannot_work_is_refused(field):
    values, advice = IMPOSSIBLE[field]
    for value in values:
        with pytest.raises(ValueError, match=advice):
            replace(taking(int), **{field: value})


# Results


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text\nas it is", "text\nas it is"),
        ('"quoted"', '"quoted"'),
        ("", "(empty)"),  # some SDKs do not send an empty tool message (think.py, Rule 3)
        (None, "null"),
        (13, "13"),
        ([1, "a"], '[1,"a"]'),
        ({"é": None}, '{"é":null}'),
        (Decimal("1.10"), '"1.10"'),
        (Color.RED, '"red"'),
        (Point(1, 2), '{"x":1,"y":2}'),
        ((Point(1),), '[{"x":1,"y":0}]'),
        (Order(id="7"), '{"id":"7","lines":[],"color":"red"}'),
    ],
)
def test_a_result_is_text_as_it_is_and_everything_else_as_json(value, content):
    give = tool(lambda: value, name="give")
    assert ask(give) == ask_async(give) == ToolResult("c1", "give", content)


def endless():
    items: list[Any] = []
    items.append(items)
    return items


class Gone(Exception):
    """An error that is false as a bool."""

    def __bool__(self):
        return False


@pytest.mark.parametrize(
    ("give", "shown"),
    [
        (object, "<object object at "),
        (endless, "[[...]]"),
    ],
)
def test_a_result_that_is_no_json_is_shown_as_text_and_is_no_failure(give, shown):
    made = Tool(name="give", description="", parameters={"type": "object"}, function=give)
    for result in (ask(made), ask_async(made)):
        assert not result.is_error
        content = f"(done; the result isn't JSON, so it's shown as text) {shown}"
        assert result.content.startswith(content)


def test_a_generator_that_a_tool_returned_is_not_read():
    made = Tool(name="give", description="", parameters={"type": "object"}, function=generator)
    for result in (ask(made), ask_async(made)):
        assert not result.is_error
        assert "an object of type generator, which was not read" in result.content


# Exceptions


def raising(error) -> list:
    """A sync and an async function that raise it."""

    def fail() -> str:
        raise error

    async def afail() -> str:
        raise error

    return [fail, afail]


@pytest.mark.parametrize(
    ("error", "content"),
    [
        (ValueError("no such order"), "error: ValueError: no such order"),
        (KeyError("ORD-1"), "error: KeyError: 'ORD-1'"),
        (RuntimeError(), "error: RuntimeError"),
        (StopIteration(), "error: StopIteration"),  # from `next(...)`, a common slip in a tool
        (Gone(), "error: Gone"),
    ],
)
def test_an_exception_becomes_an_error_without_traceback(error, content):
    functions = raising(error)
    if isinstance(error, StopIteration):  # an async function cannot raise it
        functions = functions[:1]
    for function in functions:
        reads = tool(function, name="fail", read_only=True)
        assert ask(reads) == ask_async(reads) == ToolResult("c1", "fail", content, is_error=True)
        changes = tool(function, name="fail")
        assert ask(changes) == ask_async(changes)
        assert ask(changes).in_doubt
        assert ask(changes).content == f"{content}\n{MAY_HAVE_HAPPENED}"


@pytest.mark.parametrize(
    ("error", "content"),
    [(NothingDone("it is closed"), "it is closed"), (NothingDone(), "nothing was done.")],
)
def test_nothing_done_is_an_error_without_doubt(error, content):
    for function in raising(error):
        made = tool(function, name="fail")
        expected = ToolResult("c1", "fail", f"error: {content}", is_error=True)
        assert ask(made) == ask_async(made) == expected


@pytest.mark.parametrize(
    ("error", "content"),
    [(NoResult("it went away"), "it went away"), (NoResult(), "no result.")],
)
def test_no_result_is_an_error_in_doubt_without_the_name_of_a_class(error, content):
    for function in raising(error):
        result = ask(tool(function, name="fail"))
        assert result.in_doubt
        assert result.content.splitlines()[0] == f"error: {content}"


def test_a_tool_with_a_key_that_raises_is_in_doubt():
    def pay(idempotency_key: str) -> str:
        raise ValueError

    assert ask(tool(pay)).in_doubt
    assert not ask(tool(pay), nonsense=1).in_doubt
    assert ask(tool(pay), nonsense=1).refused == "invalid"


def test_a_validator_that_raises_makes_the_call_invalid():
    def positive(value: int) -> int:
        raise KeyError("no such account")

    def pay(amount: Annotated[int, pydantic.AfterValidator(positive)]) -> str:
        return "paid"

    result = ask(tool(pay), amount=1)
    assert result.refused == "invalid"
    assert not result.in_doubt
    assert "KeyError: 'no such account'" in result.content


def test_async_tools_of_a_sync_run_share_one_event_loop():
    loops = []

    @tool
    async def look() -> str:
        loops.append(asyncio.get_running_loop())
        return "seen"

    async def main() -> str:  # also if another event loop is running
        return ask(look).content

    assert [ask(look).content, ask(look).content, asyncio.run(main())] == ["seen"] * 3
    assert loops[0] is loops[1] is loops[2]


def test_an_async_tool_that_swallows_its_cancellation_does_not_outlive_its_timeout():
    async def stubborn() -> str:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)

    assert "no result in time" in ask(tool(stubborn, timeout=0.05)).content  # it never returns


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("timeout", [None, 5])
def test_ctrl_c_and_sys_exit_in_a_tool_end_the_program(error, timeout):
    for function in raising(error):
        with pytest.raises(error):
            ask(tool(function, timeout=timeout))


@pytest.mark.parametrize("options", [{}, {"idempotent": True}])
def test_the_warning_about_a_missing_docstring_names_the_line_of_the_tool(options):
    def mute() -> str:
        return ""

    with pytest.warns(UserWarning, match=r"tool mute: no docstring") as caught:
        made = tool(**options)(mute) if options else tool(mute)
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tool(made.function, description="Says nothing.")


def test_a_guard_that_is_misspelled_is_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'think_frist'"):
        tool(think_frist=True)(double)


@pytest.mark.parametrize("timeout", [float("inf"), 1e12])
def test_a_timeout_may_be_infinite(timeout):
    one = tool(lambda: 1, name="one", timeout=timeout)
    assert ask(one).content == ask_async(one).content == "1"


@pytest.mark.parametrize("names", [["caf\udce9.txt"], {"caf\udce9.txt": 1}, "caf\udce9.txt"])
def test_a_lone_surrogate_in_a_result_can_be_sent(names):
    made = tool(lambda: names, name="names")
    for result in (ask(made), ask_async(made)):
        assert not result.is_error
        assert result.content.encode()
        assert "caf" in result.content


# Async


async def double(n: int) -> int:
    await asyncio.sleep(0)
    return 2 * n


class Later:
    """An awaitable that is no coroutine, as some database drivers return."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __await__(self):
        return double(self.n).__await__()


@pytest.mark.parametrize(
    "function",
    [double, functools.partial(double), lambda n: double(n), lambda n: Later(n)],
    ids=["async", "partial", "coroutine", "awaitable"],
)
def test_an_async_tool_runs_either_way(function):
    shape = tool(double).parameters
    made = Tool(name="double", description="", parameters=shape, function=function)
    assert ask(made, n=4) == ask_async(made, n=4) == ToolResult("c1", "double", "8")


def test_a_sync_tool_does_not_block_the_event_loop():
    where = tool(lambda: threading.current_thread() is threading.main_thread(), name="where")
    assert ask(where).content == "true"
    assert ask_async(where).content == "false"


# What a predicate and a person see.


class Hidden(pydantic.BaseModel):
    amount: int = pydantic.Field(1000, exclude=True)


class Renamed(pydantic.BaseModel):
    amount: int = pydantic.Field(1000, serialization_alias="betrag")


class InEuros(pydantic.BaseModel):
    amount: int = 1000

    @pydantic.field_serializer("amount")
    def euros(self, cents):
        return cents // 100_000


class Whole(pydantic.RootModel[list[Hidden]]):
    pass


@pydantic.dataclasses.dataclass(config={"extra": "allow"})
class Open:
    to: str


class Line(pydantic.BaseModel):
    cents: int = pydantic.Field(exclude=True)


class Secret(pydantic.BaseModel):
    code: pydantic.SecretStr = pydantic.SecretStr("by default")


@dataclass
class Unset:
    to: str = "me"
    later: int = field(init=False, repr=False)


WRITTEN = [  # a type, what the model wrote, what a person is shown
    *[(kind, {}, {"amount": 1000}) for kind in (Hidden, Renamed, InEuros)],
    *[(kind, {"amount": 5_000_000}, {"amount": 5_000_000}) for kind in (Hidden, Renamed, InEuros)],
    (Whole, [{}, {"amount": 5}], [{"amount": 1000}, {"amount": 5}]),
    (Open, {"to": "me", "amount": 9_000}, {"to": "me", "amount": 9_000}),
    (list[Line], [{"cents": "5_000"}], [{"cents": 5_000}]),
    (deque[Line], [{"cents": 5_000}], [{"cents": 5_000}]),
    (Secret, {"code": "open sesame"}, {"code": "open sesame"}),
    (Secret, {}, {"code": "by default"}),
    (Unset, {"to": "me"}, {"to": "me"}),
    (date, "2026-03-01", "2026-03-01"),
]


@pytest.mark.parametrize(("kind", "written", "shown"), WRITTEN)
def test_a_person_is_shown_what_the_function_gets_however_its_type_is_dumped(kind, written, shown):
    received = []

    def pay(order, *, days, times, amount=9_000):
        received.append(repr((order, days, times, amount)))

    has_default = Annotated[int, pydantic.Field(default=5, exclude=True)]
    makes_default = Annotated[int, pydantic.Field(default_factory=lambda: 1)]
    kinds = {"order": kind, "days": has_default, "times": makes_default, "amount": int}
    pay.__annotations__ = kinds
    tools = {"pay": tool(pay, description="Pay.")}
    request = ToolCall("1", "pay", {"order": written})
    arguments = dump(fit(tools, request))
    assert arguments == {"order": shown, "days": 5, "times": 1, "amount": 9_000}
    for sent in (request, replace(request, arguments=arguments)):  # the second as an edit is
        assert not called(tools, sent).is_error
    assert received[0] == received[1]
    assert received[0].endswith(", 5, 1, 9000)")


def test_the_thought_that_a_call_carries_is_not_in_its_signature():
    assert signature(ToolCall("1", "pay", {"thought": "It is due.", "cents": 1})) == "pay(cents=1)"
    assert signature(ToolCall("2", "think", {"thought": "It is due."})).count("It is due.") == 1


def test_a_signature_is_always_on_one_line():
    written = signature(ToolCall("1", "pay\nme", {"a\n> y": "b\nc", "d": 1}))
    assert written == '"pay\\nme"("a\\n> y"="b\\nc", d=1)'


# Calls without a result, and other mistakes.


async def cleans_up_badly() -> None:
    try:
        await asyncio.sleep(5)
    finally:
        raise ConnectionResetError("the line broke")


@pytest.mark.parametrize("run", [ask, ask_async])
def test_a_late_tool_is_reported_as_late_even_if_its_cleanup_raises(run):
    result = run(tool(cleans_up_badly, description="Pay.", timeout=0.05))
    assert result.content == f"error: no result in time.\n{MAY_HAVE_HAPPENED}"
