"""Lists the demos: `python -m demos`."""

import ast
from pathlib import Path

from think_agent.cli.console import RunView
from think_agent.cli.screen import Screen

HERE = Path(__file__).parent


def main() -> None:
    """Print a line for each lesson: its name, and the first sentence of its docstring."""
    rows = {"refund": "The refund desk, which all the others take apart."}
    for path in sorted(HERE.glob("[0-9][0-9]*_*.py")):
        said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        rows[path.stem] = " ".join(said.split("\n\n")[0].split())
    rows["fleet"] = "The desk on several machines."
    view = RunView(Screen())
    view.print("The course, one idea each. Run one by its name: python -m demos.NAME\n")
    view.table(rows)


if __name__ == "__main__":
    main()
