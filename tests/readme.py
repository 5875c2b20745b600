"""What a command makes of the READMEs: tables read from the tree, what a program prints, a picture.

    python -m tests.readme            names what is not current (exit 1)
    python -m tests.readme --write    makes it current

Rule 1: a made part stands between `<!-- made: NAME -->` and `<!-- end -->`; NAME is a key of MADE.
Rule 2: nothing is listed by hand. Files, their first sentences and sizes, lessons and what to
        notice in them are read from the tree.
Rule 3: seconds differ from run to run, so they are not compared.
"""

import ast
import inspect
import io
import itertools
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from rich.console import Console
from rich.text import Text

from demos.refund.checks import make_checks
from demos.refund.offline import reply
from demos.refund.session import MANAGER, remove_label
from demos.refund.shop import INSTRUCTIONS, Shop
from tests.support.commands import run_here
from tests.support.layers import closure
from tests.support.sizes import ROOT, count_lines, files
from think_agent import Agent, Verdict, connect
from think_agent.audit import RunReport, explain, report, to_html
from think_agent.cli.console import RunView

PACKAGE = ROOT / "think_agent"
FIRST_HOUR = ("messages", "think", "turn", "loop", "running")
README = ROOT / "README.md"
PICTURE = ROOT / "demos/run.svg"
PAGE = ROOT / "demos/audit.svg"
STEPS = ROOT / "demos/steps.html"
ASKED = "I want a refund on order ORD-001"
ASKED_FOR_BOTH = "Refund ORD-001 and ORD-003 please"
ASKED_FOR_TWO = "Please refund ORD-002 and ORD-004"
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
WORDS = {".j2": "A template.", ".css": "A style sheet."}  # for what has no docstring
PYTHON = re.compile(r"(<!-- goes on -->\n)?^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
SIGNS = {  # drawn on the baseline, as high and as wide as two characters
    "💭": '<ellipse cx="12" cy="-9" rx="11" ry="7"/><circle cx="5" cy="1" r="2.5"/>'
    '<circle cx="1.5" cy="5" r="1.5"/>',
    "🔧": '<g transform="rotate(45 12 -6)"><rect x="10" y="-9" width="4" height="15" rx="2"/>'
    '<path fill-rule="evenodd" d="M12-18a6 6 0 1 0 .01 0M10-19h4v7h-4z"/></g>',
}
SECONDS = re.compile(r"\b[0-9.]+(?: |&#160;)m?s\b")  # 0.1 s may be 96 ms the next time


def readmes() -> list[Path]:
    """All pages of the project."""
    folders = ("think_agent", "demos", "tests")
    pages = [path for path in files(*folders) if path.name == "README.md"]
    return [README, ROOT / "CONTRIBUTING.md", *pages]


def programs(text: str) -> list[str]:
    """The Python blocks of a page, those that go on with the one before joined to it."""
    found: list[str] = []
    for goes_on, code in PYTHON.findall(text):
        if goes_on:
            found[-1] += code
        else:
            found.append(code)
    return found


def docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def sentence(path: Path) -> str:
    """The first sentence of a module's docstring; with the next one where it is a question."""
    if path.suffix != ".py":
        return WORDS[path.suffix]
    paragraph = " ".join(docstring(path).split("\n\n")[0].split())
    first = re.match(r"(?:[^.]+?\?\s)?.+?[.?!](?=\s|$)", paragraph)
    return (first[0] if first else paragraph).replace("|", r"\|")


def table(paths: Iterable[Path], seen_from: str) -> str:
    """One row a file: what it is, and how many lines of code it has."""
    rows = ""
    for path in paths:
        size = count_shown_lines(path)
        if not size:
            continue
        link = f"[`{path.name}`]({path.relative_to(ROOT / seen_from)})"
        words = "The package's API." if path.name == "__init__.py" else sentence(path)
        rows += f"| {link} | {words} | {size} |\n"
    return "| file | what it is | lines of code |\n|---|---|---|\n" + rows


def count_shown_lines(path: Path) -> int:
    """The lines of code of a Python file, or the lines of a template; 0 for any other file."""
    if path.suffix == ".py":
        return count_lines([path])
    if path.suffix not in WORDS:
        return 0
    return sum(bool(line.strip()) for line in path.read_text(encoding="utf-8").splitlines())


def first_hour() -> str:
    return table((PACKAGE / f"{name}.py" for name in FIRST_HOUR), "think_agent")


def root() -> str:
    """The files of the root that the first hour does not have."""
    inside = sorted(path for path in PACKAGE.glob("*.py") if path.stem not in FIRST_HOUR)
    return table(inside, "think_agent")


def rooms() -> str:
    """One row a room: what it is, and how many lines of code it has."""
    rows = ""
    for room in ROOMS:
        page = PACKAGE / room / "README.md"
        size = count_lines(files(f"think_agent/{room}"))
        about = sentence(PACKAGE / room / "__init__.py")
        rows += f"| [{room}/]({page.relative_to(PACKAGE)}) | {about} | {size:,} |\n"
    return "| package | what it is | lines of code |\n|---|---|---|\n" + rows


def room_files(room: str) -> str:
    """The files of one room, seen from its own page."""
    return table(files(f"think_agent/{room}"), f"think_agent/{room}")


def options() -> str:
    """All options of an agent, as its docstring explains them, each with its default."""
    docstring = inspect.getdoc(Agent) or ""
    listed = docstring[docstring.index("- `") : docstring.index("\n\nRaises")]
    parameters = inspect.signature(Agent).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    for name, default in defaults.items():
        if isinstance(default, str | int | float | bool | None) and default != "":
            listed = listed.replace(f"`{name}`", f"`{name}={default!r}`", 1)
    return re.sub(r"\n +", " ", listed).replace("='", '="').replace("'`", '"`') + "\n"


def lessons() -> str:
    """The numbered lessons: the first sentence of each, the words that it ends with, and its
    exercise.
    """
    rows = ""
    exercises = {}
    for path in (ROOT / "demos/exercises").glob("[!_]*.py"):
        [number] = re.findall(r"after lesson (\d\d)", docstring(path))
        exercises[number] = f"[`{path.stem}`](exercises/{path.name})"
    for path in sorted((ROOT / "demos").glob("[0-9][0-9]*_*.py")):
        strings = (
            node.value
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        )
        notice = next(s.split("remember: ")[1] for s in strings if "remember: " in s)
        notice = " ".join(notice.split()).rstrip(".;")
        exercise = exercises.get(path.stem[:2], "")
        rows += f"| [`{path.stem}`]({path.name}) | {sentence(path)} | {notice} | {exercise} |\n"
    return "| lesson | idea | what to notice | exercise |\n|---|---|---|---|\n" + rows


def reading() -> str:
    """How much there is to read, and how much there is."""
    first_hour = [PACKAGE / f"{name}.py" for name in FIRST_HOUR]
    imported = closure(f"think_agent.{name}" for name in FIRST_HOUR)
    core = [*PACKAGE.glob("*.py"), *PACKAGE.glob("policies/*.py")]
    return (
        f"Five files are the core idea: {count_lines(first_hour):,} lines of code (without "
        f"docstrings and comments), or {count_lines(imported):,} with the "
        f"{len(imported) - len(first_hour)} files that they import. An agent needs "
        f"{count_lines(core):,}. The whole package has {count_lines(files('think_agent')):,}; "
        "every other feature has its own folder.\n"
    )


def ends() -> str:
    """How two runs end: a claim believed, and the same claim checked."""
    lines = []
    for flags in (["--done-when", "off"], []):
        command = ["demos.refund", "--provider", "offline:boaster", *flags]
        shown = run_here(*command, ASKED_FOR_BOTH).stdout.splitlines()
        answer = next(n for n, line in enumerate(shown) if line.startswith("All done"))
        lines.append(f'$ python -m {" ".join(command)} "{ASKED_FOR_BOTH}"')
        lines += [line for line in shown[answer:] if line and not line.startswith("(")]
    return "```text\n" + "\n".join(lines) + "\n```\n"


def picture() -> str:
    """The refund desk in a terminal, as an SVG. The stand-in plays, no language model."""
    played = recorder()
    shop = Shop(":memory:")
    desk = Agent(
        connect("offline", script=remove_label(reply)),
        shop.tools(),
        instructions=INSTRUCTIONS.read_text(encoding="utf-8"),
        done_when=make_checks(shop),
    )
    with RunView(played) as view:
        desk.run(ASKED, on_event=view)
    shown = recorder()  # of lines that are wrapped, as a terminal does it
    shown.print(Text(f'$ python -m demos.refund "{ASKED}"', "bold"))
    shown.print(Text(" scripted stand-in: no language model is at work ", "black on yellow"))
    shown.print(Text.from_ansi(played.export_text(styles=True)))
    svg = shown.export_svg(title="think-agent", unique_id="run")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # a picture fetches nothing
    return with_drawn_signs(svg)


def with_drawn_signs(svg: str) -> str:
    """Emoji as shapes, for not every machine has a font with them."""
    for emoji, shape in SIGNS.items():
        line = rf'(<text class="([\w-]+)" x="([\d.]+)" y="([\d.]+)"[^>]*>){emoji}'
        drawn = r'<g class="\2" transform="translate(\3 \4)">' + shape + r"</g>\1&#160;&#160;"
        svg = re.sub(line, drawn, svg)
    return svg


class SteadyDesk(Agent[object]):
    """Its keys do not differ from run to run."""

    keys = 0

    def mint_key(self) -> str:
        self.keys += 1
        return f"{self.keys:032x}"


@cache
def desk_at_work() -> RunReport:
    """The report of a run of the refund desk, with the reason for each step."""
    desk = refund_desk()
    transcript = desk.run(ASKED_FOR_TWO).transcript
    # Its shop is as that one was: nothing is decided.
    explained = explain(refund_desk(), transcript)
    return report(transcript, header=desk.made_of(), explained=explained)


def refund_desk() -> Agent[object]:
    """A desk with a shop of its own, and with a manager."""
    times = map("2026-11-22T09:00:00.{:03}Z".format, itertools.count(step=40))
    shop = Shop(":memory:", manager=True)
    return SteadyDesk(
        connect("offline", script=reply),
        shop.tools(),
        instructions=INSTRUCTIONS.read_text(encoding="utf-8") + MANAGER,
        done_when=make_checks(shop),
        approve=lambda asked: Verdict("yes", by="Maria Ortega"),
        now=lambda: next(times),
    )


def page() -> str:
    """The audit page of a run, as an SVG that holds it: it follows the reader's light or dark."""
    html = to_html(replace(desk_at_work(), steps=[]))
    style, body = (html.split(f"<{tag}>")[1].split(f"</{tag}>")[0] for tag in ("style", "body"))
    # Nobody can open them in a picture.
    body = re.sub(r'<details class="raw">.*?</details>', "", body, flags=re.DOTALL)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="820" height="680">\n'
        f"<style>{style}</style>\n"
        '<foreignObject width="100%" height="100%">\n'
        f'<body xmlns="http://www.w3.org/1999/xhtml">{body}</body>\n'
        "</foreignObject>\n</svg>\n"
    )


def recorder() -> Console:
    """A console that shows nothing and remembers all."""
    nowhere = io.StringIO()
    return Console(record=True, file=nowhere, width=100, color_system="truecolor", highlight=False)


MADE: dict[str, Callable[[], str]] = {
    "first hour": first_hour,
    "root": root,
    "rooms": rooms,
    **{f"files of {room}": partial(room_files, room) for room in ROOMS},
    "options": options,
    "lessons": lessons,
    "reading": reading,
    "ends": ends,
}


def written(text: str) -> str:
    """A page with every made part made anew."""
    return re.sub(
        r"(<!-- made: ([a-z ]+) -->\n).*?(?=<!-- end -->)",
        lambda part: part[1] + MADE[part[2]](),
        text,
        flags=re.DOTALL,
    )


def compared(text: str) -> str:
    """What has to be equal of a page."""
    return SECONDS.sub("…", text)


def drawn(svg: str) -> list[str]:
    """What has to be equal of a picture: its words. How rich draws them is rich's affair."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", compared(svg))


def outdated() -> dict[Path, str]:
    """What is not current, and what it should be."""
    found = {}
    for path in readmes():
        text = path.read_text(encoding="utf-8")
        new = written(text)
        if compared(new) != compared(text):
            found[path] = new
    svg = PICTURE.read_text(encoding="utf-8") if PICTURE.exists() else ""
    if drawn(new := picture()) != drawn(svg):
        found[PICTURE] = new
    for path, new in ((PAGE, page()), (STEPS, to_html(desk_at_work(), at_steps=True) + "\n")):
        if not path.exists() or path.read_text(encoding="utf-8") != new:
            found[path] = new
    return found


def main() -> None:
    found = outdated()
    for path, text in found.items():
        print(path.relative_to(ROOT))
        if "--write" in sys.argv:
            path.write_text(text, encoding="utf-8")
    if found and "--write" not in sys.argv:
        sys.exit(1)


if __name__ == "__main__":
    main()
