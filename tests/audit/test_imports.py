"""Runs of other programs: the counts are those made by hand, and nothing is dropped in silence."""

import gzip
import json
import typing

import anthropic.types as anthropic
import atif
import ollama
import pytest
from hypothesis import given, settings
from openai.types import chat, responses
from openai.types.responses.response_input_param import FunctionCallOutput

from tests.audit.test_audit import run_audit
from tests.support.conversations import conversations
from tests.support.counting import grows_evenly
from tests.support.recordings import cases, load, needs_wire
from tests.support.traces import PATH, needs_traces, recorded
from tests.support.wires import to_anthropic, to_chat, to_ollama, to_responses
from think_agent import Assistant, Request, ToolCall, ToolResult, User
from think_agent.audit import read_log
from think_agent.audit.counts import count, table
from think_agent.audit.formats import METADATA
from think_agent.errors import FileError
from think_agent.evaluation.tables import markdown

WRITES = ["book_*", "cancel_*", "update_*", "send_certificate"]
FAILED = "actions that failed: the log says so, or the result begins with 'error'"
TO_WIRE = {
    "openai": to_chat,
    "anthropic": to_anthropic,
    "ollama": to_ollama,
    "responses": to_responses,
}


@pytest.fixture
def log(tmp_path):
    """Writes these rows or runs to a file and reads it."""

    def reading(value, *, lines=False, **options):
        path = tmp_path / "log.json"
        text = "\n".join(map(json.dumps, value)) if lines else json.dumps(value)
        path.write_text(text)
        return read_log(path, **options)

    return reading


def written(messages, form):
    """The messages in the format of another program."""
    body = TO_WIRE[form](Request(messages, system="Be kind."))
    return json.loads(json.dumps(body.get("messages") or body["input"]))


def calls_in(run):
    return [call.name for m in run.messages if isinstance(m, Assistant) for call in m.tool_calls]


def results_in(run):
    return [m.content for m in run.messages if isinstance(m, ToolResult)]


# What is counted.


@needs_traces
@pytest.mark.parametrize("key", ["messages", "traj"])
def test_the_200_runs_of_tau_bench_as_they_were_counted_by_hand(log, key):
    """`traj` is the key in the file that tau-bench published."""
    runs = [{**run, "messages": None, key: run["messages"]} for run in recorded()]
    runs = [{name: value for name, value in run.items() if value is not None} for run in runs]
    tau = log(runs)
    found = count(tau.runs, WRITES)
    assert list(found.values())[:2] == [(15, 250), (40, 250)]
    assert found["runs with a thought in them"] == (61, 200)
    assert tau.unread == []
    rows = [row for run in recorded() for row in run["messages"]]
    calls = [call["function"]["name"] for row in rows for call in row.get("tool_calls") or ()]
    assert [name for run in tau.runs for name in calls_in(run)] == calls
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


@pytest.mark.parametrize("form", TO_WIRE)
def test_what_is_counted_in_a_run(log, form):
    found = log(written(SAID, form))
    assert found.unread == []
    if form == "responses":
        assert "instructions" not in found.runs[0].header  # they stand beside the items
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


@pytest.mark.parametrize("form", TO_WIRE)
@given(messages=conversations())
@settings(deadline=None)
def test_reading_undoes_writing(tmp_path_factory, form, messages):
    path = tmp_path_factory.mktemp("log") / "log.json"
    path.write_text(json.dumps(written(messages, form)))
    found = read_log(path)
    assert found.unread == []
    assert found.runs[0].messages == messages


CHATS = {"openai": "openai-chat", "anthropic": "anthropic", "ollama": "ollama"}
REQUESTS = [
    (form, case)
    for form, wire in CHATS.items()
    for case in cases(wire)
    if ((load(wire, case)["request"] or {}).get("body") or {}).get("messages")
]


@needs_wire
@pytest.mark.parametrize(("form", "case"), REQUESTS)
def test_recorded_requests_are_read_whole_or_the_rest_is_listed(log, form, case):
    wire = "openai-chat" if form == "openai" else form
    rows = load(wire, case)["request"]["body"]["messages"]
    found = log(rows)
    [run] = found.runs
    unanswered = sum("without a result" in what for what in found.unread)
    assert len(calls_in(run)) - unanswered == len(results_in(run))
    text = json.dumps(rows)
    assert len(calls_in(run)) == text.count('"tool_use"') + text.count('"function": {')


@pytest.mark.parametrize("form", TO_WIRE)
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
        ([USER, {"type": []}], "row 2: a row of a broken form"),
        ([USER, {"role": "user", "content": [{"type": {}}]}], "row 2: a row of a broken form"),
    ],
)
def test_what_cannot_be_read_is_listed_with_its_row(log, rows, message):
    assert any(message in what for what in log(rows).unread)


def test_several_rows_of_one_reply_are_one_reply(log):
    rows = [USER, chat_call("a"), chat_call("b"), {**RESULT, "tool_call_id": "b", "content": "2"}]
    rows += [saying("and")]  # a result after one more text
    rows += [{**RESULT, "tool_call_id": "a", "content": "1"}]
    found = log(rows)
    assert found.unread == []
    replies = [m for m in found.runs[0].messages if isinstance(m, Assistant)]
    assert [len(reply.tool_calls) for reply in replies] == [2, 0]
    assert results_in(found.runs[0]) == ["1", "2"]  # in the order of the calls


def test_the_function_call_of_old_openai_logs_is_read(log):
    function = {"name": "pay", "arguments": '{"to": "Ann"}'}
    old = {**saying(None), "function_call": function}
    found = log([USER, old, {"role": "function", "name": "pay", "content": "paid"}])
    assert found.unread == []
    assert (calls_in(found.runs[0]), results_in(found.runs[0])) == (["pay"], ["paid"])


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


def test_further_choices_are_listed(log):
    response = {"choices": [{"message": REPLY}, {"index": 1, "message": REPLY}]}
    found = log([{"messages": [USER], "response": response}])
    assert "run 1, row 3: a row that is no message" in found.unread


def test_a_call_of_langchain_has_its_arguments(log):
    call = {"name": "pay", "args": {"to": "Ann"}, "id": "c", "type": "tool_call"}
    found = log([USER, {**saying(""), "tool_calls": [call]}, RESULT])
    assert found.unread == []
    assert found.runs[0].messages[1].tool_calls == (ToolCall("c", "pay", {"to": "Ann"}),)


def test_the_inputs_of_the_agents_sdk_are_read(log):
    items = [
        {"role": "user", "content": "Pay"},
        {"id": "rs", "type": "reasoning", "summary": []},
        {"id": "fc", "type": "function_call", "call_id": "c", "name": "pay", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "paid"},
        {
            "id": "msg",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Paid.", "annotations": []}],
        },
    ]
    for value in (items, {"input": items}, {"input": items[:1], "output": items[1:]}):
        found = log(value)
        assert found.unread == []
        reply = found.runs[0].messages[1]
        assert reply.tool_calls == (ToolCall("c", "pay", {}),)
        assert "does not show" in reply.thinking
        assert found.runs[0].messages[-1].text == "Paid."


def claude_code(kind, content, **fields):
    message = {"role": kind, "content": content, **({"id": "m1"} if kind == "assistant" else {})}
    return {"type": kind, "message": message, "uuid": "u", "sessionId": "s", **fields}


def test_claude_code_is_read(log):
    use = [{"type": "tool_use", "id": id, "name": "Bash", "input": {"n": id}} for id in "ab"]
    results = [{"type": "tool_result", "tool_use_id": id, "content": id} for id in "ab"]
    rows = [
        {"type": "summary", "summary": "a day"},
        claude_code("user", "Caveat", isMeta=True, timestamp="2026-11-20T10:00:00Z"),
        claude_code("user", "Do it", timestamp="2026-11-20T10:00:00Z"),
        claude_code("assistant", [{"type": "thinking", "thinking": "", "signature": "x"}]),
        claude_code("assistant", [use[0]]),
        claude_code("user", [results[0]]),
        claude_code("assistant", [use[1]]),  # still of the same reply
        claude_code("user", [{**results[1], "is_error": True}]),
        claude_code("user", "A helper", isSidechain=True, agentId="x"),
    ]
    found = log(rows, lines=True)
    assert found.unread == []
    main, helper = found.runs
    assert [type(m).__name__ for m in main.messages[2:]] == ["Assistant", *["ToolResult"] * 2]
    assert [m.kind for m in main.messages[:2]] == ["nudge", "person"]
    results = [message for message in main.messages if isinstance(message, ToolResult)]
    assert [result.is_error for result in results] == [False, True]
    assert helper.messages == [User("A helper")]
    assert helper.facts == {}


def test_what_was_typed_while_claude_code_worked_is_said(log):
    """It has no row of the user: it stands only in an attachment."""
    typed = {"type": "queued_command", "prompt": "Bob, too", "commandMode": "prompt"}
    told = {**typed, "prompt": [{"type": "text", "text": "done"}], "isMeta": True}
    task = {**typed, "prompt": "ended", "commandMode": "task-notification"}
    hook = {"type": "hook_success", "content": "x"}
    rows = [
        {"type": "attachment", "attachment": it, "uuid": "u"} for it in (typed, told, task, hook)
    ]
    found = log([claude_code("user", "Pay Ann"), *rows], lines=True)
    assert found.unread == []
    assert found.runs[0].messages == [
        User("Pay Ann"),
        User("Bob, too"),
        User("done", "nudge"),
        User("ended", "nudge"),
    ]


def test_of_two_names_of_a_field_the_one_with_a_value_is_read(log):
    row = {**saying(""), "reasoning_content": "", "reasoning": "hm"}
    found = log([USER, row])
    assert (found.runs[0].messages[1].thinking, found.unread) == ("hm", [])
    same = log([USER, {**row, "reasoning_content": "hm"}])
    assert (same.runs[0].messages, same.unread) == (found.runs[0].messages, [])
    other = log([USER, {**row, "reasoning_content": "well"}])
    assert other.unread == ["run 1, row 2: the field 'reasoning' of the assistant"]


def test_a_person_s_no_is_no_action_that_failed(log):
    use = {"type": "tool_use", "id": "c", "name": "Bash", "input": {}}
    no = "The user doesn't want to proceed with this tool use. The tool use was rejected (…)"
    result = {"type": "tool_result", "tool_use_id": "c", "content": no, "is_error": True}
    found = log([claude_code("assistant", [use]), claude_code("user", [result])], lines=True)
    assert found.unread == []
    assert found.runs[0].messages[-1].refused == "person"
    assert count(found.runs)[FAILED] == (0, 0)


def test_a_sub_agent_in_a_stream_is_a_run_of_its_own(log):
    rows = [
        {"type": "assistant", "message": saying("mine"), "parent_tool_use_id": None},
        {"type": "assistant", "message": saying("its"), "parent_tool_use_id": "toolu_1"},
        {"type": "assistant", "message": saying("mine, too"), "parent_tool_use_id": None},
    ]
    mine, its = log(rows, lines=True).runs
    assert [reply.text for reply in its.messages] == ["its"]
    assert len(mine.messages) == 1


# Each field of each format: it is read, listed, or metadata.


def row(row):
    return [USER, chat_call(), row]


def part(part):
    return row(saying([part]))


def call(call):
    return row({**saying(None), "tool_calls": [call]})


def step(step):
    first = {"step_id": 1, "source": "user", "message": "Pay"}
    return {"steps": [first, {"step_id": 2, "source": "agent", "message": "", **step}]}


def result(result):
    return row({**USER, "content": [result]})


def observed(result):
    called = [{"tool_call_id": "c", "function_name": "pay", "arguments": {}}]
    return step({"tool_calls": called, "observation": {"results": [result]}})


CHAT_CALL = chat_call()["tool_calls"][0]
SCHEMAS = [
    (chat.ChatCompletionSystemMessageParam, {"role": "system", "content": "x"}, row),
    (chat.ChatCompletionUserMessageParam, USER, row),
    (chat.ChatCompletionAssistantMessageParam, saying("x"), row),
    (chat.ChatCompletionMessage, saying("x"), row),
    (chat.ChatCompletionToolMessageParam, RESULT, row),
    (chat.ChatCompletionFunctionMessageParam, {**RESULT, "role": "function"}, row),
    (chat.ChatCompletionContentPartTextParam, {"type": "text", "text": "x"}, part),
    (chat.ChatCompletionMessageFunctionToolCallParam, CHAT_CALL, call),
    (anthropic.UserMessageParam, USER, row),
    (anthropic.AssistantMessageParam, saying("x"), row),
    (anthropic.Message, saying("x"), row),
    (anthropic.TextBlockParam, {"type": "text", "text": "x"}, part),
    (anthropic.ThinkingBlockParam, {"type": "thinking", "thinking": "x"}, part),
    (anthropic.RedactedThinkingBlockParam, {"type": "redacted_thinking", "data": "x"}, part),
    (anthropic.ToolUseBlockParam, {"type": "tool_use", "id": "c", "name": "p", "input": {}}, part),
    (anthropic.ToolResultBlockParam, {"type": "tool_result", "tool_use_id": "c"}, result),
    (responses.EasyInputMessageParam, {**USER, "type": "message"}, row),
    (responses.ResponseOutputMessageParam, {**saying("x"), "type": "message"}, row),
    (responses.ResponseOutputTextParam, {"type": "output_text", "text": "x"}, part),
    (responses.ResponseFunctionToolCallParam, {"type": "function_call", "name": "p"}, row),
    (FunctionCallOutput, {"type": "function_call_output", "call_id": "c"}, row),
    (responses.ResponseReasoningItemParam, {"type": "reasoning", "summary": []}, row),
    (ollama.Message, saying("x"), row),
    (ollama.Message.ToolCall, CHAT_CALL, call),
    (ollama.Message.ToolCall.Function, CHAT_CALL["function"], call),
    (atif.Step, {}, step),
    (atif.ToolCall, {"tool_call_id": "c"}, call),
    (atif.ObservationResult, {"content": "x"}, observed),
    (atif.ContentPart, {"type": "text", "text": "x"}, part),
]


@pytest.mark.parametrize(("schema", "example", "place"), SCHEMAS)
def test_every_field_is_read_or_listed_or_metadata(log, schema, example, place):
    def seen(example):
        found = log(place(example))
        return found.unread, [(run.messages, run.header) for run in found.runs]

    before = seen(example)
    fields = getattr(schema, "model_fields", None) or typing.get_type_hints(schema)
    for name in fields.keys() - {"role", "type", "source"}:
        is_used = seen({**example, name: "mark"}) != before
        assert is_used or name in METADATA.split(), name


# Other programs.


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"eval": {}, "samples": []}, "Inspect"),
        ({"simulations": [], "tasks": []}, "tau2-bench"),
        ({"messages": [], "reward_info": {}, "termination_reason": "user_stop"}, "tau2-bench"),
        ([{"type": "session_meta", "payload": {"id": "s"}}], "Codex"),
        ({"messages": [USER], "trajectory_format": "mini-swe-agent-1"}, "mini-swe-agent"),
        ({"trajectory": [], "history": []}, "SWE-agent"),
        ([{"role": "assistant", "action": "ls", "thought": "hm"}], "SWE-agent"),
        ({"run_type": "chain", "inputs": {}}, "LangSmith"),
        ({"resourceSpans": []}, "OpenTelemetry"),
    ],
)
def test_other_logs_are_known_by_name_and_refused_in_one_line(log, value, name):
    with pytest.raises(FileError, match=f"it is a log of {name}.*; convert it to ATIF"):
        log(value)


NO_RUN = "there is no run in it.*convert it to ATIF"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[1]", NO_RUN),
        ('{"messages": 5}', NO_RUN),
        ("5", NO_RUN),
        ("[[{}]]", NO_RUN),
        ('{"trace_id": 1}', NO_RUN),
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
    for form in (["--json"], ["--to", "atif"]):
        assert run_audit(path, *form) == 0
        assert json.loads(capsys.readouterr().out)  # and nothing else is printed
    assert run_audit(path, "--html", page, "--redact", "to") == 0
    assert "Ann first." not in page.read_text()
    assert "[redacted] first." in page.read_text()


@pytest.mark.parametrize(("places", "more"), [(10, []), (30, ["not read: 20 more"])])
def test_what_was_not_read_changes_the_exit_code(tmp_path, capsys, places, more):
    path = tmp_path / "runs.json"
    path.write_text(json.dumps([USER, chat_call()] * places))
    assert run_audit(path) == 3
    out, err = capsys.readouterr()
    assert "| what could not be read" in out
    assert "not read: run 1, row 2: a call without a result: pay" in err
    assert [line for line in err.splitlines() if line.endswith("more")] == more


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["--guarded", "pya"], "--guarded: no call in the log fits; its tools: pay"),
        (["--by", "rewrad"], "--by rewrad: the log has reward"),
    ],
)
def test_an_unknown_name_is_an_error(tmp_path, capsys, typed, message):
    (tmp_path / "runs.json").write_text(json.dumps([KEPT, KEPT]))
    assert run_audit(tmp_path / "runs.json", *typed) == 2
    assert message in capsys.readouterr().err
