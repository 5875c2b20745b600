"""What a command makes of the README: two tables of line counts, and what the demo prints.

`python -m tests.readme` prints them, with `--write` they are put in place.
A line of code is a line that holds a token which is no comment and no docstring.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
CORE = [
    ("think_agent/messages.py", "what was said and done, as values"),
    ("think_agent/loop.py", "the steps, `next_step`, `run`, `arun`"),
    ("think_agent/think.py", "the think tool and its exit signal"),
    ("think_agent/tools.py", "`@tool`, and calls that are checked first"),
    ("think_agent/schema.py", "a signature as a JSON schema"),
    ("think_agent/waiting.py", "a tool's function, and its timeout"),
    ("think_agent/model.py", "what a model is to the loop; the scripted one"),
    ("think_agent/trail.py", "which action stands behind which thought"),
    ("think_agent/policies/forcing.py", "when a thought is forced"),
    ("think_agent/policies/gate.py", "no guarded tool without a thought"),
    ("think_agent/policies/limits.py", "calls, actions, seconds, tokens, money"),
    ("think_agent/policies/patience.py", "failures, repeats, unreadable replies"),
    ("think_agent/policies/approval.py", "what a person decides; care after a crash"),
    ("think_agent/agent.py", "model + tools + instructions + policies"),
    ("think_agent/running.py", "what a step asks of the world"),
    ("think_agent/outcome.py", "what a run came to"),
]
REST = [
    ("think_agent/context.py", "how much of a long conversation a request shows"),
    ("think_agent/policies/answer.py", "a final answer of a type"),
    ("think_agent/transcript.py", "the transcript on disk"),
    ("think_agent/errors.py", "what can go wrong with a model"),
    ("think_agent/streaming.py", "a reply as it forms"),
    ("think_agent/dialects/tags.py", "thinking and answer told apart in marked text"),
    ("think_agent/providers/base.py", "asking, asking again, giving up"),
    ("think_agent/providers/ollama.py", "Ollama"),
    ("think_agent/providers/anthropic.py", "Anthropic"),
    ("think_agent/providers/openai.py", "OpenAI: client and errors"),
    ("think_agent/providers/openai_shared.py", "what its two APIs have in common"),
    ("think_agent/wire/openai_responses.py", "OpenAI's Responses API"),
    ("think_agent/wire/openai_chat.py", "Chat Completions, and who else speaks it"),
    ("think_agent/providers/gemini.py", "Gemini"),
    ("think_agent/dialects/split.py", "thoughts from one model, actions from another"),
    ("think_agent/dialects/text_calls.py", "calls that a model wrote into its text"),
    ("think_agent/dialects/schemas.py", "tool parameters that every provider takes"),
    ("think_agent/dialects/json_plan.py", "a turn as one JSON object under a schema"),
    ("think_agent/dialects/react.py", "Thought / Action / Final Answer in plain text"),
    ("think_agent/dialects/labels.py", "the labels of that format, found as they arrive"),
    ("think_agent/probe/report.py", "questions to an endpoint, and what the answers say"),
    ("think_agent/probe/asking.py", "the command `think-agent probe`"),
    ("think_agent/audit/layout.py", "a transcript, laid out for the eye"),
    ("think_agent/audit/page.py", "the audit page"),
    ("think_agent/audit/text.py", "the audit as text, JSON, and from a file"),
    ("think_agent/audit/redaction.py", "fields that an audit hides"),
    ("think_agent/integrations/otel.py", "spans for OpenTelemetry"),
    ("think_agent/evaluation/trials.py", "cases x models x settings x trials"),
    ("think_agent/evaluation/scores.py", "what the trials say, in figures and a plot"),
    ("think_agent/evaluation/intervals.py", "intervals and paired comparisons"),
    ("think_agent/evaluation/tables.py", "the same as tables, for a file or a terminal"),
    ("think_agent/evaluation/inputs.py", "what is evaluated: cases, suite, settings, prices"),
    ("think_agent/evaluation/command.py", "the command `think-agent eval`"),
    ("think_agent/integrations/dbos.py", "the same agent on a durable engine"),
    ("think_agent/evaluation/engine.py", "an evaluation shared by machines"),
    ("think_agent/cli/options.py", "flags, environment, TOML"),
    ("think_agent/cli/paths.py", "paths of a command line, looked at first"),
    ("think_agent/cli/console.py", "a run in a terminal"),
    ("think_agent/cli/approval.py", "asking a person at a terminal"),
    ("demos/refund/shop.py", "the shop: enforced policy, three tools"),
    ("demos/refund/offline.py", "the scripted stand-in"),
]
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def lines_of_code(source: str) -> int:
    """How many lines hold code."""
    strings: set[int] = set()  # lines of strings that are statements: docstrings
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                strings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - strings)


def table(order: Sequence[tuple[str, str]]) -> str:
    """A table of files, header and all."""
    rows = (
        f"| [`{path}`]({path}) | {what} | {lines_of_code((ROOT / path).read_text())} |\n"
        for path, what in order
    )
    return "| file | what it holds | lines of code |\n|---|---|---|\n" + "".join(rows)


def demo() -> str:
    """What the demo prints in a pipe, as a text block. Seconds are not compared: they read 0.0."""
    command = [sys.executable, "-m", "demos.refund", "I want a refund on order ORD-001"]
    done = subprocess.run(
        [*command, "--provider", "offline"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return "```text\n" + re.sub(r"[0-9.]+ s$", "0.0 s", done.stdout, flags=re.MULTILINE) + "```\n"


def written(text: str) -> str:
    """The README `text` with every made part made anew."""
    for pattern, made in (
        (r"(<!-- the core: [^\n]*-->\n).*?(?=<!-- end -->)", table(CORE)),
        (r"(<!-- the rest: [^\n]*-->\n).*?(?=<!-- end -->)", table(REST)),
        (r"(<!-- demo: [^\n]*-->\n)```text\n.*?```\n", demo()),
    ):
        text = re.sub(pattern, lambda m, made=made: m[1] + made, text, flags=re.DOTALL)
    return text


def main() -> None:
    text = written(README.read_text(encoding="utf-8"))
    if "--write" in sys.argv:
        README.write_text(text, encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
