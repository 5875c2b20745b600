"""Silence: if the model stops although there seems to be more to do, it's asked once a turn.

Rule 1: text isn't interpreted. The model is asked if its last thought said `should_continue`
        "true"; if it ignored a forced tool choice and has called no tool in this turn; if the
        provider says that it isn't finished; or if the reply is only commentary. With
        `silence="ask"` it's always asked.
Rule 2: if it then calls only think, with "false", its earlier text is the answer (exit "silence").
        If it calls another tool, the run continues. If it writes a new text, that's the answer.
Rule 3: it isn't asked if the kit has already asked about the answer or the end, nor in a dialect,
        whose format marks the end. Its text is then the answer.

Usually the model has announced its next step and forgotten to take it. Sometimes it's waiting for
the user, so the question mentions that as well.
"""

from ..loop import CallModel, Done, Policy, Step
from ..messages import Assistant, User
from ..turn import Turn

WITHIN = {"format", "repeat", "policy"}  # messages of the kit that don't ask about the end
ASK = "You stopped without calling a tool. Is everything done, or are you waiting for the user? "
CONFIRM = 'Then call think with should_continue "false": your text above is the answer. Else go on.'
ANSWER = "Then give the final answer. Else go on with the next step."


def confirm_silence(*, can_think: bool, can_act: bool = True, always: bool = False) -> Policy:
    """The policy. `can_think`: does the model have a think tool with the exit signal? `can_act`:
    does it have other tools? `always`: ask even without a reason.
    """
    question = User(ASK + (CONFIRM if can_think else ANSWER), kind="silence")

    def ask_about_silence(step: Step, turn: Turn) -> Step:
        reply = turn.reply
        if reply is None or isinstance(turn.last, User):
            return step
        was_asked = turn.reply_to is not None and turn.reply_to.kind == "silence"
        if was_asked and _confirms(reply, turn):
            return Done("silence", turn.replies[-2].words)
        if not isinstance(step, Done) or step.exit != "silence":
            return step
        if reply.dialect or turn.is_closing_reply or turn.asked.keys() - WITHIN:
            return step
        has_forgotten = can_act and _ignores_choice(reply, turn)
        if always or has_forgotten or _has_more_to_do(reply, turn):
            return CallModel("auto", say=question)
        return step

    return ask_about_silence


def _confirms(reply: Assistant, turn: Turn) -> bool:
    """Does the reply to the question confirm the end? A think call alone with "false" does, and so
    does an empty reply.
    """
    if reply.tool_calls:
        only_thinks = turn.thoughts_in_a_row > 0
        return only_thinks and turn.says_done
    return reply.is_usable and not reply.words


def _has_more_to_do(reply: Assistant, turn: Turn) -> bool:
    if reply.not_done or not reply.text.strip():
        return True
    for thought in reversed(turn.thoughts):
        if thought.how != "carried":  # a carried thought has no signal
            return thought.should_continue is True
    return False


def _ignores_choice(reply: Assistant, turn: Turn) -> bool:
    """Did it ignore a forced tool choice, and has it called no tool in this turn?"""
    has_called = any(earlier.tool_calls for earlier in turn.replies)
    return reply.enforced == "ignored" and not has_called
