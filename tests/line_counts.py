"""The table "Read in this order" of the README.

`python -m tests.line_counts` prints it, with `--write` it is put in place.
A line of code is a line that holds a token which is no comment and no docstring.
"""

import ast
import io
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
BEGIN, END = "<!-- line counts: python -m tests.line_counts -->\n", "<!-- end -->"
ORDER = [
    ("think_agent/messages.py", "what was said and done, as values"),
    ("think_agent/loop.py", "the steps, `next_step`, `run`, `arun`"),
    ("think_agent/think.py", "the think tool and its exit signal"),
    ("think_agent/tools.py", "`@tool`: signature to schema, checked calls"),
    ("think_agent/model.py", "what a model is to the loop; the scripted one"),
    ("think_agent/trail.py", "which action stands behind which thought"),
    ("think_agent/policies.py", "forcing, limits: the plan, amended"),
    ("think_agent/agent.py", "model + tools + instructions + policies; the outcome"),
    ("think_agent/errors.py", "what can go wrong with a model"),
    ("think_agent/streaming.py", "a reply as it forms"),
    ("think_agent/tags.py", "thinking and answer told apart in marked text"),
    ("think_agent/providers/base.py", "asking, asking again, giving up"),
    ("think_agent/providers/ollama.py", "Ollama"),
    ("think_agent/providers/anthropic.py", "Anthropic"),
    ("think_agent/providers/openai.py", "OpenAI: client and errors"),
    ("think_agent/providers/openai_responses.py", "OpenAI's Responses API"),
    ("think_agent/providers/openai_chat.py", "Chat Completions, and who else speaks it"),
    ("think_agent/providers/gemini.py", "Gemini"),
    ("think_agent/console.py", "a run in a terminal"),
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


def table() -> str:
    """The table, header and all."""
    rows = (
        f"| [`{path}`]({path}) | {what} | {lines_of_code((ROOT / path).read_text())} |\n"
        for path, what in ORDER
        if (ROOT / path).exists()
    )
    return "| file | what it holds | lines of code |\n|---|---|---|\n" + "".join(rows)


def main() -> None:
    if "--write" not in sys.argv:
        print(table(), end="")
        return
    text = README.read_text()
    head, rest = text.split(BEGIN)
    README.write_text(head + BEGIN + table() + END + rest.split(END, 1)[1])


if __name__ == "__main__":
    main()
