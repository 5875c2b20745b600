"""Silence: if the last thought said "more to do" but the model stops, it is asked once.

The last thought of the turn said `should_continue` "true", and then the model called no tool. No
text is interpreted. Mostly the model has announced its next step and forgotten to take it.
Sometimes it waits for the user, so the question mentions that, too. Then:

    it calls only think, with "false" -> its earlier text is the answer, exit "silence"
    it calls something else           -> the loop goes on
    it writes another text            -> that is the answer

The model is also asked, with or without a thought, if the provider says that the model is not done,
or if the reply has only commentary and no text.

Limitations: the model is asked at most once a turn. It is not asked after the kit has asked about
the answer or the end. It is not asked in a dialect, which marks the end by its form. In these cases
its text is the answer.
"""

from ..loop import CallModel, Done, Policy, Step
from ..messages import THINK_NAME, Assistant, User
from ..turn import Turn

WITHIN = {"format", "repeat", "policy"}  # the kit's messages after which a turn goes on as before
ASK = "You stopped without calling a tool. Is everything done, or are you waiting for the user? "
CONFIRM = 'Then call think with should_continue "false": your text above is the answer. Else go on.'
ANSWER = "Then give the final answer. Else go on with the next step."


def confirm_silence(*, can_think: bool) -> Policy:
    """The policy. `can_think`: does the model have a think tool with the exit signal?"""
    question = User(ASK + (CONFIRM if can_think else ANSWER), kind="silence")

    def ask_about_silence(step: Step, turn: Turn) -> Step:
        reply = turn.reply
        if reply is None or isinstance(turn.last, User):
            return step
        if _was_asked(turn) and _confirms(reply, turn):
            return Done("silence", turn.replies[-2].words)
        if not isinstance(step, Done) or step.exit != "silence":
            return step
        if reply.dialect or turn.is_closing_reply or turn.asked.keys() - WITHIN:
            return step
        if _has_more_to_do(reply, turn):
            return CallModel("auto", say=question)
        return step

    return ask_about_silence


def _was_asked(turn: Turn) -> bool:
    return turn.reply_to is not None and turn.reply_to.kind == "silence"


def _confirms(reply: Assistant, turn: Turn) -> bool:
    """Does the reply to the question say that all is done? A thought alone does, and so does an
    empty reply.
    """
    if not reply.is_usable or turn.pending:
        return False
    if any(call.name != THINK_NAME for call in reply.tool_calls):
        return False
    if reply.tool_calls:
        return turn.says_done
    return not reply.words


def _has_more_to_do(reply: Assistant, turn: Turn) -> bool:
    if reply.not_done or not reply.text.strip():
        return True
    return bool(turn.thoughts) and turn.thoughts[-1].should_continue is True
