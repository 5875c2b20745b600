"""Explains each step of a run in lines, for `/explain`, `--explain` and `--steps`.

1. next_step: the model is free to choose
     force_first: the model is asked to call think
       -> think: Look it up first.
"""

from collections.abc import Iterable, Iterator

from ..audit.explain import Explained


def explain_steps(steps: Iterable[Explained]) -> Iterator[tuple[str, str]]:
    """Lines that say why each step was taken: what `next_step` planned, which policies changed it,
    and what came of it. A line is a mark, and a text that wraps beside it.
    """
    for number, step in enumerate(steps, 1):
        mark = f"{number:>3}."
        for who, what, _ in step.planned:
            yield mark, f"{who}: {what}"
            mark = "    "
        for line in step.came:
            yield "       ->", line
        if step.remark:
            yield "       !!", step.remark
