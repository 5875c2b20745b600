"""Lists of Chat Completions messages: the counts are those made by hand, and a file is read whole
or refused.
"""

import gzip
import json
from copy import deepcopy
from typing import NamedTuple

import pytest
from hypothesis import given, settings

from tests.audit.test_audit import run_audit
from tests.support.conversations import conversations
from tests.support.counting import grows_evenly
from tests.support.recordings import cases, load, needs_wire
from tests.support.traces import PATH, WRITES, needs_traces, recorded
from tests.support.wires import to_wire
from think_agent import Assistant, Request, ToolCall, ToolResult, User
from think_agent.audit import read_log
from think_agent.audit.counts import count, table
from think_agent.errors import FileError
from think_agent.evaluation.tables import markdown
from think_agent.messages import to_json

FAILED = "actions that failed: the result begins with 'error'"


@pytest.fixture
def log(tmp_path):
    """Writes a value to a file and reads it."""

    def reading(value, **options):
        path = tmp_path / "log.json"
        path.write_text(json.dumps(value))
        return read_log(path, **options)

    return reading


def written(messages):
    """The messages as rows of Chat Completions."""
    body = to_wire("openai-chat", Request(messages, system="Be kind."))
    return json.loads(json.dumps(body["messages"]))


# What is counted.


@needs_traces
def test_the_200_runs_of_tau_bench_as_they_were_counted_by_hand(log):
    text = markdown([table(log(recorded()), WRITES, by="reward")])
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
    assert writes == 148  # the README says so
    assert behind == 4
    assert near == 12
    assert thinking == 28
    found = count(log(logs), RETAIL_WRITES)
    assert found["writes after a thought of their own turn"] == (behind, writes)
    assert found["writes with a thought since the last action, in any turn"] == (near, writes)
    assert found["runs with a thought in them"] == (thinking, 100)
    assert found[FAILED] == (34, 753)


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
RUN = written(SAID)


def test_what_is_counted_in_a_run(log):
    assert count(log(RUN), ["pay"]) == {
        "writes after a thought of their own turn": (3, 4),
        "writes with a thought since the last action, in any turn": (3, 4),
        "writes with native reasoning in their reply": (0, 4),
        "writes with text in their reply": (0, 4),
        "runs with a thought in them": (1, 1),
        "actions after a thought that said 'done'": (1, 4),
        "turns that ended without a call after a thought that said 'more to do'": (1, 2),
        "actions repeated, with the same result": (1, 4),
        FAILED: (1, 4),
    }


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_and_words_before_a_call_are_counted_apart(log, field):
    row = {**CALL, "content": "I pay.", field: "hm"}
    counted = count(log([USER, row, RESULT]), ["pay"])
    assert counted["writes after a thought of their own turn"] == (0, 1)
    assert counted["writes with native reasoning in their reply"] == (1, 1)
    assert counted["writes with text in their reply"] == (1, 1)


def test_a_thought_may_go_by_another_name(log):
    rows = written([User("Go"), *acted("plan", "ok", steps="first"), *acted("pay", "ok")])
    assert count(log(rows), ["pay"])["runs with a thought in them"] == (0, 1)
    found = count(log(rows, thinks=["plan"]), ["pay"])
    assert found["writes after a thought of their own turn"] == (1, 1)


# What is read.


USER = {"role": "user", "content": "Pay"}
FUNCTION = {"name": "pay", "arguments": "{}"}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "type": "function", "function": FUNCTION}],
}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "ok"}
DONE = {"role": "assistant", "content": "Paid."}
WHOLE = [USER, CALL, RESULT, DONE]


def calling(*ids):
    calls = [{"id": id, "type": "function", "function": FUNCTION} for id in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


@given(messages=conversations())
@settings(deadline=None)
def test_reading_undoes_writing(tmp_path_factory, messages):
    path = tmp_path_factory.mktemp("log") / "log.json"
    pays = written(acted("pay", "ok", to="Ann"))[1:]  # without a call of a tool it is refused
    path.write_text(json.dumps([written(messages), pays]))
    assert read_log(path)[0].messages == messages


class Read(NamedTuple):
    """Rows that say the same as the others of their name."""

    what: str
    rows: list
    messages: list


PAY = ToolCall("c", "pay", {})
ASKS = Assistant(tool_calls=(PAY,), stop_reason="tool_use")
BOTH = Assistant(tool_calls=(ToolCall("a", "pay"), ToolCall("b", "pay")), stop_reason="tool_use")
TEXT = [{"type": "text", "text": "P"}, {"type": "text", "text": "ay"}]
NOTHING = {"refusal": None, "annotations": [], "audio": None, "function_call": None}
READ = [
    Read("plain", WHOLE, [User("Pay"), ASKS, ToolResult("c", "pay", "ok"), Assistant("Paid.")]),
    Read("text in parts", [{**USER, "content": TEXT}, CALL, RESULT], [User("Pay"), ASKS]),
    Read("fields without a value", [USER, {**CALL, **NOTHING}, RESULT], [User("Pay"), ASKS]),
    Read("an index from a stream", [USER, CALL, {**RESULT, "name": "pay"}], [User("Pay"), ASKS]),
    Read("a refusal", [*WHOLE[:3], {**DONE, "content": None, "refusal": "Paid."}], [User("Pay")]),
    Read(
        "results in another order than their calls",
        [
            USER,
            calling("a", "b"),
            {**RESULT, "tool_call_id": "b", "content": "2"},
            {**RESULT, "tool_call_id": "a", "content": "1"},
        ],
        [User("Pay"), BOTH, ToolResult("a", "pay", "1"), ToolResult("b", "pay", "2")],
    ),
    Read(
        "two calls with one id",
        [USER, calling("a", "a"), {**RESULT, "tool_call_id": "a"}, {**RESULT, "tool_call_id": "a"}],
        [User("Pay")],
    ),
]


@pytest.mark.parametrize("case", READ, ids=lambda case: case.what)
def test_these_rows_are_read_whole(log, case):
    [run] = log(case.rows)
    assert run.messages[: len(case.messages)] == case.messages


def test_instructions_are_in_the_header_as_in_our_own_transcripts(log):
    rows = [{"role": "system", "content": "Be kind."}, {"role": "developer", "content": "Pay."}]
    [run] = log([*rows, *WHOLE])
    assert run.header == {"instructions": "Be kind.\n\nPay."}


@pytest.mark.parametrize(
    ("value", "facts"),
    [
        (RUN, [{}]),
        ([RUN, RUN], [{}, {}]),
        ([{"messages": RUN, "reward": 0.5}], [{"reward": 0.5}]),
        ([{"traj": RUN, "task_id": 1}, {"traj": []}], [{"task_id": 1}, {}]),
    ],
    ids=["one conversation", "several", "with facts", "as in tau-bench's files"],
)
def test_the_forms_of_a_file(log, value, facts):
    runs = log(value)
    assert [run.facts for run in runs] == facts
    assert runs[0].messages == log(RUN)[0].messages


# What is refused.


class Refused(NamedTuple):
    what: str
    value: object
    says: str


def said(**fields):
    return {"role": "assistant", **fields}


REFUSED = [
    Refused("a call without a result", [USER, CALL], "row 2: the call before it has no result"),
    Refused("a call that is answered too late", [USER, CALL, DONE, RESULT], "row 3: the call"),
    Refused("a result without a call", [USER, RESULT], "row 2: a result without a call: 'c'"),
    Refused("a result twice", [USER, CALL, RESULT, RESULT], "row 4: a result without a call"),
    Refused("an unknown role", [USER, {"role": "critic"}], "row 2: the role 'critic' is unknown"),
    Refused("OpenAI's first protocol", [{"role": "function"}], "the role 'function' is unknown"),
    Refused("no message", [USER, "words"], "row 2: it isn't a message"),
    Refused("an image", [{**USER, "content": [{"type": "image_url"}]}], "content.0.type"),
    Refused("an unknown field", [{**USER, "to": "Ann"}], "row 1: the field 'to' is unknown"),
    Refused("one in a call", [said(tool_calls=[{"to": 1}])], "tool_calls.0.id: Field required"),
    Refused("a call without an id", [said(tool_calls=[{"function": FUNCTION}])], "0.id"),
    Refused("a user's calls", [{**USER, "tool_calls": [1]}], "the field 'tool_calls' is unknown"),
    Refused("no text as content", [{**USER, "content": 5}], "content: Input should be a valid"),
    Refused("two reasonings", [said(reasoning="a", reasoning_content="b")], "differ"),
    Refused("a call in XML", [said(content='<tool_call>{"name": "pay", "arguments": {}}')], "pay"),
    Refused("a call in ReAct", [said(content="Action: pay\nAction Input: {}")], "pay is written"),
    Refused("no call at all", [USER, DONE], "no tool is called in it"),
    Refused("a conversation with more", [{"messages": WHOLE, "model": "m"}], "field 'model'"),
    Refused("one without messages", [{"reward": 1.0}], "run 1: it has no list of messages"),
    Refused("a list of other things", [[[1]]], "run 1, row 1: it isn't a message"),
    Refused("an object", {"messages": WHOLE}, "neither a list of messages"),
    Refused("nothing", [], "neither a list of messages"),
    Refused(
        "a log of requests",  # four calls were counted as ten
        [RUN[: end + 1] for end, row in enumerate(RUN) if row["role"] == "tool"],
        "run 1 is the beginning of run 2: is this a log of requests?",
    ),
    Refused("the same with what came back", [{"messages": RUN, "response": DONE}], "'response'"),
    Refused(
        "mini-swe-agent, whose commands are text",
        [USER, said(content="Thought.\n```bash\nls\n```"), {**USER, "content": "<output>"}],
        "no tool is called in it",
    ),
    Refused(
        "its whole file", {"info": {}, "trajectory_format": "mini-swe-agent-1.1"}, "neither a list"
    ),
    Refused(
        "Messages of Anthropic",
        [said(content=[{"type": "tool_use", "id": "c", "name": "pay", "input": {}}])],
        "content.0.type",
    ),
    Refused("Ollama", [said(tool_calls=[{"function": {"name": "p", "arguments": {}}}])], "0.id"),
    Refused("Responses", [{"type": "function_call", "name": "pay"}], "run 1: it has no list"),
    Refused("ATIF", {"schema_version": "ATIF-v1.6", "steps": []}, "neither a list of messages"),
    Refused("Claude Code", [{"type": "user", "message": USER}], "it has no list of messages"),
    Refused("Inspect", {"eval": {}, "samples": []}, "neither a list of messages"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.what)
def test_a_file_that_cannot_be_read_whole_is_refused_in_one_line(log, case):
    with pytest.raises(FileError) as refused:
        log(case.value)
    message = str(refused.value)
    assert "log.json: it cannot be read: " in message
    assert case.says in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "text", ["{torn", "PK\3\4", "\n".join(map(json.dumps, RUN))], ids=["torn", "zip", "JSON lines"]
)
def test_a_file_that_is_not_one_json_value_is_refused(tmp_path, text):
    (tmp_path / "runs.json").write_text(text)
    with pytest.raises(FileError, match="neither a transcript of this kit nor one JSON value"):
        read_log(tmp_path / "runs.json")


def test_a_missing_row_is_noticed(log):
    """The row is a call, a result or a thought."""
    before = count(log(RUN), ["pay"])
    for place, row in enumerate(RUN):
        if "tool" not in json.dumps(row):
            continue
        rest = RUN[:place] + RUN[place + 1 :]
        with pytest.raises(FileError):
            assert count(log(rest), ["pay"]) == before


# No field of a row is lost: each one that has a mark is in what was read, or the file is refused.


MARK = "MARK-17"
ROWS = {
    "system": {"role": "system", "content": TEXT},
    "user": {**USER, "name": "Ann"},
    "reply": {**CALL, "content": TEXT, "refusal": "no", "reasoning": "hm"},
    "call": {**CALL, "reasoning_content": "hm"},
    "result": {**RESULT, "content": TEXT},
}
# What a row is recognized by, or what our messages have no place for.
NOT_KEPT = {"name", "index"}


def marked(value, path=()):
    """All variants of a value in which one text has a mark or one object has a further field."""
    match value:
        case str():
            yield path, MARK
            yield (*path, "unknown"), {"unknown": MARK}
        case dict():
            yield (*path, "unknown"), {**value, "unknown": MARK}
            for name in value:
                for place, variant in marked(value[name], (*path, name)):
                    yield place, {**value, name: variant}
        case list():
            for number, item in enumerate(value):
                for place, variant in marked(item, (*path, number)):
                    yield place, [*value[:number], variant, *value[number + 1 :]]


def lost(rows, read):
    """The marked fields of these rows that are neither read nor a reason to refuse the file."""
    found = []
    for number, row in enumerate(rows):
        for path, variant in marked(deepcopy(row)):
            if path[-1] in NOT_KEPT and path[0] != "tool_calls":
                continue
            try:
                [run, _] = read([[*rows[:number], variant, *rows[number + 1 :]], WHOLE])
            except FileError:
                continue
            if MARK not in json.dumps([run.header, *map(to_json, run.messages)]):
                found.append((number, path))
    return found


@pytest.mark.parametrize("name", ROWS)
def test_no_field_of_a_row_is_lost(log, name):
    row = ROWS[name]
    rows = [USER, row]
    if row["role"] == "assistant":
        rows.append(RESULT)
    if row["role"] == "tool":
        rows = [USER, CALL, row]
    assert lost(rows, log) == []


@needs_wire
def test_no_field_of_a_recorded_request_is_lost(log):
    """Most are refused: they end in a result that the model has not answered, or have images."""
    tried = 0
    for case in cases("openai-chat"):
        rows = ((load("openai-chat", case)["request"] or {}).get("body") or {}).get("messages")
        if rows:
            tried += 1
            assert lost(rows[-8:], log) == []
    assert tried > 5


def test_many_runs_cost_no_more_than_their_number(tmp_path):
    def count(number: int) -> None:
        path = tmp_path / "runs.json"
        path.write_text(json.dumps([{"traj": RUN, "reward": 0.5}] * number))
        table(read_log(path), ["pay"], by="reward")

    assert grows_evenly(count, 10, 80)


# The command.


def test_the_command_counts_runs_and_shows_one_alone(tmp_path, capsys):
    path, page = tmp_path / "runs.json", tmp_path / "run.html"
    path.write_text(json.dumps([{"traj": RUN, "reward": 0.5}] * 2))
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
    assert counted["counts"]["runs with a thought in them"]["all: 2 runs"].startswith("2 of 2")
    assert run_audit(path, "--redact", "to") == 2
    assert "of 2 runs there is only the table" in capsys.readouterr().err
    path.write_text(json.dumps(RUN))
    assert run_audit(path, "--guarded", "pay") == 0
    shown = capsys.readouterr().out
    assert "\N{THOUGHT BALLOON} Ann first." in shown
    assert "| 3 of 4: 75.0%" in shown
    assert run_audit(path, "--json") == 0
    assert json.loads(capsys.readouterr().out)  # and nothing else is printed


def test_a_log_that_cannot_be_read_whole_is_one_line_and_exit_1(tmp_path, capsys):
    path = tmp_path / "runs.json"
    path.write_text(json.dumps([USER, CALL]))
    assert run_audit(path) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "run 1, row 2: the call before it has no result: pay" in err


def test_a_pattern_that_fits_no_tool_is_an_error(tmp_path, capsys):
    (tmp_path / "runs.json").write_text(json.dumps([RUN, RUN]))
    assert run_audit(tmp_path / "runs.json", "--guarded", "pya") == 2
    assert "--guarded: no call in the log fits; its tools: pay" in capsys.readouterr().err
