"""Silence is confirmed: a model that stops although it said that it would go on is asked, once.

Its own words are held against it, and nothing is guessed from them: the last thought of its turn
said `should_continue` "true", and then it called no tool. Mostly it has announced its next step and
forgotten to take it; sometimes it waits for the user, so the question says that, too.

    it calls think with "false", and nothing else -> its earlier text is the answer, exit "silence"
    it calls something else                       -> the loop goes on
    it says something again                       -> that is the answer

A reply that its provider marks as commentary alone, or as not done, is asked about in the same way,
thought or not.

Limitations: it is never asked twice, nor after a question of the kit's own about the answer or the
end, nor in a dialect (its end is typed); then what was said is the answer.
"""

from ..loop import CallModel, Done, Policy, Step
from ..messages import THINK_NAME, Assistant, User
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
        if "silence" in turn.replied_to and _confirms(reply, turn):
            return Done("silence", turn.replies[-2].words)
        if not isinstance(step, Done) or step.exit != "silence":
            return step
        if reply.dialect or turn.asked.keys() - WITHIN:
            return step
        if _has_more_to_do(reply, turn):
            return CallModel("auto", say=question)
        return step

    return ask_about_silence


def _confirms(reply: Assistant, turn: Turn) -> bool:
    """Does the reply to the question say that all is done, by a thought alone or by nothing?"""
    if not reply.is_usable or turn.pending:
        return False
    if any(call.name != THINK_NAME for call in reply.tool_calls):
        return False
    if reply.tool_calls:
        return turn.closing == "signal"
    return not reply.words


def _has_more_to_do(reply: Assistant, turn: Turn) -> bool:
    if reply.not_done or not reply.text.strip():
        return True
    return bool(turn.thoughts) and turn.thoughts[-1].should_continue is True
