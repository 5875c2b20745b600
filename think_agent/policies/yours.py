"""Yours: what a policy of your own gets to see, what it may change, and what it may not.

Rule 1: it sees a call only if the arguments fit. `step.received` has them as the function will get
        them: a model may write "250", and the function gets 250. So judge those. If it puts others
        in their place that do not fit, the call is refused.

It may replace any step. Three things stay as they are, so that nothing is lost:

Rule 2: a step is about the next call. If your policy makes a call of its own, it gets that id.
Rule 3: a question that the kit asks the model is asked. Your policy may reword it.
Rule 4: only a person's message opens a turn. What your policy says has the kind `"policy"`.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import wraps

from ..loop import AskHuman, CallModel, CallTool, Policy, Refuse, Step, is_action
from ..messages import ToolCall, User
from ..tools import Tool
from ..turn import Turn
from .validation import with_call


def yours(policy: Policy, tools: Mapping[str, Tool]) -> Policy:
    """A policy of your own, kept to the rules."""

    @wraps(policy)  # it keeps its name, for those who read what it did
    def judge(step: Step, turn: Turn) -> Step:
        own = policy(step, turn)
        match own:
            case CallTool(call) if is_action(own) and turn.pending:
                return with_call(own, replace(call, id=turn.pending[0].id), tools)
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
