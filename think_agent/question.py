"""Question: a question to a person, and the possible answers.

Rule 1: A question has an id, and an answer names it: `question.yes(by="the manager")`. A call's id
        isn't enough, because some servers restart their call numbers in each reply.
Rule 2: The id has two parts. The first is created when the run pauses, and is recorded
        (`Paused.id`). The second is a digest of what the person sees: the tool, the arguments, and
        what the function will get. So if the code changes during a pause, the question gets another
        id.
Rule 3: The second part is never recorded: a secret in the arguments could be guessed from it.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from .checking import is_a, show_value
from .messages import Json, ToolCall, Verdict, find_problem
from .text import canonical, well_formed


@dataclass(frozen=True)
class AskHuman:
    """A person has to decide about `call`, or (without a `call`) whether the run continues.

    - `thought`: the thought that justifies the call
    - `received`: the arguments as the function will get them
    - `remark`: why the person is asked, unless it's only because of the tool
    - `as_new`: set if an earlier try of the call may have happened. There are then three answers:
      repeat that try (yes), run `as_new` (new), or no. Arguments can't be edited
    - `pause`: the first part of the id
    - `stable`: `received` without defaults that are generated on each call
    - `is_refused`: the current code would refuse the call, so a yes won't run it

    `yes`, `no`, `new` and `stop` create the answers for `Agent.resume` and `approve=`.
    """

    question: str
    call: ToolCall | None = None
    thought: str = ""
    received: Json | None = field(default=None, compare=False)
    remark: str = ""
    as_new: ToolCall | None = None
    pause: str = field(default="", compare=False)
    stable: Json | None = field(default=None, compare=False, repr=False)
    is_refused: bool = field(default=False, compare=False)

    @property
    def call_id(self) -> str:
        """The id of `call`; empty if there is none."""
        return self.call.id if self.call else ""

    @property
    def id(self) -> str:
        """The id of this question. A page or a queue sends it back with the answer."""
        return f"{self.pause}.{self.shown}"

    @property
    def shown(self) -> str:
        """A digest of what the person decides about (rule 2). The question's wording may change."""
        import hashlib  # late, because it loads OpenSSL

        what: list[Any] = []
        for call in (self.call, self.as_new):
            what.append(call and [call.name, call.arguments])
        received = self.stable if self.stable is not None else self.received
        text = canonical([*what, received])
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    def yes(self, *, by: str = "", reason: str = "", arguments: Json | None = None) -> Verdict:
        """Run the call as shown, or with other `arguments`. (Without a call: continue.) The model
        reads `reason`.
        """
        return self._answer("yes", by, reason, arguments=arguments)

    def new(self, *, by: str = "", reason: str = "") -> Verdict:
        """Run `as_new` as a separate call, even if an earlier one may have happened."""
        return self._answer("yes", by, reason, new=True)

    def no(self, reason: str = "", *, by: str = "") -> Verdict:
        """Don't run the call; the model reads `reason`. (Without a call: end the turn.)"""
        return self._answer("no", by, reason)

    def stop(self, reason: str = "", *, by: str = "") -> Verdict:
        """Don't run the call, and end the turn."""
        return self._answer("quit", by, reason)

    def _answer(self, decision: Any, by: str, reason: str, **rest: Any) -> Verdict:
        return Verdict(decision, self.call_id, reason, by, question=self.id, **rest)

    def take_answer(self, answer: Verdict | bool, source: object = "the verdict") -> Verdict:
        """The person's answer in the form that's recorded, with the call and its arguments. Raises
        TypeError, which names the `source` of the answer, if it isn't one to this question.
        """
        if is_a(answer, bool):
            answer = self.yes() if answer else self.no()
        if not is_a(answer, Verdict):
            advice = "use a bool, or a Verdict of this question"
            raise TypeError(f"{source} gave {show_value(answer)}: {advice}")
        assert isinstance(answer, Verdict)
        is_of_another = answer.question not in ("", self.id)
        if is_of_another or answer.call_id not in ("", self.call_id):
            advice = "use a Verdict of this one"
            raise TypeError(f"{source} gave the answer to another question: {advice}")
        answer = replace(answer, call_id=self.call_id, question=self.pause)  # rule 3
        if is_a(answer.reason, str) and is_a(answer.by, str):
            answer = replace(answer, reason=well_formed(answer.reason), by=well_formed(answer.by))
        problem = find_problem(answer)
        if problem:
            raise TypeError(f"{source} gave a Verdict that cannot be recorded: {problem}")
        if self.call is None or answer.decision != "yes":
            return replace(answer, new=False, arguments=None, edited=False)
        if answer.new and self.as_new:
            return self._say_to_what(answer, self.as_new)
        return self._say_to_what(replace(answer, new=False), self.call)

    def _say_to_what(self, answer: Verdict, call: ToolCall) -> Verdict:
        """A yes to `call`, with the person's arguments if they changed them."""
        assert isinstance(call.arguments, dict)  # anything else is refused before it's asked
        arguments = answer.arguments
        if arguments is None:
            arguments = call.arguments
        edited = canonical(arguments) != canonical(call.arguments)
        if edited and self.as_new:
            problem = "say yes, no or new, without arguments"
            raise TypeError(f"this call may have happened: {problem}")
        return replace(answer, arguments=arguments, edited=edited)
