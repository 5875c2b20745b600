"""Yours: what a custom policy sees, what it may change, and what it may not.

Rule 1: it sees only calls with valid arguments. Judge `step.received`, which has them as the
        function will get them: a model may write "250", and the function gets 250. If the policy
        changes them to invalid ones, the call is refused.

It may replace any step, with a few restrictions:

Rule 2: a step is about the next call. If your policy creates another call, that gets the same id.
Rule 3: the kit's questions to the model are always asked. Your policy may reword them.
Rule 4: only a person's message begins a turn. Your policy's messages have the kind `"policy"`.
Rule 5: it returns a step. Anything else is a TypeError that names your policy, its file and line.
"""

import inspect
from collections.abc import Mapping
from dataclasses import replace
from functools import wraps

from ..checking import describe, show_value
from ..loop import AskHuman, CallModel, CallTool, Check, Done, Policy, Refuse, Step, is_action
from ..messages import Assistant, Ended, Paused, ToolCall, ToolResult, User, find_problem
from ..tools import Tool
from ..turn import Turn
from .validation import with_call

CHANGED = "A policy changed this call to"


def yours(policy: Policy, tools: Mapping[str, Tool]) -> Policy:
    """A custom policy, restricted by the rules."""

    @wraps(policy)  # keep its name for `/explain`
    def judge(step: Step, turn: Turn) -> Step:
        own = policy(step, turn)
        _check_step(own, policy)
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


def _check_step(step: object, policy: Policy) -> None:
    if inspect.iscoroutine(step):
        step.close()  # otherwise Python warns that it was never awaited
    if not isinstance(step, Step):
        problem = f"it returned {show_value(step)}; return a step, such as the one it was given"
    else:
        problem = _find_flaw(step)
    if problem:
        raise TypeError(f"the policy {describe(policy)}: {problem}")


def _find_flaw(step: Step) -> str:
    """What's wrong with a step, judging by the message it would add to the transcript."""
    match step:
        case CallModel(say=None) | Check():
            return ""
        case CallModel(say=say):
            return _find_flaw_of("say", say, User)
        case CallTool(call):
            return _find_flaw_of("call", call, ToolCall)
        case Refuse(call, code, reason):
            result = ToolResult("", "", reason, is_error=True, refused=code)
            return _find_flaw_of("call", call, ToolCall) or find_problem(result)
        case AskHuman(question, call):
            flaw = _find_flaw_of("call", call, ToolCall) if call is not None else ""
            return flaw or find_problem(Paused(question))
        case Done(exit, answer):
            return find_problem(Ended(exit, answer))
    return ""


def _find_flaw_of(name: str, value: object, kind: type) -> str:
    if not isinstance(value, kind):
        return f"{name}={show_value(value)} isn't a {kind.__name__}"
    if isinstance(value, ToolCall):
        return find_problem(Assistant(tool_calls=(value,)))
    assert isinstance(value, User)
    return find_problem(value)
