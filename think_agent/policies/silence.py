"""Silence is confirmed: a model that stops although it said that it would go on is asked, once.

Its own words are held against it and nothing is guessed from them, in no language: the last thought
of its turn said `should_continue` "true", and then it called no tool. Mostly it has announced its
next step and forgotten to take it; sometimes it waits for the user, so the question says that, too.

    it calls think with "false", and nothing else -> its earlier text is the answer, exit "silence"
    it calls something else                       -> the loop goes on
    it says something again                       -> that is the answer

A reply that its provider marks as commentary alone is asked about in the same way, thought or not.

The edge: it is never asked twice, after a question of the kit's own about the answer or the end, in
a dialect (its end is typed), or where no model call is left; then what was said is the answer.
"""

from ..loop import CallModel, Done, Policy, Step
from ..messages import BROKEN_OFF, THINK_NAME, User
from ..turn import Turn

WITHIN = {"format", "repeat"}  # questions about the way, after which a turn goes on as before
ASK = "You stopped without calling a tool. Is everything done, or are you waiting for the user? "
CONFIRM = 'Then call think with should_continue "false": your text above is the answer. Else go on.'
ANSWER = "Then give the final answer. Else go on with the next step."


def confirm_silence(*, can_think: bool) -> Policy:
    """The policy; `can_think`: the model has a think tool with the exit signal to confirm by."""
    question = User(ASK + (CONFIRM if can_think else ANSWER), kind="silence")

    def ask_about_silence(step: Step, turn: Turn) -> Step:
        reply = turn.reply
        if reply is None or isinstance(turn.last, User):
            return step
        if turn.silent and len(turn.replies) > 1 and turn.replies[-2] is turn.silent:
            only_thought = all(call.name == THINK_NAME for call in reply.tool_calls)
            confirmed = turn.way_out == "signal" or not (reply.tool_calls or reply.words)
            whole = reply.stop_reason not in BROKEN_OFF and not turn.pending
            if only_thought and confirmed and whole:
                return Done("silence", turn.silent.words)
        ends = isinstance(step, Done) and step.exit == "silence" and not reply.dialect
        if ends and not turn.asked.keys() - WITHIN:
            goes_on = bool(turn.thoughts) and turn.thoughts[-1].should_continue is True
            if goes_on or not reply.text.strip():
                return CallModel("auto", say=question)
        return step

    return ask_about_silence
