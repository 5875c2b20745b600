"""The loop: one pure function that says what comes next.

    next_step(transcript)  -> CallModel | CallTool | Done
    policy(step, turn)     -> any step, also Refuse | AskHuman | Check

Rule 1: `next_step` reads the transcript and nothing else: no clock, no network, no state.
Rule 2: one call is one step. So a call is judged after the result of the call before it.
Rule 3: a policy may replace the planned step. Forcing, limits and the like are policies.
Rule 4: a model says that it is done by *signal* or by *silence*. The signal is a thought with
        `should_continue` "false". The model is then called once more, with the tool choice "none",
        and this closing reply gives the answer. Silence is a reply without calls; it is the answer.
Rule 5: after `Ended`, the next step is that end, and no policy is asked.

`running.py` does the steps.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeGuard

from .messages import THINK_NAME, Assistant, Exit, Json, Message, ToolCall, ToolChoice, User
from .schema import Fitted, dumped
from .turn import Turn


@dataclass(frozen=True)
class CallModel:
    """Ask the model. `say` is a message from the kit, which goes into the transcript first."""

    tool_choice: ToolChoice = "auto"
    say: User | None = None


@dataclass
class Retry:
    """The step repeats an earlier try that may have happened (`policies/doubt.py`). `step.call` has
    the arguments of that try, `key` is its idempotency key. `as_new`: the call as it would run if
    it were a new one. `is_asked`: a person has to decide.
    """

    key: str
    as_new: ToolCall
    is_asked: bool


@dataclass(frozen=True)
class CallTool:
    """Perform this call. The kit answers a call of think; for any other call the tool's function
    runs. Some policies add what they find out. `planned`: the call as it was before a person
    decided. `fitted`: the arguments of the call `validated`, in the types of its tool. `same`: a
    digest of what makes two calls the same. `retry`: the call repeats an earlier one. The
    transcript decides these five, so they are not compared.
    """

    call: ToolCall
    planned: ToolCall | None = field(default=None, compare=False)
    fitted: Fitted | None = field(default=None, compare=False, repr=False)
    validated: ToolCall | None = field(default=None, compare=False)
    same: str = field(default="", compare=False)
    retry: Retry | None = field(default=None, compare=False)

    @property
    def received(self) -> Json | None:
        """The arguments as the function will get them, in JSON. For a parameter that is an int,
        `"580"` is 580. Defaults are filled in; excluded fields and secrets are shown. None if the
        arguments are not validated yet.
        """
        received: Json | None = dumped(self.fitted)
        return received


@dataclass(frozen=True)
class Refuse:
    """Answer this call with an error instead of running it. The model reads `reason`. Programs read
    `code` (`ToolResult.refused`).
    """

    call: ToolCall
    code: str
    reason: str


@dataclass(frozen=True)
class AskHuman:
    """A person has to decide before the run can go on: about `call`, or (no `call`) whether to go
    on at all. `thought` is the thought behind the call. The person may edit the arguments of
    `call`. `received` is what the function will get. `remark`: why a person is asked, if it is not
    the tool alone. If nobody can be asked, a policy plans `Done("needs_human")`
    instead. `as_new`: an earlier try of the call may have happened. Then there are three answers,
    and nothing is edited: the same again (yes), this new one (yes, with `Verdict.new`), or no.
    """

    question: str
    call: ToolCall | None = None
    thought: str = ""
    received: Json | None = field(default=None, compare=False)
    remark: str = ""
    as_new: ToolCall | None = None

    @property
    def call_id(self) -> str:
        """The id of `call`; empty if there is none."""
        return self.call.id if self.call else ""


@dataclass(frozen=True)
class Check:
    """Run the checks with these names: is what the model said true?"""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Done:
    """The run ends here. With the exit `needs_human` it pauses: `question` waits for a person."""

    exit: Exit
    answer: str = ""
    question: AskHuman | None = field(default=None, compare=False)


Step = CallModel | CallTool | Refuse | AskHuman | Check | Done
Policy = Callable[[Step, Turn], Step]


def is_action(step: Step) -> TypeGuard[CallTool]:
    """Is this a call of a tool, and not of think?"""
    return isinstance(step, CallTool) and step.call.name != THINK_NAME


def is_free(step: Step) -> TypeGuard[CallModel]:
    """Is this a model call that may still call tools?"""
    return isinstance(step, CallModel) and step.tool_choice != "none"


NUDGE = User(
    "Your last reply was empty. Go on, or give the final answer in plain words.", kind="nudge"
)


def next_step(transcript: Turn | Iterable[Message]) -> Step:
    """What comes next. A transcript begins with a message from a person."""
    turn = Turn.of(transcript)
    reply = turn.reply
    if turn.ended:
        return Done(turn.ended.exit, turn.answer)
    if turn.asks_to_close:
        return CallModel("none")
    if reply is None or isinstance(turn.last, User):  # a person or the kit waits for a reply
        return CallModel()
    if not reply.is_usable:  # if it is malformed, the policy `ask_for_format` asks again
        return _unusable(reply)
    if turn.is_closing_reply or not reply.tool_calls:  # calls in a closing reply are not run
        return _answered(turn, reply.words)
    if turn.pending:
        return CallTool(turn.pending[0])
    if turn.says_done:  # by signal (rule 4 above)
        return CallModel("none")
    return CallModel()


def _unusable(reply: Assistant) -> Done:
    if reply.stop_reason == "refusal":
        return Done("refused", reply.words)
    return Done("truncated", reply.words)


def _answered(turn: Turn, answer: str) -> Step:
    if answer:
        return Done(turn.way_out, answer)
    if turn.asked["nudge"]:  # once a turn
        return Done("empty")
    if turn.is_closing_reply:
        return CallModel("none", NUDGE)
    return CallModel("auto", NUDGE)


def plan(transcript: Turn | Iterable[Message], policies: Iterable[Policy] = ()) -> Step:
    """The next step, after every policy has judged it, in order."""
    turn = Turn.of(transcript)
    step = next_step(turn)
    if turn.ended:
        return step
    for policy in policies:
        step = policy(step, turn)
    return step
