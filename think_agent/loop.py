"""The loop: one pure function that decides the next step.

    next_step(transcript)  -> CallModel | CallTool | Done
    policy(step, turn)     -> any step, also Refuse | AskHuman | Check

Rule 1: `next_step` reads only the transcript: no clock, no network, no other state.
Rule 2: each call is one step. So policies judge a call after they've seen the previous call's
        result.
Rule 3: a policy may replace the planned step. Forcing, limits and the like are policies.
Rule 4: a model says it's done by *signal* or by *silence*. The signal is a thought with
        `should_continue` "false". The model is then called once more with the tool choice "none",
        and this closing reply is the answer. Silence is a reply without calls: the answer.
Rule 5: after `Ended`, the next step is always that same end. No policy runs.

`running.py` carries out the steps.
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
    """Limits for one reply, and the JSON schema it must follow (`Request`)."""

    max_output_tokens: int | None = None
    output_schema: Json | None = field(default=None, hash=False, repr=False)
    # These two aren't compared: after a resume more time is left, since the pause doesn't count.
    seconds: float = field(default=inf, compare=False)
    model_calls: float = field(default=inf, compare=False)  # the limit of the turn


@dataclass(frozen=True)
class CallModel:
    """Call the model. `say` is a message from the kit that's added to the transcript first."""

    tool_choice: ToolChoice = "auto"
    say: User | None = None
    bounds: Bounds = Bounds()


@dataclass(frozen=True)
class Fit:
    """A call's validated arguments."""

    values: Fitted  # converted to the types of the tool
    # The tool's name and the original arguments, as text: so a later change is noticed, even one
    # made in place.
    written: str

    @classmethod
    def of(cls, call: ToolCall, values: Fitted) -> "Fit":
        """Tie validated arguments to the call they were made from."""
        return cls(values, _write_call(call))

    def is_of(self, call: ToolCall) -> bool:
        """Were the values made from exactly these arguments? A carried thought is ignored."""
        return _write_call(call) == self.written


def _write_call(call: ToolCall) -> str:
    return canonical([call.name, bare(call).arguments])


@dataclass(frozen=True)
class Tried:
    """Was a call tried before? `same` is a digest of the arguments that identify the call. If an
    earlier try may have happened, this call repeats it with the same idempotency key, `key`.
    `as_new` is then the call as it would run if it were a new one.
    """

    same: str = ""
    key: str = ""
    as_new: ToolCall | None = None


@dataclass(frozen=True)
class CallTool:
    """Run this call. The kit itself answers a call of `think`."""

    call: ToolCall
    # These follow from the call and the transcript, so they aren't compared.
    fit: Fit | None = field(default=None, compare=False, repr=False)  # read it as `fitted`
    tried: Tried = field(default=Tried(), compare=False)  # what is known about earlier tries
    remark: str = field(default="", compare=False)  # for the model, added to the result

    @property
    def fitted(self) -> Fitted | None:
        """The validated arguments, converted to the types of the tool's function. None if the
        call's current arguments haven't been validated.
        """
        if self.fit is None or not self.fit.is_of(self.call):
            return None
        return self.fit.values

    @property
    def received(self) -> Json | None:
        """The arguments as the function will get them, as JSON. For an int parameter, `"580"` is
        580. Defaults are filled in; excluded fields and secrets are included. None if the arguments
        aren't validated yet.
        """
        received: Json | None = dump(self.fitted)
        return received

    @property
    def stable(self) -> Json | None:
        """`received` without defaults that are generated on each call, such as an id."""
        stable: Json | None = dump(self.fitted, without_made_defaults)
        return stable


@dataclass(frozen=True)
class Refuse:
    """Answer this call with an error instead of running it. `reason` is for the model, `code` for
    programs (`ToolResult.refused`), `notice` for a person who watches the run.
    """

    call: ToolCall
    code: str
    reason: str
    notice: str = field(default="", compare=False)


@dataclass(frozen=True)
class Check:
    """Run the checks with these names. `at_limit`: the turn has to end now, even if a check can't
    be run.
    """

    names: tuple[str, ...]
    at_limit: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Done:
    """The run ends. With the exit `needs_human` it's paused until a person answers `question`."""

    exit: Exit
    answer: str = ""
    question: AskHuman | None = field(default=None, compare=False)


Step = CallModel | CallTool | Refuse | AskHuman | Check | Done
Policy = Callable[[Step, Turn], Step]


def is_action(step: Step) -> TypeGuard[CallTool]:
    """Is this a call of a tool other than `think`?"""
    return isinstance(step, CallTool) and step.call.name != THINK_NAME


def is_free(step: Step) -> TypeGuard[CallModel]:
    """Is this a model call in which the model may call tools?"""
    return isinstance(step, CallModel) and step.tool_choice != "none"


NUDGE = User(
    "Your last reply was empty. Go on, or give the final answer in plain words.", kind="nudge"
)


def next_step(transcript: Turn | Iterable[Message]) -> Step:
    """Decide the next step. A transcript begins with a person's message."""
    turn = Turn.of(transcript)
    reply = turn.reply
    if turn.ended:
        return Done(turn.ended.exit, turn.answer)
    if turn.asks_to_close:
        return CallModel("none")
    if reply is None or isinstance(turn.last, User):  # a message without a reply yet
        return CallModel()
    if not reply.is_usable:  # if it's malformed, the policy `ask_for_format` asks again
        return _unusable(reply)
    if turn.is_closing_reply or not reply.tool_calls:  # calls in a closing reply don't run
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
    """The next step, after every policy has had a chance to change it, in order."""
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
