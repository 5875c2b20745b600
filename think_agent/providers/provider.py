"""A provider as a Model: four methods that share one class, `Exchange`. An exchange is one request
with its retries, until there is a reply or an error.

Rule 1: if a server refuses a tool choice or one of the kit's own fields, the request is changed and
        sent again at once (`refusals.py`). A refused body is never sent twice.
Rule 2: only this module retries. A `retryable` error leads to up to `retries` more tries, but not
        after a part of the reply has been shown, and not if the wait would exceed `LONGEST_WAIT`.
Rule 3: if a stream breaks, fails or times out, it becomes an unfinished reply if a part of it has
        been shown, and otherwise an error. Once the whole reply has arrived, a timeout does no harm
        (Gemini doesn't mark the end). An unreadable call makes a malformed reply, so the model can
        try again.
Rule 4: after a response has arrived, any exception is the server's fault. Before, it's a bug.
Rule 5: our errors never have the SDK's error as their cause, because it may contain a key.
Rule 6: uncounted tokens are estimated, and failed tries' tokens are added to the next reply.
        Otherwise limits wouldn't hold.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from ..errors import BadRequest, BadResponse, ModelError, TimedOut
from ..messages import Assistant, Enforced, Json, Usage
from ..model import Request
from ..streaming import Delta, Notice
from ..wire.forms import FormReader, read_form, with_notice
from ..wire.incoming import ErrorAnswer, validate_delta, validate_reply
from ..wire.outgoing import relax
from .base import Endpoint
from .complaints import is_complaint, is_failure
from .errors import UnreadCall
from .refusals import Lesson, describe_left_out, find_refused, find_refused_choices, find_remedy
from .transport import TRIP, Trip

LONGEST_WAIT = 30.0  # seconds
NOTICEABLE = 1.0  # seconds
PER_TOKEN = 4  # characters, roughly


class Provider(Endpoint):
    """The base of all providers. `stream` and `astream` differ only in `await`."""

    is_checked = True  # by `wire/incoming.py`

    def complete(self, request: Request) -> Assistant:
        reply: Assistant
        *_, reply = self.stream(request, in_pieces=False)
        return reply

    async def acomplete(self, request: Request) -> Assistant:
        reply: Assistant
        *_, reply = [event async for event in self.astream(request, in_pieces=False)]
        return reply

    def stream(self, request: Request, *, in_pieces: bool = True) -> Iterator[Any]:
        exchange = Exchange(self, request, is_shown=in_pieces)
        self._learn_once(exchange.trip, request)
        while exchange.outcome is None:
            with exchange.reserve() as notices:
                yield from notices
                if exchange.wait > 0:  # even a sleep of 0 takes time
                    time.sleep(exchange.wait)
            with exchange.trip:
                try:
                    answer = self.post(self.client, exchange.prepare(), stream=exchange.streams)
                    if not exchange.streams:
                        exchange.finish(self.decode(answer))
                        continue
                    for event in answer:
                        yield from exchange.feed(self.decode(event))
                        if exchange.fold.ended:
                            break
                    exchange.finish_stream()
                except Exception as error:
                    exchange.recover(error)
        yield exchange.result()

    async def astream(self, request: Request, *, in_pieces: bool = True) -> AsyncIterator[Any]:
        exchange = Exchange(self, request, is_shown=in_pieces)
        if self._has_questions(request):
            await asyncio.to_thread(self._learn_once, exchange.trip, request)
        while exchange.outcome is None:
            with exchange.reserve() as notices:
                for notice in notices:
                    yield notice
                if exchange.wait > 0:
                    await asyncio.sleep(exchange.wait)
            async with self._loop_client(exchange.trip) as client:
                try:
                    body = exchange.prepare()
                    answer = await self.post(client, body, stream=exchange.streams)
                    if not exchange.streams:
                        exchange.finish(self.decode(answer))
                        continue
                    async for event in answer:
                        for delta in exchange.feed(self.decode(event)):
                            yield delta
                        if exchange.fold.ended:
                            break
                    exchange.finish_stream()
                except Exception as error:
                    exchange.recover(error)
        yield exchange.result()


class Exchange:
    """A request and its outcome: the reply or the error, once there is one. `is_shown`: a watcher
    sees the pieces of the reply. `streams`: the server streams. `wait`: seconds before the next
    try.
    """

    def __init__(self, provider: Endpoint, request: Request, *, is_shown: bool) -> None:
        self.provider = provider
        self.request = request
        self.wait = 0.0
        self.outcome: Assistant | ModelError | None = None
        self.trip = Trip(request.deadline)
        self.streams = is_shown or provider.always_streams
        self._shows = is_shown
        self._tries = 0
        self._lesson = Lesson()
        self._refused_bodies: list[Json] = []
        self._is_shown = False  # has any part of the reply been shown?
        self._spent = Usage()  # tokens of failed tries
        self._answer: Json = {}  # the complete response of this try

    @contextmanager
    def reserve(self) -> Iterator[list[Notice]]:
        """Reserve a time slot (`pace.py`). In the block, the caller shows these notices and waits
        for `wait` seconds: until the slot or the deadline. The slot is given back if the deadline
        comes first, or if the wait is interrupted by a cancelled task or Ctrl-C.
        """
        pace = self.provider.pace
        before = self.wait
        place, held = pace.reserve(after=before)
        self.wait = min(held, self.trip.left)
        notices = []
        if held - before >= NOTICEABLE:
            text = f"{self.provider.name}: waiting {self.wait:.0f} s, to keep to per_minute"
            notices.append(Notice(text))
        is_used = False
        try:
            yield notices
            is_used = held <= self.wait
        finally:
            if not is_used:
                pace.give_back(place)

    def prepare(self) -> Json:
        """The body of the next try: with a schema, or with the strongest tool choice that the
        provider accepts.
        """
        self.wait = 0.0
        self._answer = {}
        provider = self.provider
        refused = provider.refused | self._lesson.refused
        left_out = provider.left_out | self._lesson.left_out
        self.fold = provider.fold()
        self._form = None
        if "form" not in refused and "response_format" not in left_out:
            self._form = provider.form(self.request)
        if self._form is None:
            self._asked = relax(self.request, refused)
        else:
            self._asked = replace(self.request, output_schema=self._form)
            self._form_reader = FormReader(self.request, self._form)
        self._body = provider.to_wire(self._asked, self._lesson, stream=self.streams)
        return self._body

    def feed(self, event: Any) -> Iterator[Delta]:
        """The Deltas of an event, for a watcher."""
        if is_failure(event, self.provider.wire.KEYS):
            raise ErrorAnswer(event)
        for delta in self.fold.feed(event):
            checked = validate_delta(delta)
            if not self._shows:
                continue
            self._is_shown = True
            if self._form is None:
                yield checked
            else:
                yield from self._form_reader.feed(checked)

    def finish(self, response: Any) -> None:
        """Turn a complete response into the reply."""
        self.outcome = self._keep_lesson(self._read(response))

    def finish_stream(self) -> None:
        """The stream is over: turn what has arrived into the reply."""
        if self.trip.is_page:
            raise self.provider.make_damage_error()
        reply = self._read(self.fold.result())
        nothing_came = not self._is_shown and not self.fold.ended
        if reply.stop_reason == "incomplete" and nothing_came:  # rule 3
            raise BadResponse(
                f"{self.provider.name}: the stream broke off before its end; try again, and "
                f"{self.provider.right_kind}",
                retryable=True,
            )
        self.outcome = self._keep_lesson(reply)

    def result(self) -> Any:
        """The reply. Raises the error here, outside the handler of the SDK's error."""
        outcome = self.outcome
        if isinstance(outcome, ModelError):
            raise outcome
        if outcome is None or self._spent == Usage():
            return outcome
        return replace(outcome, usage=outcome.usage + self._spent)  # rule 6

    # What to do after an error.

    def recover(self, error: Exception) -> None:
        """Use what has arrived as the reply, prepare another try, or end with one of our errors.
        Raises `error` if it's a bug.
        """
        TRIP.set(self.trip)  # each step of a generator may run in a different context
        problem = self.provider.translate(error)  # rule 4
        self.outcome = self._reply_despite(problem)
        if self.outcome:
            return
        self._spent += self._count_try()
        if self._can_adapt(problem) or self._may_pass(problem):
            return
        problem.__context__ = problem.__cause__ = None  # rule 5
        self.outcome = problem

    def _reply_despite(self, problem: ModelError) -> Assistant | None:
        """The partial reply, if a run can use it despite `problem`."""
        if isinstance(problem, UnreadCall):
            mistake = problem.complaint
            return self._mark_malformed(_cut_short(self._so_far(), mistake), mistake)

        is_silent = isinstance(problem, TimedOut)
        cause = str(problem)
        if is_silent and self.trip.left <= 0:
            cause = "deadline"
        elif not self._is_shown:  # no retry after something was shown (rule 2)
            return None
        reply = self._so_far()
        if is_silent and reply.stop_reason != "incomplete":
            return reply  # it's complete
        return _cut_short(reply, cause)

    def _can_adapt(self, problem: ModelError) -> bool:
        """Can the refused request be changed and sent at once? The provider remembers the
        change.
        """
        if not isinstance(problem, BadRequest):
            return False
        self._lesson.add(self._learn_from(problem))
        self._refused_bodies.append(self._body)
        return self.prepare() not in self._refused_bodies  # rule 1

    def _learn_from(self, refusal: BadRequest) -> Lesson:
        """How to change the request, judging by the refusal: with an option of `remedies`, without
        a field or the schema, or with a weaker tool choice.
        """
        provider = self.provider
        complaint = refusal.complaint
        options = provider.options | self._lesson.options
        remedy = find_remedy(provider.remedies, options, complaint)
        if remedy:
            return Lesson(options=remedy)
        if refusal.status in (400, 422):
            fields = find_refused(complaint, self._body)
            if fields:
                return Lesson(left_out=set(fields))
        kinds = find_refused_choices(self._asked.tool_choice, complaint)
        if kinds and self._form is not None:
            kinds = ["form"]  # first try the choice without the schema
        return Lesson(refused=dict.fromkeys(kinds, str(refusal)))

    def _keep_lesson(self, reply: Assistant) -> Assistant:
        """The changed request worked, so keep the change. `reply` gets a notice about it (rule
        1).
        """
        for name in sorted(self.provider.keep(self._lesson)):
            reply = with_notice(reply, describe_left_out(self.provider.name, name))
        self._lesson = Lesson()
        return reply

    def _may_pass(self, problem: ModelError) -> bool:
        """May the request be retried after a wait?"""
        wait = problem.retry_after
        if wait is None:
            wait = 2.0**self._tries * random.uniform(0.4, 0.6)
        if wait > LONGEST_WAIT:
            problem.args = (f"{problem} (it asks to wait {wait:.0f} s)",)
            return False
        if not problem.retryable or self._tries >= self.provider.retries:  # rule 2
            return False
        if wait >= self.trip.left:
            return False
        self.wait = wait
        self._tries += 1
        return True

    def _count_try(self) -> Usage:
        """The tokens of this try, if the server has counted them."""
        with suppress(Exception):  # the failed response may be anything
            usage: Usage = self.provider.wire.read_usage(self._answer or self.fold.result())
            return usage
        return Usage()

    # From a response to a reply.

    def _read(self, response: Any) -> Assistant:
        """A complete response as a reply."""
        self._answer = response
        if is_failure(response, self.provider.wire.KEYS):
            raise ErrorAnswer(response)
        error = self.provider.wire.find_error(response)
        if error:  # whatever else it contains
            raise ErrorAnswer(error)
        return self._read_reply(response)

    def _read_reply(self, response: Any) -> Assistant:
        provider = self.provider
        try:
            reply = provider.wire.from_wire(response)
        except (AttributeError, LookupError, TypeError, ValueError) as damage:
            if is_complaint(response):
                raise ErrorAnswer(response) from damage
            raise
        enforced = self._find_enforcer()
        if self._form is not None:
            reply = read_form(reply, self.request, self._form)
            enforced = reply.enforced
        signed_under = ""
        if reply.signed:
            signed_under = provider.digest_signed(self._body)
        reply = provider.remark(reply, response, self._body)
        reply = validate_reply(
            reply,
            enforced=enforced,
            model=reply.model or provider.model,  # some servers send none
            provider=provider.name,
            host=provider.host,
            signed_under=signed_under,
            cause=provider.quote(reply.cause),
        )
        if reply.stop_reason == "malformed":
            reply = self._mark_malformed(reply, reply.mistake)
        elif reply.stop_reason == "incomplete":
            reply = _cut_short(reply, reply.cause)
        return self._estimate_usage(reply)

    def _so_far(self) -> Assistant:
        """The reply so far."""
        try:
            return self._read_reply(self.fold.result())
        except Exception:  # not enough for a reply
            nothing = Assistant(
                model=self.provider.model, provider=self.provider.name, stop_reason="incomplete"
            )
            return self._estimate_usage(nothing)

    def _mark_malformed(self, reply: Assistant, mistake: str) -> Assistant:
        """`reply` with a message to the model about its `mistake`. If it had no tools to call, a
        partial text stays an unfinished reply, and a complete text is the answer.
        """
        what = self.provider.quote(mistake) or "nothing came"
        asked = self._asked
        if asked.tools and asked.tool_choice != "none":
            names = ", ".join(tool.name for tool in asked.tools)
            text = f"Your reply could not be read ({what}). The tools are: {names}. Call one again."
            return replace(reply, stop_reason="malformed", cause="", mistake=text)
        if reply.text and reply.stop_reason == "incomplete":
            return reply
        notice = f"What the model wrote could not be read: {what}"
        calls = tuple(call for call in reply.tool_calls if call.name)
        return replace(
            reply, tool_calls=calls, stop_reason="end_turn", cause="", mistake="", notice=notice
        )

    def _estimate_usage(self, reply: Assistant) -> Assistant:
        """`reply` with an estimate of its tokens, if the server hasn't counted them."""
        usage = reply.usage
        # Rule 6. For an unfinished reply, the server may have counted only the first piece.
        is_cut = reply.stop_reason == "incomplete"
        if usage.input_tokens and usage.output_tokens and not is_cut:
            return reply
        size = len(f"{reply.text}{reply.thinking}{reply.commentary}{reply.tool_calls or ''}")
        if not size and not is_cut:  # even a reply that was cut off costs its input
            return reply
        sent = usage.input_tokens or len(str(self._body)) // PER_TOKEN
        came = max(usage.output_tokens, size // PER_TOKEN)
        usage = replace(usage, input_tokens=sent, output_tokens=came, estimated=True)
        return replace(reply, usage=usage)

    def _find_enforcer(self) -> Enforced:
        """How the tool choice was enforced."""
        if self.request.tool_choice == "auto":
            return None
        if self._asked.tool_choice == "auto" and self._asked.tools:
            return "prompt"
        return "tool_choice"


def _cut_short(reply: Assistant, cause: str) -> Assistant:
    """`reply` as an unfinished one. Its native form is dropped: it may contain half a block."""
    return replace(reply, native=None, signed=False, stop_reason="incomplete", cause=cause)
