"""Rules that hold for every record of a run, whatever the agent.

Rule 1: a rule reads only the record: a message, the messages before it, and the tools in the
        header. It doesn't use an agent, settings or a clock.
Rule 2: a rule complains only about what no run writes. So it ignores anything that depends on
        settings (which limit, how patient), and the wording of thoughts, results and answers.
Rule 3: messages are read by `Turn`, as everywhere.

Limitations: a custom policy that undoes the kit's decisions (a refusal by the gate, the end of a
turn, the tool choice of a closing reply) produces records that look wrong here.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ..loop import Done, Step, next_step
from ..messages import (
    THINK_NAME,
    Assistant,
    Checked,
    Ended,
    Json,
    Message,
    Paused,
    Started,
    ToolCall,
    ToolResult,
    User,
    Verdict,
)
from ..policies.asking import Decisions
from ..policies.done_when import Checks
from ..policies.doubt import Doubts
from ..running import GO_ON, STOPPED_IN_IT
from ..text import canonical
from ..think import as_run, bare
from ..turn import Turn
from .planned import is_request

MAY_LEAVE_CALLS_OPEN = ("declined", "limit", "budget", "gave_up")  # exits
SAYS_DONE = ("signal", "silence")
Complaints = Iterator[str]


@dataclass(frozen=True)
class Before:
    """The record before a message. `last` is the message right before it. `tools` are the header's
    tools and their guards, by name; None if there is no header.
    """

    turn: Turn
    last: Message | None
    tools: Mapping[str, Json] | None

    @property
    def call(self) -> ToolCall | None:
        """The next call, if it may run: its reply is complete and isn't a closing reply."""
        turn = self.turn
        if not turn.pending or turn.reply is None:
            return None
        if turn.is_closing_reply or not turn.reply.is_usable:
            return None
        return turn.pending[0]

    @cached_property
    def step(self) -> Step:
        """The next step according to the loop alone."""
        return next_step(self.turn)

    @property
    def guarded(self) -> set[str]:
        """The names of the tools that need a thought."""
        tools = self.tools or {}
        return {name for name in tools if tools[name].get("think_first")}

    def guard(self, call: ToolCall, name: str) -> object:
        """The header's value under this name for the tool of `call`; None if there is none."""
        if self.tools is None:
            return None
        return self.tools.get(call.name, {}).get(name)

    def records_start(self, call: ToolCall) -> bool | None:
        """Are starts of this tool recorded? None if that isn't known."""
        if self.tools is None or call.name not in self.tools:
            return None
        may_repeat = self.guard(call, "read_only") or self.guard(call, "idempotent")
        return bool(self.guard(call, "takes_key")) or not may_repeat


Rule = Callable[[Before, Message], Complaints]


def complaints(before: Before, message: Message) -> Complaints:
    """All problems with this message at this place."""
    for rule in RULES:
        yield from rule(before, message)


def _find_begun(before: Before, message: Message) -> ToolCall | None:
    """The action that this message starts: by its start, or by its result if it has no start."""
    call = before.call
    if call is None or call.name == THINK_NAME or not _is_about(message, call):
        return None
    if isinstance(message, Started):
        return call
    if isinstance(message, ToolResult) and not message.refused and not before.turn.started:
        return call
    return None


def _is_about(message: Message, call: ToolCall) -> bool:
    return isinstance(message, ToolResult | Started | Verdict) and message.call_id == call.id


# The order.


def a_person_begins(before: Before, message: Message) -> Complaints:
    """The first message is a person's."""
    if before.last is None and not is_request(message):
        yield "no person has spoken before it"


def calls_are_answered_in_order(before: Before, message: Message) -> Complaints:
    """A message about a call is about the next call. Calls of a closing or truncated reply can only
    have a result that says they didn't run.
    """
    if not isinstance(message, ToolResult | Started | Verdict | Paused) or not message.call_id:
        return
    pending = before.turn.pending
    if not pending:
        yield "no call waits for it"
    elif message.call_id != pending[0].id:
        yield f"it is not about the next call, which is of {pending[0].name}"
    elif isinstance(message, ToolResult | Started) and message.name != pending[0].name:
        yield f"it names {message.name}, and the call is of {pending[0].name}"
    elif before.call is None and not _is_stopped(message):
        yield "it is about a call of a reply whose calls are not run"


def no_call_is_dropped(before: Before, message: Message) -> Complaints:
    """Each call has its result before the conversation continues. Only certain ends of a turn leave
    calls open.
    """
    if before.call is None or before.turn.ended:
        return
    dropped = f"the call of {before.call.name} has no result"
    match message:
        case Assistant() | User() | Checked():
            yield dropped
        case Ended(exit) if exit not in MAY_LEAVE_CALLS_OPEN:
            yield dropped


def stopped_calls_are_followed_by_a_request(before: Before, message: Message) -> Complaints:
    """Calls that an earlier run left open are answered when a person sends a new request."""
    if before.last is None or not _is_stopped(before.last):
        return
    if not is_request(message) and not _is_stopped(message):
        yield "an earlier call was dropped for a new request, and there is no such request"


def _is_stopped(message: Message) -> bool:
    return isinstance(message, ToolResult) and message.refused == "stopped"


def an_end_is_an_end(before: Before, message: Message) -> Complaints:
    """After the end of a turn a person speaks, or a turn with a truncated reply is resumed."""
    ended = before.turn.ended
    if ended is None or is_request(message):
        return
    goes_on = ended.exit == "truncated" and message == GO_ON
    is_left_open = isinstance(message, ToolResult) and before.turn.started is not None
    if not goes_on and not is_left_open and not _is_stopped(message):
        yield "the turn had ended, and no other had begun"


def a_pause_waits(before: Before, message: Message) -> Complaints:
    """A question to a person is followed by the answer or another request."""
    if not isinstance(before.last, Paused):
        return
    if isinstance(message, Verdict):
        if message.question != before.last.id:
            yield "it answers another question than the one that waited"
        return
    if is_request(message) or _is_stopped(message):
        return
    if isinstance(message, ToolResult) and message.in_doubt:
        return
    yield "the run was waiting for a person, and no one decided"


# Calls.


def a_guarded_call_has_a_thought(before: Before, message: Message) -> Complaints:
    call = _find_begun(before, message)
    if call is None or call.name not in before.guarded:
        return
    if not before.turn.thought_behind(call, before.guarded):
        yield f"{call.name} ran without a thought"


def a_no_is_a_no(before: Before, message: Message) -> Complaints:
    call = _find_begun(before, message)
    verdict = before.turn.verdict
    if call and verdict and verdict.decision != "yes":
        yield f"{call.name} ran, and a person had said no"


def what_needs_a_yes_has_one(before: Before, message: Message) -> Complaints:
    call = _find_begun(before, message)
    if call is None or before.turn.verdict is not None:
        return
    if before.guard(call, "needs_approval") == "always":
        yield f"{call.name} ran without a person's yes"
    elif call.recovered and before.tools is not None and not before.guard(call, "read_only"):
        yield f"{call.name} ran from a text without a person's yes"
    elif isinstance(message, Started) and _is_repeated(before, call, message):
        yield f"{call.name} may have happened, and was repeated without a person's yes"


def _is_repeated(before: Before, call: ToolCall, start: Started) -> bool:
    """May this call have happened before, with a tool that mustn't run twice?"""
    if not before.records_start(call) or before.guard(call, "takes_key"):
        return False
    return before.turn.history.read(Doubts).find(bare(call), start.same) is not None


def a_start_comes_first(before: Before, message: Message) -> Complaints:
    """Calls with side effects have a start, and others don't."""
    if before.call is None or not _is_about(message, before.call):
        return
    call = before.call
    records_start = before.records_start(call)
    match message:
        case Started() if call.name == THINK_NAME or records_start is False:
            yield f"no start of {call.name} is recorded by a run"
        case ToolResult(refused="") if call.name != THINK_NAME and not before.turn.started:
            if records_start:
                yield f"{call.name} ran, and its start is missing"


def a_tool_exists(before: Before, message: Message) -> Complaints:
    """A call runs only if the tool exists and the arguments are an object."""
    call = _find_begun(before, message)
    if call is None:
        return
    if before.tools is not None and call.name not in before.tools:
        yield f"there is no tool {call.name!r}"
    elif isinstance(as_run(call, message.arguments).arguments, str):  # type: ignore[union-attr]
        yield f"the arguments of {call.name} aren't a JSON object"


def what_ran_is_what_was_decided(before: Before, message: Message) -> Complaints:
    """The yes, the start and the result have the same arguments."""
    call, turn = before.call, before.turn
    if call is None or not isinstance(message, Started | ToolResult):
        return
    if not _is_about(message, call) or _has_not_run(message):
        return
    ran = as_run(call, message.arguments)
    verdict = turn.verdict
    if verdict and verdict.decision == "yes" and not _are_same(verdict.arguments, ran.arguments):
        yield f"{call.name} ran with other arguments than those of the yes"
    if isinstance(message, ToolResult) and turn.started:
        started = as_run(call, turn.started.arguments)
        if not _are_same(started.arguments, ran.arguments):
            yield f"{call.name} ran with other arguments than those of its start"


def _are_same(one: Json | str | None, other: Json | str | None) -> bool:
    """Are these arguments the same? As JSON: in Python, 1 and True are equal."""
    return canonical(one) == canonical(other)


def _has_not_run(message: Message) -> bool:
    """Did this call not run now? (An earlier run may have started it.)"""
    if not isinstance(message, ToolResult):
        return False
    return bool(message.refused) or message.content == STOPPED_IN_IT


def a_yes_says_to_what(before: Before, message: Message) -> Complaints:
    match message:
        case Verdict("yes", arguments=None) if message.call_id:
            yield "the yes does not say to which arguments"


# Results of calls that didn't run.


def a_refusal_is_an_error(before: Before, message: Message) -> Complaints:
    if not isinstance(message, ToolResult):
        return
    if message.refused and not message.is_error:
        yield "the call was refused, but its result isn't an error"
    if message.in_doubt and not before.turn.started:
        yield "it may have happened, and it was never started"
    was_started = before.turn.started is not None
    if was_started and message.refused not in ("", "invalid") and not message.in_doubt:
        yield "the call was started, and then refused as if nothing had happened"


def a_refusal_has_its_reason(before: Before, message: Message) -> Complaints:
    """The kit's refusal codes, as far as the record alone can show the reason."""
    call = before.call
    if call is None or not isinstance(message, ToolResult) or not _is_about(message, call):
        return
    verdict = before.turn.verdict
    match message.refused:
        case "gate" if before.tools is not None:
            if call.name not in before.guarded:
                yield f"it was refused for lack of a thought, which {call.name} does not need"
            elif before.turn.thought_behind(call, before.guarded):
                yield "it was refused for lack of a thought, and there is one"
        case "person":
            if verdict is None or (verdict.decision == "yes" and not verdict.edited):
                yield "it was refused by a person, but no one had said no"
        case "text" if not call.recovered:
            yield "it was refused because it was written as text, and it was not"
        case "repeat":
            done = [action for action in before.turn.actions if not action.result.is_error]
            if not any(action.call.name == call.name for action in done):
                yield "it was refused because it had just succeeded, and it had not"


# Requests to the model, and messages from the kit.


def a_reply_follows_something_new(before: Before, message: Message) -> Complaints:
    if isinstance(message, Assistant) and isinstance(before.turn.last, Assistant):
        yield "the model was asked again, with nothing new to read"


def a_closing_reply_is_asked_as_one(before: Before, message: Message) -> Complaints:
    """After the signal or a closing message, the tool choice is "none"."""
    turn = before.turn
    if not isinstance(message, Assistant) or turn.last is None:
        return
    if isinstance(turn.last, User) and turn.last.kind == "policy":
        return  # a custom policy may choose anything
    if turn.is_answered and turn.signal == "cannot":
        return  # it closes only if the think tool has that value
    closes = turn.says_done or turn.asks_to_close
    if closes and message.tool_choice != "none":
        yield "it was not asked as a closing reply, although the turn was to be closed"
    if not closes and message.tool_choice == "none":
        yield "it was asked as a closing reply, and nothing had closed the turn"


def the_kit_has_a_reason_to_speak(before: Before, message: Message) -> Complaints:
    if not isinstance(message, User):
        return
    turn = before.turn
    match message.kind:
        case "check" if not turn.read(Checks).missing:
            yield "it says that something is missing, and no check has found that"
        case "nudge" if turn.ended is None and turn.last_words:
            yield "it says that the reply was empty, and it was not"
        case "format" if turn.reply is None or turn.reply.stop_reason != "malformed":
            yield "it says that the reply could not be read, and it could"
        case "repeat" if not turn.actions:
            yield "it says that an action was repeated, and there was none"


# The end of a turn.


def an_end_has_its_reason(before: Before, message: Message) -> Complaints:
    if not isinstance(message, Ended):
        return
    if before.turn.ended:
        return  # `an_end_is_an_end` reports that
    is_stopped = before.turn.read(Decisions).stop is not None
    exits = {"declined"} if is_stopped else _find_exits(before)
    if message.exit not in exits:
        yield f"no rule ends this turn as {message.exit!r}"


def _find_exits(before: Before) -> set[str]:
    """The exits that are possible here."""
    turn = before.turn
    found: set[str] = set()
    if turn.limit:
        found.add(turn.limit)
    else:
        found |= {"limit", "budget"}  # limits are settings
    if _has_missed(turn):
        found.add("gave_up")
    exit = _exit_by_the_loop(before)
    if exit in SAYS_DONE:
        found.add("invalid_answer")  # the answer's type isn't in the record
        exit = "unmet" if turn.read(Checks).missing else exit
    if exit and turn.signal == "cannot":
        found.add("cannot")
    if exit:
        found.add(exit)
    return found


def _has_missed(turn: Turn) -> bool:
    """Was a reply unproductive, or an action repeated?"""
    if turn.asked["repeat"] or turn.asked["format"] or turn.refused:
        return True
    if turn.reply and turn.reply.stop_reason == "malformed":
        return True
    return any(
        isinstance(message, ToolResult) and message.is_error for message, _ in turn.log.entries
    )


def _exit_by_the_loop(before: Before) -> str:
    """How the turn ends according to the model; empty if it has more to do."""
    turn = before.turn
    reply = turn.reply
    if reply is None:
        return ""
    was_asked = turn.reply_to is not None and turn.reply_to.kind == "silence"
    if was_asked and turn.says_done:  # confirmed: its earlier text is the answer
        return "silence"
    if was_asked and reply.is_usable and not reply.words and not reply.tool_calls:
        return "silence"
    if isinstance(before.step, Done):
        return before.step.exit
    is_plan = bool(reply.dialect) and turn.thoughts_in_a_row > 0
    if is_plan and turn.says_done and reply.words:
        return "signal"  # a finished plan includes its answer
    return ""


def an_answer_was_said(before: Before, message: Message) -> Complaints:
    """The answer is in a reply of the turn."""
    if not isinstance(message, Ended) or not message.answer:
        return
    if message.exit in ("declined", "gave_up", "limit", "budget", "empty"):
        return  # the kit or a policy may have written it
    said: set[str] = set()
    for reply in before.turn.replies:
        said |= {reply.words, reply.text}
    if message.answer not in said:
        yield "the answer is in no reply of the turn"
    elif message.answer == before.turn.last_words:
        yield "the answer is recorded twice"


RULES: tuple[Rule, ...] = (
    a_person_begins,
    calls_are_answered_in_order,
    no_call_is_dropped,
    stopped_calls_are_followed_by_a_request,
    an_end_is_an_end,
    a_pause_waits,
    a_guarded_call_has_a_thought,
    a_no_is_a_no,
    what_needs_a_yes_has_one,
    a_start_comes_first,
    a_tool_exists,
    what_ran_is_what_was_decided,
    a_yes_says_to_what,
    a_refusal_is_an_error,
    a_refusal_has_its_reason,
    a_reply_follows_something_new,
    a_closing_reply_is_asked_as_one,
    the_kit_has_a_reason_to_speak,
    an_end_has_its_reason,
    an_answer_was_said,
)
