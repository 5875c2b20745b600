"""Answers at random: late, twice, to old cards, after a change of the code, after a kill.

`python -m tests.soak` tries more of them.
"""

from hypothesis import settings

from tests.support.questions import Answers

TestAnswers = Answers.TestCase
TestAnswers.settings = settings(max_examples=40, stateful_step_count=12)
