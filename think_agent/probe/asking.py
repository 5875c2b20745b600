"""Ask an endpoint a few questions, to find out what it really does.

    print(*probe(connect("ollama:qwen3.5:4b")).rows, sep="\n")

Rule 1: asking and judging are separate. `observe` sends Requests to a Model; `report.py` judges the
        replies.
Rule 2: an error is a finding, and the probe continues. Only the plain question has to work: if it
        fails (no server, a wrong key), all others would fail as well, so the probe raises.
Rule 3: a tool choice that the provider is known to refuse isn't sent.

Limitations: each question is asked once. A small model may answer differently the next time.
"""

from ..dialects import in_dialect
from ..dialects.auto import WITH_TOOLS
from ..errors import ModelError
from ..messages import Assistant
from ..model import Model
from .report import PROMPT, QUESTIONS, ProbeReport, Row, Seen, judge, recommend


def probe(model: Model) -> ProbeReport:
    """Ask, judge and recommend. Raises ModelError if the plain question fails."""
    rows = judge(observe(model))
    window = getattr(model, "window", None)
    if window:
        rows.append(Row("window", "context window", "yes", window()))
    return ProbeReport(model.name, model.model, rows, recommend(rows))


def observe(model: Model) -> dict[str, Seen]:
    """The reply or the error for each question."""
    model = in_dialect(model, "native")  # probe the model itself, not `auto`
    # The choices that the provider knows are refused (`Provider.refused`); other models have none.
    refused: dict[str, str] = getattr(model, "refused", {})
    # The schema that forces what the server doesn't (`wire/forms.py`).
    form_of = getattr(model, "form", lambda question: None)
    seen = {}
    for name, question in QUESTIONS.items():
        if refused.get(name) == "" and form_of(question) is None:
            continue
        try:
            seen[name] = _ask_name(model, name)
        except ModelError as error:
            if name == "plain":
                raise
            seen[name] = Seen(error=str(error))
        # If only the choice by name is refused, the tool was forced as the only tool, which is as
        # good.
        is_forced_otherwise = name == "named" and "required" not in refused
        if refused.get(name) and not is_forced_otherwise:
            seen[name] = Seen(error=refused[name])
    seen[PROMPT] = _look_at_prompt(model)
    return seen


def _look_at_prompt(model: Model) -> Seen:
    """The prompt that the server's template renders. This costs no tokens."""
    render = getattr(model, "render_prompt", None)
    if render is None:
        return Seen()
    try:
        return Seen(prompt=render(WITH_TOOLS))
    except ModelError as error:
        return Seen(error=str(error))


def _ask_name(model: Model, name: str) -> Seen:
    if name != "stream":
        return Seen(model.complete(QUESTIONS[name]))
    *pieces, reply = model.stream(QUESTIONS[name])
    assert isinstance(reply, Assistant)
    return Seen(reply, pieces=len(pieces))
