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
from math import inf
from typing import TypeGuard

from .messages import (
    THINK_NAME,
    Assistant,
    Exit,
    Json,
    Message,
    ToolCall,
    ToolChoice,
    User,
)
from .question import AskHuman as AskHuman
from .schema import Fitted, dump, without_made_defaults
from .text import canonical
from .think import bare
from .turn import Turn


@dataclass(frozen=True)
class Bounds:
    """What a reply may use, and the form it must have (`Request`): at most so many tokens and
    seconds, and a JSON schema.
    """

    max_output_tokens: int | None = None
    output_schema: Json | None = field(default=None, hash=False, repr=False)
    # These two are only shown. After a resume there is more time left, since a pause isn't counted.
    seconds: float = field(default=inf, compare=False)
    model_calls: float = field(default=inf, compare=False)  # the limit of the turn


@dataclass(frozen=True)
class CallModel:
    """Ask the model. `say` is a message from the kit, which goes into the transcript first."""

    tool_choice: ToolChoice = "auto"
    say: User | None = None
    bounds: Bounds = Bounds()


@dataclass(frozen=True)
class Fit:
    """Validated arguments, and the call from which they were made.

    `values`: the arguments in the types of the tool. `written`: the tool's name and the arguments
    as text, so that no later change of the call, not even one in place, goes unnoticed.
    """

    values: Fitted
    written: str

    @classmethod
    def of(cls, call: ToolCall, values: Fitted) -> "Fit":
        """The bond between a call and its validated arguments."""
        return cls(values, _write_call(call))

    def is_of(self, call: ToolCall) -> bool:
        """Were the values made from these very arguments? A carried thought isn't one of them."""
        return _write_call(call) == self.written


def _write_call(call: ToolCall) -> str:
    return canonical([call.name, bare(call).arguments])


@dataclass(frozen=True)
class Tried:
    """Was a call tried before? `same` is a digest of what makes two calls the same. If an earlier
    try may have happened, the call repeats that one with its idempotency key, `key`. `as_new` is
    then the call as it would run if it were a new one.
    """

    same: str = ""
    key: str = ""
    as_new: ToolCall | None = None


@dataclass(frozen=True)
class CallTool:
    """Perform this call. The kit answers a call of think; for any other call the tool's function
    runs. `fit`: the validated arguments (read them as `fitted`). `tried`: what is known of earlier
    tries. `remark`: what the model reads with the result, such as why other arguments ran than it
    wrote. These three follow from the call and the transcript, so they are not compared.
    """

    call: ToolCall
    fit: Fit | None = field(default=None, compare=False, repr=False)
    tried: Tried = field(default=Tried(), compare=False)
    remark: str = field(default="", compare=False)

    @property
    def fitted(self) -> Fitted | None:
        """The arguments in the types of the tool, with which its function will be called. None if
        they were not validated as they are now.
        """
        if self.fit is None or not self.fit.is_of(self.call):
            return None
        return self.fit.values

    @property
    def received(self) -> Json | None:
        """The arguments as the function will get them, in JSON. For a parameter that is an int,
        `"580"` is 580. Defaults are filled in; excluded fields and secrets are shown. None if the
        arguments are not validated yet.
        """
        received: Json | None = dump(self.fitted)
        return received

    @property
    def stable(self) -> Json | None:
        """`received` without the defaults that are made again each time, such as an id."""
        stable: Json | None = dump(self.fitted, without_made_defaults)
        return stable


@dataclass(frozen=True)
class Refuse:
    """Answer this call with an error instead of running it. The model reads `reason`. Programs read
    `code` (`ToolResult.refused`). Whoever watches the run reads `notice`.
    """

    call: ToolCall
    code: str
    reason: str
    notice: str = field(default="", compare=False)


@dataclass(frozen=True)
class Check:
    """Run the checks with these names: is what the model said true? `at_limit`: the turn has to end
    now, whether they can be run or not.
    """

    names: tuple[str, ...]
    at_limit: bool = field(default=False, compare=False)


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
        return _take_answer(turn, reply.words)
    if turn.pending:
        return CallTool(turn.pending[0])
    if turn.says_done:  # by signal (rule 4 above)
        return CallModel("none")
    return CallModel()


def _unusable(reply: Assistant) -> Done:
    if reply.stop_reason == "refusal":
        return Done("refused", reply.words)
    return Done("truncated", reply.words)


def _take_answer(turn: Turn, answer: str) -> Step:
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


def find_author(turn: Turn, policies: Iterable[Policy]) -> Policy | None:
    """The policy that made the next step what it is: the last one that changed it."""
    step = next_step(turn)
    author = None
    for policy in policies:
        changed = policy(step, turn)
        if changed != step:
            author = policy
        step = changed
    return author
