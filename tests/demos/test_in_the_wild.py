"""What others do with the pattern: each statement has a source, and the TypeScript is checked.

The type check needs a folder with the npm packages: AI_SDK=FOLDER, after

    npm install --prefix FOLDER ai@7 zod@4 typescript@7 @types/node

(Without the 7, npm on Node 20 installs ai 6, which has other names.)
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.sizes import ROOT

PAGE = ROOT / "demos/IN_THE_WILD.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in TEXT.splitlines()
    if line.startswith("| ") and not re.match(r"\| (who|statement) \|", line)
]
TYPESCRIPT = ROOT / "demos/vercel_ai_sdk.ts"
LINK = re.compile(r"\[[^\]]*\]\(([^)]+)\)")
PACKAGES = Path(os.environ.get("AI_SDK", "no folder"), "node_modules").resolve()
needs_node = pytest.mark.skipif(
    not PACKAGES.is_dir(), reason="AI_SDK names no folder of npm packages"
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:30])
def test_a_statement_has_a_source_a_date_and_how_it_was_checked(row):
    *statement, source, date, how = row
    assert all(statement)
    assert all(target.startswith("https://") for target in LINK.findall(source))
    assert LINK.search(source)
    assert re.search(r"\b20\d\d\b|no date|none", date)
    assert re.match(r"read|quoted", how)


def test_a_figure_is_in_a_row_with_a_source():
    for line in TEXT.splitlines():
        if not line.startswith("| "):
            assert not re.search(r"\d.?%|(?<!\d)\.\d{3}\b", line), line


@pytest.mark.parametrize(
    "name",
    [
        "ReAct", "DSPy", "aider", "Cursor", "Windsurf", "Manus", "Claude Code", "MemGPT",
        "LangGraph", "Vercel AI SDK",
    ],
)  # fmt: skip
def test_the_page_names(name):
    assert name in [row[0] for row in ROWS]


def test_the_page_is_short_and_its_own_links_exist():
    assert len(TEXT.split()) <= 900
    inside = [target for target in LINK.findall(TEXT) if not target.startswith("https://")]
    assert len(inside) >= 4
    assert [target for target in inside if not (PAGE.parent / target).exists()] == []


def test_the_typescript_is_as_long_as_the_page_says():
    lines = len(TYPESCRIPT.read_text(encoding="utf-8").splitlines())
    assert lines <= 40
    assert f"in {lines} lines" in TEXT


STRICT = """{"compilerOptions": {"strict": true, "noUncheckedIndexedAccess": true,
"module": "nodenext", "target": "es2022", "skipLibCheck": true, "types": ["node"],
"rewriteRelativeImportExtensions": true, "outDir": "out"}, "include": ["*.ts"]}"""
TRY = """
import { MockLanguageModelV4 } from "ai/test";
import { run } from "./vercel_ai_sdk.ts";
const called = (toolName: string, input: object) =>
  [{ type: "tool-call", toolCallId: toolName, toolName, input: JSON.stringify(input) }];
const replies: object[][] = [
  called("think", { thought: "Look it up.", should_continue: "true" }),
  called("lookup_order", { order_id: "ORD-001" }),
  called("think", { thought: "It is known.", should_continue: "false" }),
  [{ type: "text", text: "It is 13 days old." }],
];
const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const choices: unknown[] = [];
const model = new MockLanguageModelV4({
  doGenerate: async (options) => {
    choices.push(options.toolChoice);
    const content = replies[choices.length - 1];
    const unified = choices.length < replies.length ? "tool-calls" : "stop";
    return { content, finishReason: { unified }, usage, warnings: [] } as never;
  },
});
console.log(await run(model, "What is ORD-001?"));
console.log(JSON.stringify(choices));
"""


@pytest.mark.slow
@needs_node
def test_the_typescript_is_typed_and_runs(tmp_path):
    """On the SDK's own mock model: forced, free, free, and a closing reply without tools."""
    (tmp_path / "node_modules").symlink_to(PACKAGES)
    shutil.copy(TYPESCRIPT, tmp_path)
    (tmp_path / "try.ts").write_text(TRY)
    (tmp_path / "tsconfig.json").write_text(STRICT)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    checked = subprocess.run(
        [PACKAGES / ".bin/tsc", "-p", "."],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert checked.returncode == 0
    assert checked.stdout == ""
    done = subprocess.run(
        ["node", "out/try.js"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [
        "It is 13 days old.",
        '[{"type":"tool","toolName":"think"},{"type":"auto"},{"type":"auto"},{"type":"none"}]',
    ]
