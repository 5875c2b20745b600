"""Where did this come from? Each claim of an answer names the result that supports it.

Since lesson 14: not only the work is checked, but also what an answer is based on.

Rule 1: With the type `Source` in `answer=`, each result has a number that the model sees, and a
        claim names the number of its result.
Rule 2: A source is right if that result was shown and succeeded. The model reads once that
        one is wrong. If it's still wrong, the exit is "invalid_answer".

Limitations: the claim itself isn't read. A right number under a wrong claim passes, as the last run
shows. But a person finds the result in one step: the audit page links each claim to it.
"""

import json

from pydantic import BaseModel

from demos.common import call, follow_steps, play
from think_agent import Agent, Assistant, Model, NothingDone, Request, Source, User, tool


class Claim(BaseModel):
    """A sentence of the answer, and the result that says so."""

    says: str
    source: Source


@tool(read_only=True)
def look_up(what: str) -> str:
    """What a packet of tea costs ("price"), or how many are left ("stock")."""
    if what == "stock":
        raise NothingDone("the shelf does not answer")
    return "A packet of tea is $4."


work = follow_steps(
    ("The price first.", call("look_up", what="price")),
    ("And how many are left.", call("look_up", what="stock")),
)
FIRST = {  # the first answer of the script, by what it is asked: a claim and its source
    "How many packets of tea are left?": ("Three are left.", "2"),  # that look-up failed
    "Is there tea?": ("Three packets are left.", "7"),  # there never was a result 7
    "What does tea cost?": ("A packet is $5.", "1"),  # result 1 says $4
}
CORRECTED = ("A packet is $4. How many are left, I cannot say.", "1")


def stand_in(request: Request) -> Assistant:
    """Does its work, names a wrong result, and corrects it when it reads that."""
    if request.tool_choice != "none":
        return work(request)
    texts = [message.text for message in request.messages if isinstance(message, User)]
    says, source = FIRST[texts[0]]
    if len(texts) > 1:
        says, source = CORRECTED
    return Assistant(json.dumps({"answer": [{"says": says, "source": source}]}))


def lesson(model: Model) -> None:
    """Where did this come from?"""
    for question in FIRST:
        outcome = Agent(model, [look_up], answer=list[Claim]).run(question)
        print(f"\n{question} (exit {outcome.exit})")
        messages = [message for message in outcome.transcript if isinstance(message, User)]
        remarks = [message.text for message in messages if message.kind == "answer"]
        print("  told:", "".join(remarks) if remarks else "nothing")
        if outcome.data:
            for claim in outcome.data:
                print(f"  {claim.says} [{claim.source}]")
    print(
        "\nremember: a number that no result has is found; a claim that its result denies is not."
    )


if __name__ == "__main__":
    play(lesson, stand_in)
