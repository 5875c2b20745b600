"""Yours: what a custom policy sees, what it may change, and what it may not.

Rule 1: it sees only calls with valid arguments. Judge `step.received`, which has them as the
        function will get them: a model may write "250", and the function gets 250. If the policy
        changes them to invalid ones, the call is refused.

It may replace any step, with a few restrictions:

Rule 2: a step is about the next call. If your policy creates another call, that gets the same id.
Rule 3: the kit's questions to the model are always asked. Your policy may reword them.
Rule 4: only a person's message begins a turn. Your policy's messages have the kind `"policy"`.
Rule 5: it returns a valid step. Anything else is a TypeError that names your policy, its file and
        line.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import wraps
from types import UnionType
from typing import get_args

from ..checking import Culprit, is_a, show_value
from ..loop import (
    AskHuman,
    Bounds,
    CallModel,
    CallTool,
    Check,
    Done,
    Fit,
    Policy,
    Refuse,
    Step,
    Tried,
    is_action,
)
from ..messages import Assistant, Ended, Paused, ToolCall, ToolResult, User, find_problem
from ..tools import Tool
from ..turn import Turn
from .validation import with_call

CHANGED = "A policy changed this call to"
FIELDS: dict[type, dict[str, type | UnionType]] = {
    CallModel: {"say": User | None, "bounds": Bounds},
    CallTool: {"call": ToolCall, "fit": Fit | None, "tried": Tried, "remark": str},
    Refuse: {"call": ToolCall, "code": str, "reason": str, "notice": str},
    AskHuman: {"question": str, "call": ToolCall | None, "thought": str, "remark": str},
    Check: {"names": tuple},
    Done: {"answer": str, "question": AskHuman | None},
}


def yours(policy: Policy, tools: Mapping[str, Tool], *, checks: Collection[str] = ()) -> Policy:
    """A policy of your own, kept to the rules. `checks`: the names of the agent's checks."""
    culprit = Culprit("the policy", policy)

    @wraps(policy)  # keep its name for `/explain`
    def judge(step: Step, turn: Turn) -> Step:
        with culprit:
            own = policy(step, turn)
        if not is_a(own, Step):
            raise culprit.returned(own, "return a step, such as the one it was given")
        flaw = _find_wrong_field(own) or _find_unreadable(own) or _find_misplaced(own, turn, checks)
        if flaw:
            raise culprit.error(flaw)
        match own:
            case CallTool(call) if is_action(own) and turn.pending:
                return _with_its_call(own, step, replace(call, id=turn.pending[0].id), tools)
            case CallTool(call) | Refuse(call) | AskHuman(call=ToolCall() as call) if turn.pending:
                return replace(own, call=replace(call, id=turn.pending[0].id))
            case CallModel(say=say) if isinstance(step, CallModel) and step.say:
                if say is None:
                    say = step.say
                return replace(own, say=replace(say, kind=step.say.kind))
            case CallModel(say=User(kind="person") as say):
                return replace(own, say=replace(say, kind="policy"))
        return own

    return judge


def _with_its_call(
    own: CallTool, step: Step, call: ToolCall, tools: Mapping[str, Tool]
) -> CallTool | Refuse:
    """The policy's step, validated. If the policy changed the call, the model reads that."""
    valid = with_call(own, call, tools)
    before = step.call if isinstance(step, CallTool) else None
    if isinstance(valid, CallTool) and own.fitted is None and valid.call != before:
        return replace(valid, remark=CHANGED)
    return valid


def _find_wrong_field(step: Step) -> str:
    """Which field of a step has a value of another type; empty if there is none."""
    fields = next(fields for kind, fields in FIELDS.items() if is_a(step, kind))
    for name, kind in fields.items():
        value = getattr(step, name)
        if not is_a(value, kind):
            expected = (get_args(kind) or (kind,))[0]
            return f"{name}={show_value(value)} isn't a {expected.__name__}"
    return ""


def _find_unreadable(step: Step) -> str:
    """Why a message that the step would leave in the transcript could not be read again."""
    match step:
        case CallModel(tool_choice, say):
            asked = find_problem(Assistant(tool_choice=tool_choice))
            return asked or (find_problem(say) if say else "")
        case CallTool(call):
            return find_problem(Assistant(tool_calls=(call,)))
        case Refuse(call, code, reason):
            result = ToolResult("", "", reason, is_error=True, refused=code)
            return find_problem(Assistant(tool_calls=(call,))) or find_problem(result)
        case AskHuman(question, call):
            calls = (call,) if call else ()
            return find_problem(Assistant(tool_calls=calls)) or find_problem(Paused(question))
        case Done(exit, answer):
            return find_problem(Ended(exit, answer))
    return ""


def _find_misplaced(step: Step, turn: Turn, checks: Collection[str]) -> str:
    """Why the step cannot be done now; empty if it can."""
    match step:
        case CallTool() | Refuse() if not turn.pending:
            return f"it returned a {type(step).__name__}, but no call waits"
        case Check(names) if not names or not set(names) <= set(checks):
            return f"it returned Check({names!r}); the checks are {', '.join(checks) or 'none'}"
    return ""
