"""Tags: each rule of the contract by values, every cut of every text, and the wrapper against its
inner model.
"""

import re
from dataclasses import replace
from itertools import groupby, pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support import strategies
from tests.support.counting import grows_evenly
from tests.support.pieces import InPieces, four_ways, told
from tests.support.recordings import events_of, needs_wire
from think_agent import (
    Agent,
    Assistant,
    Request,
    ScriptedModel,
    ToolCall,
    ToolResult,
    User,
    connect,
    tool,
)
from think_agent.dialects import Tags, tagged
from think_agent.dialects.tags import TagParser, instruction, split_tags

PLAIN_ANSWER = Tags(plain="answer")


def runs(deltas):
    """The joined events: neighbors of one kind as one."""
    grouped = groupby(deltas, key=lambda delta: delta.kind)
    return [(kind, "".join(delta.text for delta in group)) for kind, group in grouped]


def parse(pieces, tags):
    parser = TagParser(tags)
    deltas = [delta for piece in pieces for delta in parser.feed(piece)]
    return runs([*deltas, *parser.close()]), parser.unopened


# What is read, by the rules: text, then (thinking, answer) with plain="thinking" and "answer";
# ... is the same again.
READ = [
    # well-formed
    ("<thinking>a</thinking><answer>b</answer>", ("a", "b"), ...),
    ("<thinking>\na\n</thinking>\n\n<answer>\nb\n</answer>\n", ("a", "b"), ...),
    ("<think>\na\n</think>\n\nb c\n", ("a", "b c"), ...),
    ("<answer>b</answer>", ("", "b"), ...),
    # outside of all tags
    ("", ("", ""), ...),
    ("\n plain \n", ("plain", ""), ("", "plain")),
    ("x <answer>b</answer> y", ("x\n\ny", "b"), ("", "x b y")),
    ("x <thinking>a</thinking> y", ("x a", "y"), ("a", "x\n\ny")),
    (" \n<think>a</think>b", ("a", "b"), ...),
    # never closed
    ("<thinking>a <answer>b", ("a <answer>b", ""), ...),
    ("<answer>b <thinking>a", ("a", "b"), ...),
    # never opened
    ("a\n</think>\n\nb", ("a", "b"), ...),
    ("a</thinking>b</thinking>c", ("a", "bc"), ...),
    ("a</answer>b", ("ab", ""), ("", "ab")),
    ("<answer>a</think>b</answer>", ("", "ab"), ("<answer>a", "b")),
    # nested
    ("<think>a<think>b</think>c</think>d", ("abc", "d"), ...),
    ("<think>write <answer>b</answer></think>d", ("write <answer>b</answer>", "d"), ...),
    ("<think>a</thinking>b</think>c", ("a</thinking>b", "c"), ...),
    ("<answer>b <thinking>a</thinking> c</answer>", ("a", "b\n\nc"), ...),
    ("<answer>a<answer>b</answer>c</answer>", ("c", "ab"), ("", "abc")),
    # several of a kind
    ("<think>a</think>b<think>c</think>d", ("a\n\nc", "b\n\nd"), ...),
    ("<think>a </think>b <think>c</think> d", ("a\n\nc", "b\n\nd"), ...),
    ("<answer>42</answer><answer>43</answer>", ("", "42\n\n43"), ("", "4243")),
    ("It is **<answer>42</answer>**.", ("It is **\n\n**.", "42"), ("", "It is **42**.")),
    # spelling
    ("<THINKING>a</Thinking><Answer>b</ANSWER>", ("a", "b"), ...),
    ("< thinking >a</ thinking >< answer>b< / answer >", ("a", "b"), ...),
    ("<  think>a", ("<  think>a", ""), ("", "<  think>a")),
    ('<think kind="x">a', ('<think kind="x">a', ""), ("", '<think kind="x">a')),
    ("<thinker>a</thinker>", ("<thinker>a</thinker>", ""), ("", "<thinker>a</thinker>")),
    ("<<think>>a", ("<>a", ""), (">a", "<")),
    ("1 < 2 <b>x</b> -> y", ("1 < 2 <b>x</b> -> y", ""), ("", "1 < 2 <b>x</b> -> y")),
    # half a tag at the end
    ("<answer>b</ans", ("", "b</ans"), ...),
    ("<think>a</think", ("a</think", ""), ...),
    # code
    ("<answer>`<think>` and `</answer>`!</answer>", ("", "`<think>` and `</answer>`!"), ...),
    ("<answer>```\n<think>a</think>\n```\nb</answer>", ("", "```\n<think>a</think>\n```\nb"), ...),
    ("<answer>call `f`</answer> x", ("x", "call `f`"), ("", "call `f` x")),
    ("<answer>it`s\n<think>a</think>b</answer>", ("a", "it`s\n\nb"), ...),
    ("<answer>``` ` ``` <think>a", ("a", "``` ` ```"), ...),
    ("<answer>```\ncut </answer>", ("", "```\ncut </answer>"), ...),
    ("<think>```\na</think>b", ("```\na", "b"), ...),
    ("say `<think>` a", ("say `` a", ""), ("", "say `<think>` a")),
    ("```\n<answer>b</answer>\n```", ("```\n\n```", "b"), ("", "```\n<answer>b</answer>\n```")),
]

BOTH = [Tags(), PLAIN_ANSWER]
SNIPPETS = [
    *("<thinking>", "</thinking>", "<think>", "</think>", "<answer>", "</answer>", "< / THINK >"),
    *("<", ">", "/", "`", "``", "```", " ", "\n", " \n ", "<think", "think>", "</", "<b>", "< "),
    *("word", "ß", "<anſwer>", "<thinK>", "\u2028", "a b\n"),
]
marked_texts = st.lists(st.sampled_from(SNIPPETS), max_size=12).map("".join)
any_texts = st.sampled_from([text for text, *_ in READ]) | marked_texts | st.text(max_size=9)
any_texts |= st.text(alphabet="</ answerthik>`\n", max_size=20)


@pytest.mark.parametrize(("text", "both", "both_plain"), READ)
def test_what_is_thinking_and_what_is_answer(text, both, both_plain):
    assert split_tags(text) == both
    assert split_tags(text, PLAIN_ANSWER) == (both if both_plain is ... else both_plain)


@given(any_texts, st.lists(st.integers(0, 99)), st.sampled_from(BOTH))
@example("````<think>`", [1, 2], PLAIN_ANSWER)
@example("``<b>```", [2], PLAIN_ANSWER)
def test_any_text_is_read_the_same_in_any_pieces(text, cuts, tags):
    at = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in pairwise(at)]
    assert parse(pieces, tags) == parse([text], tags)
    assert parse(text, tags) == parse([text], tags)


@given(st.text(), st.sampled_from(["answer", "thinking"]))
def test_a_text_without_tags_loses_nothing_but_the_whitespace_around_it(text, plain):
    events, unopened = parse(text, Tags(plain=plain))
    assert events == ([(plain, text.strip())] if text.strip() else [])
    assert not unopened


@given(any_texts, st.sampled_from(BOTH))
def test_nothing_in_thinking_tags_is_answer(noise, tags):
    secret = noise.replace("/", "")
    _, answer = split_tags(f"<thinking>{secret}SECRET</thinking>{noise}", tags)
    assert "SECRET" not in answer


@given(any_texts, any_texts, st.sampled_from(BOTH))
def test_only_whitespace_and_what_may_become_a_mark_is_held_back(text, more, tags):
    parser = TagParser(tags)
    list(parser.feed(text))
    held = "".join(delta.text for delta in parser.close()).strip()
    assert held == "" or text.rstrip().endswith(held)
    assert held in ("", "`", "``") or may_become_a_tag(held)


def may_become_a_tag(text):
    squeezed = text.replace(" ", "").casefold()
    tags = [f"<{slash}{name}>" for name in ("thinking", "think", "answer") for slash in ("", "/")]
    return any(tag.startswith(squeezed) for tag in tags)


@pytest.mark.parametrize("plain", ["answer", "thinking"])
@pytest.mark.parametrize(
    "unit",
    ["<", "< ", "<thinking", "<think>", "</think>", "<answer>", "`", "``` <", " ", "\n", ">"],
)
@pytest.mark.parametrize("size", [1, 10**9], ids=["by character", "whole"])
def test_reading_takes_linear_time(unit, size, plain):
    def work(n):
        text = (unit * n)[:n]
        parse(text if size == 1 else [text], Tags(plain=plain))

    assert grows_evenly(work, 500, 2000)


def test_tags_may_have_any_names():
    tags = Tags(thinking=["Überlegung", "r-1"], answer=["o.ut"])
    assert split_tags("<ÜBERLEGUNG>a</überlegung>< r-1>b</r-1 ><o.ut>c", tags) == ("a\n\nb", "c")
    assert split_tags("<think>a</think>", tags) == ("<think>a</think>", "")
    assert split_tags("<answer>a", Tags(plain="answer", answer=())) == ("", "<answer>a")


def test_a_parser_says_when_it_has_passed_on_thinking_as_answer():
    parser = TagParser(PLAIN_ANSWER)
    assert runs(parser.feed("Okay, ")) == [("answer", "Okay,")]
    list(parser.feed("so.\n</THINK>\n\n42"))
    assert parser.unopened == "think"
    assert runs(TagParser().feed("Okay.\n</think>\n42")) == [
        ("thinking", "Okay."),
        ("answer", "42"),
    ]


# The wrapper.

REQUEST = Request((User("hi"),))
CALL = ToolCall("1", "add", {"text": "<think>kept</think>"})
ANY_REPLY = Assistant(tool_calls=(CALL,), stop_reason="tool_use", native={"content": "<think>"})


@given(any_texts, strategies.replies, st.sampled_from(["", "native"]), st.sampled_from(BOTH))
@example("<think>a</think>b", ANY_REPLY, "native", PLAIN_ANSWER)
def test_all_four_ways_to_ask_agree(text, reply, native, tags):
    own = replace(reply, text=text, thinking=native)
    said, events = four_ways(tagged(InPieces(own, 3), tags), REQUEST)
    thinking, answer = split_tags(text, tags)
    both = "\n\n".join(part for part in (native, thinking) if part)
    provider, model = reply.provider or "scripted", reply.model or "script"
    assert said == replace(reply, text=answer, thinking=both, provider=provider, model=model)
    assert told(events, "call") == ""  # its calls are its own, and not told a second time
    if not parse([text], tags)[1]:
        assert told(events, "answer") == said.text
        assert told(events, "thinking") == native + thinking


def test_json_under_a_schema_is_answer():
    model = tagged(ScriptedModel([Assistant('{"n": 1}')] * 2))
    request = replace(REQUEST, output_schema={"type": "object"})
    assert model.complete(request).text == '{"n": 1}'
    assert told(list(model.stream(request))[:-1], "answer") == '{"n": 1}'


# What real servers leaked.


@needs_wire
@pytest.mark.parametrize(
    ("case", "answer"),
    [
        ("stream-text-then-tool", ""),
        ("stream-text-then-tool-followup", "The result of $ 2 - 5 $ is **-3**."),
    ],
)
def test_recorded_thinking_of_qwen3_is_thinking(case, answer):
    """Its template opened <think>, so only </think> is there."""
    messages = [event["message"] for event in events_of("ollama", case)]
    text = "".join(message.get("content", "") for message in messages)
    for plain in ("thinking", "answer"):
        thinking, found = split_tags(text, Tags(plain=plain))
        assert found == answer
        assert thinking.startswith("Okay, ")
        assert "think>" not in thinking


# The instruction to write the tags.


@tool(read_only=True)
def count() -> int:
    """Count the orders."""
    return 9


NAMED = Tags(thinking=["notes"], answer=["reply"])


def system_of(model, system="Be kind."):
    """The system prompt that the inner model reads."""
    return model.ask(replace(REQUEST, system=system))[1].system


@pytest.mark.parametrize(
    ("tags", "asked_for"),
    [
        (Tags(), ["<thinking>", "</thinking>", "<answer>", "</answer>"]),
        (PLAIN_ANSWER, ["<thinking>", "</thinking>", "<answer>", "</answer>"]),
        (NAMED, ["<notes>", "</notes>", "<reply>", "</reply>"]),
        (Tags(answer=()), ["<thinking>", "</thinking>"]),
        (Tags(thinking=(), answer=()), []),
    ],
)
def test_the_model_is_asked_to_write_these_tags(tags, asked_for):
    system = system_of(tagged(ScriptedModel([]), tags))
    assert system.startswith("Be kind.")
    assert re.findall("<.*?>", system) == asked_for


def test_the_instruction_is_there_once_and_at_the_end():
    once = system_of(tagged(ScriptedModel([])))
    assert system_of(tagged(ScriptedModel([])), once) == once
    assert system_of(tagged(tagged(ScriptedModel([])))) == once
    assert once == f"Be kind.\n\n{instruction(Tags())}"
    assert system_of(tagged(ScriptedModel([])), "") == instruction(Tags())


def test_the_instruction_asks_for_notes_and_never_for_reasoning():
    """Some models refuse to write out their reasoning."""
    assert not re.search("reason|step by step|internal|thought process", instruction(Tags()))


def test_a_model_that_marks_its_text_by_itself_is_not_asked():
    assert system_of(tagged(ScriptedModel([]), asks=False)) == "Be kind."
    on_ollama = connect("ollama:qwen3:0.6b", dialect="native").inner
    assert isinstance(on_ollama, tagged)
    assert system_of(on_ollama) == "Be kind."


FALLBACKS = {  # what the model writes: thinking, answer
    "before any tag": ("Hm. <answer>42</answer>", "Hm.", "42"),
    "thinking that is never closed": ("<thinking>Hm. 42", "Hm. 42", ""),
    "an answer that is never closed": ("<thinking>Hm.</thinking><answer>42", "Hm.", "42"),
    "no tags": ("Hm. 42", "Hm. 42", ""),
    "as it was asked": ("<thinking>\nHm.\n</thinking>\n<answer>\n42\n</answer>", "Hm.", "42"),
}


@pytest.mark.parametrize("case", FALLBACKS)
def test_what_a_model_makes_of_the_instruction_is_read_by_the_same_four_rows(case):
    text, thinking, answer = FALLBACKS[case]
    reply, deltas = four_ways(tagged(InPieces(Assistant(text), 3)), REQUEST)
    assert reply.thinking == thinking
    assert reply.text == answer
    assert told(deltas, "thinking") == thinking
    assert told(deltas, "answer") == answer


def test_an_agent_shows_the_same_instruction_in_every_request():
    heard = []

    def model(request):
        heard.append(request.system)
        if not isinstance(request.messages[-1], ToolResult):
            look = ToolCall("", "count", {})
            return Assistant("<thinking>Count.</thinking>", tool_calls=(look,))
        return Assistant("<thinking>Nine.</thinking><answer>There are 9.</answer>")

    agent = Agent(
        tagged(ScriptedModel(model)), [count], think=None, force="never", instructions="Be kind."
    )
    outcome = agent.run("How many?")
    assert outcome.answer == "There are 9."
    assert [reply.thinking for reply in outcome.turn.replies] == ["Count.", "Nine."]
    assert len(heard) == 2
    assert set(heard) == {f"Be kind.\n\n{instruction(Tags())}"}
