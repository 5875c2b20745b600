"""What the READMEs say of models, papers and providers stands in one table, with its sources."""

import re

import pytest

from tests.demos.test_readme import PAGES

TABLE = "think_agent/evaluation/README.md"

SECTION = PAGES[TABLE].split("## What is known from others")[1].split("\n## ")[0]
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in SECTION.splitlines()
    if line.startswith("| ")
][1:]
LINK = re.compile(r"\[[^\]]*\]\(([^)]*)\)")  # its target
TOOLS = {  # linked without a statement about them
    "https://ollama.com",
    "https://docs.astral.sh/uv/",
    "https://docs.dbos.dev",
    "https://github.com/sierra-research/tau2-bench",
    "https://github.com/open-telemetry/semantic-conventions-genai",
    "https://modelcontextprotocol.io",
    "https://github.com/modelcontextprotocol/python-sdk",
    # How other programs are configured (the page says when that was read).
    "https://code.claude.com/docs/en/mcp",
    "https://cursor.com/docs/mcp",
    "https://code.visualstudio.com/docs/copilot/reference/mcp-configuration",
}
# These pages have numbers that our own commands measured or counted.
OURS = (
    "tests/benchmarks/README.md",
    "tests/benchmarks/COSTS.md",
    "think_agent/audit/README.md",
    "think_agent/providers/README.md",
)
METHOD = re.compile(r"95.%")  # of an interval
FIGURE = re.compile(r"\d.?%|\b\d+ of (?:the |other )*\d+\b|hand-labeled|\barXiv\b|\b\w+-bench\b")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_a_claim_has_source_date_and_how_it_was_checked(row):
    statement, source, date, how = row
    assert statement
    assert LINK.search(source)
    assert re.search(r"\b20\d\d\b", date)
    assert re.match(r"read|by |searched|quoted", how)


@pytest.mark.parametrize("name", PAGES)
def test_a_linked_source_is_in_the_table(name):
    linked = {target for target in LINK.findall(PAGES[name]) if target.startswith("https://")}
    assert linked - TOOLS <= set(LINK.findall(SECTION))


CHECKED = {target: how for _, source, _, how in ROWS for target in LINK.findall(source)}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_that_a_source_was_read_or_quoted_as_the_table_does(name):
    for line in PAGES[name].replace(SECTION, "").splitlines():
        found = [CHECKED[target] for target in LINK.findall(line) if target in CHECKED]
        if any(how.startswith("quoted") for how in found):
            assert re.search(r"\bquoted\b", line), line
        if re.search(r"\bread 20\d\d", line, re.IGNORECASE):
            assert any(how.startswith("read") for how in found), line


@pytest.mark.parametrize("name", [name for name in PAGES if name not in OURS])
def test_every_figure_paper_and_benchmark_is_linked(name):
    """Its line links a source or the table, or says that the line above does."""
    text = re.sub(r"^```.*?^```", "", PAGES[name], flags=re.DOTALL | re.MULTILINE)
    before = ""
    for line in text.splitlines():
        if FIGURE.search(METHOD.sub("", LINK.sub("", line))):
            where = line + before * ("that article" in line)
            targets = LINK.findall(where)
            assert any(t.startswith("https://") or "#what-is-known" in t for t in targets), line
        before = line


def test_what_counts_as_a_figure():
    figures = ("it took 12 % of the runs", "8 of 56 writes", "32 of the 73", "on SWE-bench")
    others = ("a 95\u00a0% interval", "four of them")
    assert all(FIGURE.search(METHOD.sub("", line)) for line in figures)
    assert not any(FIGURE.search(METHOD.sub("", line)) for line in others)
