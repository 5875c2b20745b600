"""A tool with one parameter of any type, which gives its value back, and types for it."""

import enum
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Literal, Optional

import pydantic

from think_agent import Tool, ToolCall, ToolResult, tool
from think_agent.tools import (
    as_result,
    bind_call,
)
from think_agent.waiting import settle


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


@dataclass
class Point:
    x: int
    y: int = 0


class Order(pydantic.BaseModel):
    id: str
    lines: list[Point] = []
    color: Color = Color.RED


def called(tools: dict[str, Tool], request: ToolCall) -> ToolResult:
    made = tools.get(request.name)
    settled = settle(*bind_call(tools, request, ""))
    return as_result(made, request, settled, 20_000)


def ask(made: Tool, /, **arguments) -> ToolResult:
    return called({made.name: made}, ToolCall("c1", made.name, arguments))


def taking(kind, **default) -> Tool:
    """A tool `echo(value: kind)` that returns the repr of what it got."""

    def echo(value):
        return repr(value)

    echo.__annotations__ = {"value": kind}
    if default:
        echo.__defaults__ = (default["default"],)
    return tool(echo)


# What the model sent -> what the function gets

GOOD = [
    (str, "a", "a"),
    (int, "13", 13),
    (int, 13.0, 13),
    (float, "1.5", 1.5),
    (bool, "false", False),
    (Decimal, "1.10", Decimal("1.10")),
    (list[int], ["1", 2], [1, 2]),
    (list, [1, "a"], [1, "a"]),
    (dict[str, int], {"a": "1"}, {"a": 1}),
    (dict, {"a": []}, {"a": []}),
    (Optional[int], None, None),  # noqa: UP045
    (int | None, "5", 5),
    (int | str, "5", "5"),
    (Literal["a", "b"], "b", "b"),
    (Literal[1, 2], 2, 2),
    (Color, "red", Color.RED),
    (Size, 2, Size.LARGE),
    (Point, {"x": "1"}, Point(1)),
    (list[Point], [{"x": 1, "y": 2}], [Point(1, 2)]),
    (Order, {"id": "7", "color": "blue"}, Order(id="7", color=Color.BLUE)),
    (Order, {"id": "7", "lines": [{"x": 1}]}, Order(id="7", lines=[Point(1)])),
    (Annotated[int, "days"], "3", 3),
    (Annotated[int, pydantic.Field(ge=1)], 3, 3),
]
