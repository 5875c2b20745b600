"""Runs of other programs: the counts are those made by hand, and nothing is dropped in silence."""

import gzip
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings

from tests.audit.test_audit import run_audit
from tests.support.conversations import conversations
from tests.support.counting import grows_evenly
from tests.support.traces import PATH, WRITES, needs_traces, recorded
from tests.support.wires import to_wire
from think_agent import Assistant, Request, ToolCall, ToolResult, User
from think_agent.audit import read_log
from think_agent.audit.counts import count, table
from think_agent.audit.formats import HIDDEN
from think_agent.errors import FileError
from think_agent.evaluation.tables import markdown

FAILED = "actions that failed: the log says so, or the result begins with 'error'"
WIRES = {  # the protocols whose requests are logged
    "openai": "openai-chat",
    "anthropic": "anthropic",
    "ollama": "ollama",
    "responses": "openai-responses",
}


@pytest.fixture
def log(tmp_path):
    """Writes these rows or runs to a file and reads it."""

    def reading(value, **options):
        path = tmp_path / "log.json"
        path.write_text(json.dumps(value))
        return read_log(path, **options)

    return reading


def written(messages, form):
    """The messages in the format of another program."""
    body = to_wire(WIRES[form], Request(messages, system="Be kind."))
    return json.loads(json.dumps(body.get("messages") or body["input"]))


def calls_in(run):
    return [call.name for m in run.messages if isinstance(m, Assistant) for call in m.tool_calls]


def results_in(run):
    return [m.content for m in run.messages if isinstance(m, ToolResult)]


# What is counted.


@needs_traces
def test_the_200_runs_of_tau_bench_as_they_were_counted_by_hand(log):
    tau = log(recorded())
    assert tau.unread == []
    text = markdown([table(tau, WRITES, by="reward")])
    for cell in [
        "all: 200 runs",
        "reward 0.0: 116 runs",
        "reward 1.0: 84 runs",
        "16 of 84",
        "8 of 56",
        "15 of 250: 6.0% (3.7% to 9.7%)",
        "40 of 250: 16.0% (12.0% to 21.1%)",
        "32 of 194",
        "45 of 116",
        "61 of 200",
    ]:
        assert f"| {cell}" in text


# final_results/tool-calling-none-0.1_range_0-100_user-none-llm_06232025.json (f2ad25a, MIT) in
# github.com/avaljotsingh/tau-bench; the file lies beside the clone, not in it.
RETAIL = PATH.with_name("tau-retail-agentverify.json.gz")
RETAIL_WRITES = ["cancel_*", "exchange_*", "modify_*", "return_*"]


@pytest.mark.skipif(
    not RETAIL.is_file(), reason="the recorded runs (../shared/traces) are not here"
)
def test_the_100_runs_of_a_second_set_as_plain_python_counts_them(log):
    writes = behind = near = thinking = 0
    logs = json.loads(gzip.decompress(RETAIL.read_bytes()))
    for logged in logs:
        thought = of_this_turn = any_thought = False
        for row in logged["traj"]:
            if row["role"] == "user":
                of_this_turn = False
            for called in row.get("tool_calls") or ():
                if called["function"]["name"] == "think":
                    thought = of_this_turn = any_thought = True
                    continue
                if called["function"]["name"].startswith(
                    ("cancel", "exchange", "modify", "return")
                ):
                    writes += 1
                    behind += of_this_turn
                    near += thought
                thought = of_this_turn = False
        thinking += any_thought
    assert (writes, behind, near, thinking) == (148, 4, 12, 28)  # the README says so
    retail = log(logs)
    found = count(retail.runs, RETAIL_WRITES)
    assert found["writes behind a thought of their own turn"] == (behind, writes)
    assert found["writes with a thought since the last action, in any turn"] == (near, writes)
    assert found["runs with a thought in them"] == (thinking, 100)
    assert found[FAILED] == (34, 753)
    assert retail.unread == []


def acted(name, result, **arguments):
    call = ToolCall(f"{name}-{len(arguments)}-{result}", name, arguments)
    return [Assistant(tool_calls=(call,)), ToolResult(call.id, name, result, "Error" in result)]


SAID = [
    User("Pay Ann and Bob."),
    *acted("think", "Noted.", thought="Ann first.", should_continue="true"),
    *acted("pay", "paid", to="Ann"),
    *acted("pay", "paid", to="Ann"),
    *acted("pay", "Error: no account", thought="Bob, too.", to="Bob"),
    Assistant("I will now pay Carol."),
    User("Well?"),
    *acted("think", "Noted.", thought="All done.", should_continue="false"),
    *acted("pay", "paid", to="Carol"),
    Assistant("Carol is paid."),
]


@pytest.mark.parametrize("form", WIRES)
def test_what_is_counted_in_a_run(log, form):
    found = log(written(SAID, form))
    assert found.unread == []
    assert count(found.runs, ["pay"]) == {
        "writes behind a thought of their own turn": (3, 4),
        "writes with a thought since the last action, in any turn": (3, 4),
        "writes with native reasoning in their reply": (0, 4),
        "writes with text in their reply": (0, 4),
        "runs with a thought in them": (1, 1),
        "actions after a thought that said 'done'": (1, 4),
        "turns that ended without a call after a thought that said 'more to do'": (1, 2),
        "actions repeated, with the same result": (1, 4),
        FAILED: (1, 4),
    }


def test_reasoning_and_words_before_a_call_are_counted_apart(log):
    row = {**chat_call(), "content": "I pay.", "reasoning": "hm"}
    found = log([{"role": "user", "content": "Pay"}, row, {**RESULT, "content": "ok"}])
    counted = count(found.runs, ["pay"])
    assert counted["writes behind a thought of their own turn"] == (0, 1)
    assert counted["writes with native reasoning in their reply"] == (1, 1)
    assert counted["writes with text in their reply"] == (1, 1)


def test_a_thought_may_go_by_another_name(log):
    rows = written([User("Go"), *acted("plan", "ok", steps="first"), *acted("pay", "ok")], "openai")
    assert count(log(rows).runs, ["pay"])["runs with a thought in them"] == (0, 1)
    found = count(log(rows, thinks=["plan"]).runs, ["pay"])
    assert found["writes behind a thought of their own turn"] == (1, 1)


# Each protocol, whole.


@pytest.mark.parametrize("form", WIRES)
@given(messages=conversations())
@settings(deadline=None)
def test_reading_undoes_writing(tmp_path_factory, form, messages):
    path = tmp_path_factory.mktemp("log") / "log.json"
    path.write_text(json.dumps(written(messages, form)))
    found = read_log(path)
    assert found.unread == []
    assert found.runs[0].messages == messages


@pytest.mark.parametrize("form", WIRES)
def test_a_missing_row_is_noticed(log, form):
    """The row is a call, a result or a thought."""
    whole = written(SAID, form)
    texts = [json.dumps(row) for row in whole]
    places = [n for n, text in enumerate(texts) if "tool" in text or "function_call" in text]
    before = count(log(whole).runs, ["pay"])
    for place in places:
        found = log([row for n, row in enumerate(whole) if n != place])
        assert found.unread or count(found.runs, ["pay"]) != before


# What cannot be read is said, with its row.

USER = {"role": "user", "content": "Pay"}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "ok"}


def saying(content):
    return {"role": "assistant", "content": content}


def chat_call(id="c"):
    call = {"id": id, "type": "function", "function": {"name": "pay", "arguments": "{}"}}
    return {**saying(None), "tool_calls": [call]}


SERVER_TOOL = [
    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
    {"type": "text", "text": "found"},
]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([USER, chat_call()], "row 2: a call without a result: pay"),
        ([USER, RESULT], "row 2: a result without a call: 'c'"),
        ([USER, chat_call(), RESULT, RESULT], "row 4: a result without a call: 'c'"),
        ([USER, {"role": "critic", "content": "no"}], "row 2: a row of the role 'critic'"),
        ([USER, "words"], "row 2: a row that is no message"),
        ([{"role": "user", "content": [{"type": "image_url"}]}, USER], "the type 'image_url'"),
        ([USER, saying(SERVER_TOOL)], "the type 'server_tool_use'"),
        (
            [USER, saying([{"type": "tool-call", "toolName": "pay"}])],
            "row 2: a part of the type 'tool-call'",
        ),
        (
            [USER, {**RESULT, "content": [{"type": "tool-result", "output": 1}]}],
            "row 2: a part of the type 'tool-result' in a result",
        ),
        ([USER, {"type": "web_search_call", "id": "w"}], "a part of the type 'web_search_call'"),
        ([USER, {"role": "user", "parts": [{"type": "text"}]}], "the field 'parts' of the user"),
        ([{**USER, "tool_calls": [{"name": "pay"}]}], "row 1: the field 'tool_calls' of the user"),
        ([USER, chat_call(), {**RESULT, "error": True}], "the field 'error' of the result"),
        ([USER, saying('<tool_call>{"name": "pay", "arguments": {}}')], "row 2: a call of pay, "),
        (
            [USER, saying("Thought: I pay.\nAction: pay\nAction Input: {}")],
            "row 2: a call of pay, ",
        ),
        (
            [{**saying(""), "reasoning_content": "well", "reasoning": "hm"}],
            "row 1: the field 'reasoning' of the assistant",
        ),
        (  # a second choice
            [{"messages": [USER], "response": {"choices": [{"message": USER}, {"index": 1}]}}],
            "row 3: a row that is no message",
        ),
        ([USER, {"type": []}], "row 2: a row of a broken form"),
        ([USER, {"role": "user", "content": [{"type": {}}]}], "row 2: a row of a broken form"),
    ],
)
def test_what_cannot_be_read_is_listed_with_its_row(log, rows, message):
    assert any(message in what for what in log(rows).unread)


REPLY = chat_call()
RESPONSES = [
    {"choices": [{"message": REPLY}]},
    saying([{"type": "tool_use", "id": "c", "name": "pay", "input": {}}]),
    {"message": REPLY, "done": True},
    {"output": [{"type": "function_call", "call_id": "c", "name": "pay", "arguments": "{}"}]},
]


@pytest.mark.parametrize("response", RESPONSES)
def test_the_response_beside_its_request_is_read(log, response):
    found = log([{"messages": [USER], "response": response, "model": "m"}])
    assert calls_in(found.runs[0]) == ["pay"]
    assert found.runs[0].facts == {"model": "m", "response": response}


def asks(*calls, **fields):
    return Assistant(tool_calls=calls, stop_reason="tool_use", **fields)


def claude_code(kind, content, **fields):
    message = {"role": kind, "content": content, "id": "m1"}
    return {"type": kind, "message": message, "uuid": "u", "sessionId": "s", **fields}


def in_attachment(**typed):
    """What was typed while Claude Code worked. It has no row of the user."""
    typed = {"type": "queued_command", "commandMode": "prompt", **typed}
    return {"type": "attachment", "attachment": typed, "uuid": "u"}


PAYS = ToolCall("c", "pay", {})
ASKED = User("Pay")
TEXT = {"type": "text", "text": "x"}
FUNCTION_CALL = {"name": "pay", "arguments": "{}"}
USES = [{"type": "tool_use", "id": id, "name": "pay", "input": {}} for id in "ab"]
RESULTS = [{"type": "tool_result", "tool_use_id": id, "content": id} for id in "ab"]
REASONED = {**saying(""), "reasoning_content": "", "reasoning": "hm"}
NO = "The user doesn't want to proceed with this tool use. The tool use was rejected (…)"
READ = {  # by what they are: rows, and the messages of each run
    "several rows of one reply": (
        [
            USER,
            chat_call("a"),
            chat_call("b"),
            {**RESULT, "tool_call_id": "b", "content": "2"},
            saying("and"),  # a result after one more text
            {**RESULT, "tool_call_id": "a", "content": "1"},
        ],
        [
            [
                ASKED,
                asks(replace(PAYS, id="a"), replace(PAYS, id="b")),
                ToolResult("a", "pay", "1"),  # in the order of the calls
                ToolResult("b", "pay", "2"),
                Assistant("and"),
            ]
        ],
    ),
    "a function call of old OpenAI logs": (
        [
            USER,
            {**saying(None), "function_call": FUNCTION_CALL},
            {"role": "function", "name": "pay", "content": "paid"},
        ],
        [[ASKED, asks(replace(PAYS, id="call_1")), ToolResult("call_1", "pay", "paid")]],
    ),
    "a call of LangChain": (
        [
            USER,
            {
                **saying(""),
                "tool_calls": [
                    {"name": "pay", "args": {"to": "Ann"}, "id": "c", "type": "tool_call"}
                ],
            },
            RESULT,
        ],
        [[ASKED, asks(ToolCall("c", "pay", {"to": "Ann"})), ToolResult("c", "pay", "ok")]],
    ),
    "items of the Agents SDK": (
        [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Pay"}]},
            {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "so"}]},
            {"type": "function_call", "id": "fc", "call_id": "c", **FUNCTION_CALL},
            {"type": "function_call_output", "call_id": "c", "output": [TEXT]},
            {
                **saying([{"type": "output_text", "text": "Paid.", "annotations": []}]),
                "id": "msg",
                "type": "message",
                "status": "completed",
            },
        ],
        [
            [
                ASKED,
                asks(PAYS, thinking="hm\n\nso"),
                ToolResult("c", "pay", "x"),
                Assistant("Paid."),
            ]
        ],
    ),
    "Claude Code": (
        [
            claude_code("user", [TEXT], isMeta=True, timestamp="2026-11-20T10:00:00Z"),
            claude_code("user", "so far", isCompactSummary=True),
            claude_code("user", "Pay", timestamp="2026-11-20T10:00:00Z"),
            claude_code("assistant", [{"type": "thinking", "thinking": "", "signature": "x"}]),
            claude_code("assistant", USES[:1]),
            claude_code("user", RESULTS[:1]),
            claude_code("assistant", [TEXT, *USES[1:]]),  # still of the same reply
            claude_code("user", [{**RESULTS[1], "is_error": True}], toolUseResult=TEXT),
        ],
        [
            [
                User("x", "nudge"),
                User("so far", "nudge"),
                ASKED,
                asks(replace(PAYS, id="a"), replace(PAYS, id="b"), text="x", thinking=HIDDEN),
                ToolResult("a", "pay", "a"),
                ToolResult("b", "pay", "b", is_error=True),
            ]
        ],
    ),
    "what was typed while Claude Code worked": (
        [
            claude_code("user", "Pay"),
            in_attachment(prompt="Bob, too"),
            in_attachment(prompt=[{"type": "text", "text": "done"}], isMeta=True),
            in_attachment(prompt="ended", commandMode="task-notification"),
        ],
        [[ASKED, User("Bob, too"), User("done", "nudge"), User("ended", "nudge")]],
    ),
    "what Claude Code writes for itself": (
        [
            {"type": "summary", "summary": "a day"},
            claude_code("user", "Pay"),
            {"type": "attachment", "attachment": {"type": "hook_success", "content": "x"}},
        ],
        [[ASKED]],
    ),
    "a person's no": (
        [
            claude_code("assistant", USES[:1]),
            claude_code("user", [{**RESULTS[0], "content": NO, "is_error": True}]),
        ],
        [[asks(replace(PAYS, id="a")), ToolResult("a", "pay", NO, True, "person")]],
    ),
    "sub-agents": (
        [
            {"type": "assistant", "message": saying("mine"), "parent_tool_use_id": None},
            {"type": "assistant", "message": saying("its"), "parent_tool_use_id": "toolu_1"},
            claude_code("user", "A helper", isSidechain=True, agentId="x"),
            {"type": "assistant", "message": saying("mine, too"), "parent_tool_use_id": None},
        ],
        [[Assistant("mine\n\nmine, too")], [Assistant("its")], [User("A helper")]],
    ),
    "of two names, the one with a value": ([REASONED], [[Assistant("", "hm")]]),
    "two names of one value": (
        [{**REASONED, "reasoning_content": "hm"}],
        [[Assistant("", "hm")]],
    ),
}


@pytest.mark.parametrize(("rows", "runs"), READ.values(), ids=READ)
def test_these_rows_are_read_whole(log, rows, runs):
    found = log(rows)
    assert [run.messages for run in found.runs] == runs
    assert found.unread == []
    assert [run.facts for run in found.runs] == [{}] * len(runs)


# Other programs.


NO_RUN = "there is no run in it.*convert it to ATIF"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[1]", NO_RUN),
        ('{"messages": 5}', NO_RUN),
        ("5", NO_RUN),
        ("[[{}]]", NO_RUN),
        ('{"trace_id": 1}', NO_RUN),
        ('{"eval": {}, "samples": [{"messages": []}]}', NO_RUN),  # Inspect
        ('{"simulations": [{"messages": []}], "tasks": []}', NO_RUN),  # tau2-bench
        ('[{"type": "session_meta", "payload": {"id": "s"}}]', NO_RUN),  # Codex
        ('{"trajectory": [{"action": "ls"}], "history": []}', NO_RUN),  # SWE-agent
        ('{"run_type": "chain", "inputs": {}}', NO_RUN),  # LangSmith
        ('{"resourceSpans": []}', NO_RUN),  # OpenTelemetry
        ("{torn", "it cannot be read: it is no JSON"),
        ("PK\3\4", "it cannot be read: it is an archive, as Inspect's .eval.*; convert it to ATIF"),
    ],
)
def test_a_file_without_a_run_is_an_error_in_one_line(tmp_path, text, problem):
    (tmp_path / "runs.json").write_text(text)
    with pytest.raises(FileError, match=f"runs.json: {problem}"):
        read_log(tmp_path / "runs.json")


# The forms of a file.

RUN = written(SAID, "openai")
KEPT = {"messages": RUN, "reward": 0.5}


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (json.dumps(RUN), [{}]),
        ("\ufeff" + json.dumps(RUN), [{}]),
        ("\n".join(map(json.dumps, RUN)), [{}]),
        (json.dumps({"traj": RUN}), [{}]),
        (json.dumps({"input": RUN}), [{}]),
        (json.dumps({"input": RUN[:2], "output": RUN[2:]}), [{"output": RUN[2:]}]),
        (json.dumps([RUN, RUN]), [{}, {}]),
        (json.dumps([KEPT, KEPT]), [{"reward": 0.5}] * 2),
        (json.dumps(KEPT) + "\n" + json.dumps(RUN) + "\n", [{"reward": 0.5}, {}]),
    ],
)
def test_the_forms_of_a_file(tmp_path, text, facts):
    (tmp_path / "runs").write_bytes(text.encode())
    found = read_log(tmp_path / "runs")
    assert [run.facts for run in found.runs] == facts
    assert all(run.messages == found.runs[0].messages for run in found.runs)


def test_a_run_without_rows_is_a_run(log):
    found = log([KEPT, {"traj": [], "reward": 0.0}])
    assert [len(run.messages) > 0 for run in found.runs] == [True, False]
    assert found.unread == []


def test_a_half_written_line_leaves_the_rest_readable(tmp_path):
    (tmp_path / "runs").write_text(json.dumps(KEPT) + "\n" + json.dumps(KEPT)[:-9])
    found = read_log(tmp_path / "runs")
    assert (len(found.runs), found.unread) == (1, ["line 2: it is no JSON"])
    assert table(found).rows[-1] == ("what could not be read", "1", "0")


def test_many_runs_cost_no_more_than_their_number(tmp_path):
    def count(number: int) -> None:
        path = tmp_path / "runs.json"
        path.write_text(json.dumps([KEPT] * number))
        table(read_log(path), ["pay"], by="reward")

    assert grows_evenly(count, 10, 80)


# The command.


def test_the_command_counts_runs_and_shows_one_alone(tmp_path, capsys):
    path, page = tmp_path / "runs.json", tmp_path / "run.html"
    path.write_text(json.dumps([KEPT, KEPT]))
    assert run_audit(path, "--guarded", "p*,book_*") == 0
    shown = capsys.readouterr()
    assert "| reward 0.5: 2 runs" in shown.out  # by reward, where the log has one
    assert "| 6 of 8: 75.0%" in shown.out
    assert "--guarded book_*: no call in the log fits; its tools: pay" in shown.err
    assert run_audit(path, "--html", page) == 0
    assert capsys.readouterr().err.endswith(f"wrote {page}\n")
    assert "<td>6 of 8: 75.0%" in page.read_text()
    assert run_audit(path, "--json") == 0
    counted = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert counted["counts"]["what could not be read"]["all: 2 runs"] == "0"
    assert run_audit(path, "--redact", "to") == 2
    assert "of 2 runs there is only the table" in capsys.readouterr().err
    path.write_text(json.dumps(RUN))
    assert run_audit(path, "--guarded", "pay") == 0
    shown = capsys.readouterr().out
    assert "\N{THOUGHT BALLOON} Ann first." in shown
    assert "| 3 of 4: 75.0%" in shown
    assert run_audit(path, "--json") == 0
    assert json.loads(capsys.readouterr().out)  # and nothing else is printed


@pytest.mark.parametrize(("places", "more"), [(10, []), (30, ["not read: 20 more"])])
def test_what_was_not_read_changes_the_exit_code(tmp_path, capsys, places, more):
    path = tmp_path / "runs.json"
    path.write_text(json.dumps([USER, chat_call()] * places))
    assert run_audit(path) == 3
    out, err = capsys.readouterr()
    assert "| what could not be read" in out
    assert "not read: run 1, row 2: a call without a result: pay" in err
    assert [line for line in err.splitlines() if line.endswith("more")] == more


def test_a_pattern_that_fits_no_tool_is_an_error(tmp_path, capsys):
    (tmp_path / "runs.json").write_text(json.dumps([KEPT, KEPT]))
    assert run_audit(tmp_path / "runs.json", "--guarded", "pya") == 2
    assert "--guarded: no call in the log fits; its tools: pay" in capsys.readouterr().err
