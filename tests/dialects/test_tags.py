"""Tags: each rule of the contract by values, every cut of every text, and the wrapper against its
inner model.
"""

import json
from dataclasses import replace
from itertools import groupby, pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support import strategies
from tests.support.counting import grows_evenly
from tests.support.pieces import four_ways
from tests.support.recordings import cases, load, needs_wire
from think_agent import Agent, Assistant, Delta, Request, ScriptedModel, ToolCall, User
from think_agent.dialects.tags import TagParser, Tags, split_tags, tagged
from think_agent.model import Model

PLAIN_ANSWER = Tags(plain="answer")
LONGEST = len("< / thinking >")


def runs(deltas):
    """The joined events: neighbors of one kind as one."""
    grouped = groupby(deltas, key=lambda delta: delta.kind)
    return [(kind, "".join(delta.text for delta in group)) for kind, group in grouped]


def parse(pieces, tags):
    parser = TagParser(tags)
    deltas = [delta for piece in pieces for delta in parser.feed(piece)]
    return runs(deltas + parser.close()), parser.unopened


def joined(events, kind):
    return "".join(e.text for e in events if isinstance(e, Delta) and e.kind == kind)


# What is read, by the rules: text, then (thinking, answer) with plain="thinking" and "answer".
READ = [
    # well-formed
    ("<thinking>a</thinking><answer>b</answer>", ("a", "b"), ("a", "b")),
    ("<thinking>\na\n</thinking>\n\n<answer>\nb\n</answer>\n", ("a", "b"), ("a", "b")),
    ("<think>\na\n</think>\n\nb c\n", ("a", "b c"), ("a", "b c")),
    ("<think>\n\n</think>\n\nb", ("", "b"), ("", "b")),
    ("<answer>b</answer>", ("", "b"), ("", "b")),
    # outside of all tags
    ("", ("", ""), ("", "")),
    ("plain", ("plain", ""), ("", "plain")),
    ("\n plain \n", ("\n plain \n", ""), ("", "\n plain \n")),
    (" \n", (" \n", ""), ("", " \n")),
    ("x <answer>b</answer> y", ("x  y", "b"), ("", "x b y")),
    ("x <thinking>a</thinking> y", ("x a", "y"), ("a", "x  y")),
    (" \n<think>a</think>b", ("a", "b"), ("a", "b")),
    # never closed
    ("<thinking>a <answer>b", ("a <answer>b", ""), ("a <answer>b", "")),
    ("<answer>b <thinking>a", ("a", "b"), ("a", "b")),
    ("<answer>b\n", ("", "b"), ("", "b")),
    # never opened
    ("a\n</think>\n\nb", ("a", "b"), ("a", "b")),
    ("a</thinking>b</thinking>c", ("a", "bc"), ("a", "bc")),
    ("</think>b", ("", "b"), ("", "b")),
    ("a</answer>b", ("ab", ""), ("", "ab")),
    ("<answer>a</think>b</answer>", ("", "ab"), ("", "ab")),
    # nested
    ("<think>a<think>b</think>c</think>d", ("abc", "d"), ("abc", "d")),
    ("<think>write <thinking> and <answer>b</answer></think>d",)
    + 2 * (("write <thinking> and <answer>b</answer>", "d"),),
    ("<think>a</thinking>b</think>c", ("a</thinking>b", "c"), ("a</thinking>b", "c")),
    ("<answer>b <thinking>a</thinking> c</answer>", ("a", "b  c"), ("a", "b  c")),
    ("<answer>a<answer>b</answer>c</answer>", ("c", "ab"), ("", "abc")),
    # several of a kind
    ("<think>a</think>b<think>c</think>d", ("a\nc", "b\nd"), ("a\nc", "b\nd")),
    ("<think>a </think>b <think>c</think> d", ("a c", "b  d"), ("a c", "b  d")),
    ("<answer>42</answer><answer>43</answer>", ("", "42\n43"), ("", "4243")),
    ("It is **<answer>42</answer>**.", ("It is **\n**.", "42"), ("", "It is **42**.")),
    # spelling
    ("<THINKING>a</Thinking><Answer>b</ANSWER>", ("a", "b"), ("a", "b")),
    ("< thinking >a</ thinking >< answer>b< / answer >", ("a", "b"), ("a", "b")),
    ("<  think>a", ("<  think>a", ""), ("", "<  think>a")),
    ("<\nthink>a", ("<\nthink>a", ""), ("", "<\nthink>a")),
    ('<think kind="x">a', ('<think kind="x">a', ""), ("", '<think kind="x">a')),
    ("<think/>a", ("<think/>a", ""), ("", "<think/>a")),
    ("<thinker>a</thinker>", ("<thinker>a</thinker>", ""), ("", "<thinker>a</thinker>")),
    ("<<think>>a", ("<>a", ""), (">a", "<")),
    ("1 < 2 <b>x</b> -> y", ("1 < 2 <b>x</b> -> y", ""), ("", "1 < 2 <b>x</b> -> y")),
    # half a tag at the end
    ("<answer>b</ans", ("", "b</ans"), ("", "b</ans")),
    ("<think>a</think", ("a</think", ""), ("a</think", "")),
    ("a <", ("a <", ""), ("", "a <")),
    # code
    ("<answer>`<think>` and `</answer>`!</answer>", ("", "`<think>` and `</answer>`!"), ...),
    ("<answer>```\n<think>a</think>\n```\nb</answer>", ("", "```\n<think>a</think>\n```\nb"), ...),
    ("<answer>call `f`</answer> x", ("x", "call `f`"), ("", "call `f` x")),
    ("<answer>it`s\n<think>a</think>b</answer>", ("a", "it`s\nb"), ...),
    ("<answer>``` ` ``` <think>a", ("a", "``` ` ```"), ...),
    ("<answer>```\ncut </answer>", ("", "```\ncut </answer>"), ...),
    ("<think>```\na</think>b", ("```\na", "b"), ...),
    ("say `<think>` a", ("say `` a", ""), ("", "say `<think>` a")),
    ("```\n<answer>b</answer>\n```", ("```\n\n```", "b"), ("", "```\n<answer>b</answer>\n```")),
]
READ = [(text, told, told if plain is ... else plain) for text, told, plain in READ]

BOTH = [Tags(), PLAIN_ANSWER]
SNIPPETS = [
    *("<thinking>", "</thinking>", "<think>", "</think>", "<answer>", "</answer>", "< / THINK >"),
    *("<", ">", "/", "`", "``", "```", " ", "\n", " \n ", "<think", "think>", "</", "<b>", "< "),
    *("word", "ß", "<anſwer>", "<thinK>", "\u2028", "a b\n"),
]
marked_texts = st.lists(st.sampled_from(SNIPPETS), max_size=12).map("".join)
any_texts = marked_texts | st.text(alphabet="</ answerthik>`\n", max_size=20) | st.text(max_size=9)


@pytest.mark.parametrize(("text", "told", "told_plain"), READ)
def test_what_is_thinking_and_what_is_answer(text, told, told_plain):
    assert split_tags(text) == told
    assert split_tags(text, PLAIN_ANSWER) == told_plain


@pytest.mark.parametrize("tags", BOTH)
@pytest.mark.parametrize("text", [case[0] for case in READ])
def test_a_text_reads_the_same_wherever_it_is_cut(text, tags):
    whole = parse([text], tags)
    assert parse(text, tags) == whole  # character by character
    for cut in range(len(text) + 1):
        assert parse([text[:cut], text[cut:]], tags) == whole


@given(any_texts, st.lists(st.integers(0, 99)), st.sampled_from(BOTH))
@example("````<think>`", [1, 2], PLAIN_ANSWER)
@example("``<b>```", [2], PLAIN_ANSWER)
def test_any_text_reads_the_same_in_any_pieces(text, cuts, tags):
    at = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in pairwise(at)]
    assert parse(pieces, tags) == parse([text], tags)
    assert parse(text, tags) == parse([text], tags)


blocks = st.tuples(
    st.sampled_from(["thinking", "think", "answer"]),
    st.text(alphabet="abc &.é\n", min_size=1, max_size=8).filter(str.strip),
    st.sampled_from(["", " ", "\n\n"]),
)


@given(st.lists(blocks, max_size=5), st.sampled_from(BOTH))
def test_marked_blocks_come_back_by_their_kind(blocks, tags):
    text = "".join(f"<{name}>{body}</{name}>{space}" for name, body, space in blocks)
    thinking, answer = split_tags(text, tags)
    assert thinking.split() == " ".join(b for name, b, _ in blocks if name != "answer").split()
    told = " ".join(b for name, b, _ in blocks if name == "answer")
    assert answer.split() == told.split() or tags.plain == "answer"  # see test_touching
    assert "".join(answer.split()) == "".join(told.split())
    assert (thinking, answer) == (thinking.strip(), answer.strip())


@given(st.text(), st.sampled_from(["answer", "thinking"]))
def test_a_text_without_tags_is_told_to_the_letter(text, plain):
    events, unopened = parse(text, Tags(plain=plain))
    assert events == ([(plain, text)] if text else [])
    assert not unopened


@given(any_texts, st.sampled_from(BOTH))
def test_nothing_in_thinking_tags_is_answer(noise, tags):
    secret = noise.replace("/", "")
    _, answer = split_tags(f"<thinking>{secret}SECRET</thinking>{noise}", tags)
    assert "SECRET" not in answer


@given(any_texts, any_texts, st.sampled_from(BOTH))
def test_only_whitespace_and_what_may_become_a_mark_is_held_back(text, more, tags):
    parser = TagParser(tags)
    parser.feed(text)
    held = "".join(delta.text for delta in parser.close()).strip()
    assert len(held) < LONGEST
    assert held == "" or text.rstrip().endswith(held)
    assert held in ("", "`", "``") or may_become_a_tag(held)


def may_become_a_tag(text):
    squeezed = text.replace(" ", "").casefold()
    tags = [f"<{slash}{name}>" for name in ("thinking", "think", "answer") for slash in ("", "/")]
    return any(tag.startswith(squeezed) for tag in tags)


CERTAIN = {
    "a": "a", "a b": "a b", "a <": "a", "a <t": "a", "a < ": "a", "a < b": "a < b",
    "a <table": "a <table", "a <thinking": "a", "a <thinking about it": "a <thinking about it",
    "a <thinking>b": "a b", "1 <2 and <": "1 <2 and", "see `": "see", "see `x": "see `x",
    "end \n\n": "end",
}  # fmt: skip


@pytest.mark.parametrize(("piece", "told"), CERTAIN.items())
def test_text_is_told_as_soon_as_it_is_certain(piece, told):
    assert "".join(delta.text for delta in TagParser().feed(piece)) == told


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


def test_names_are_free():
    tags = Tags(thinking=["Überlegung", "r-1"], answer=["o.ut"])
    assert split_tags("<ÜBERLEGUNG>a</überlegung>< r-1>b</r-1 ><o.ut>c", tags) == ("a\nb", "c")
    assert split_tags("<think>a</think>", tags) == ("<think>a</think>", "")
    assert split_tags("<answer>a", Tags(plain="answer", answer=())) == ("", "<answer>a")


def test_a_parser_says_when_it_has_told_thinking_as_answer():
    parser = TagParser(PLAIN_ANSWER)
    assert runs(parser.feed("Okay, ")) == [("answer", "Okay,")]
    parser.feed("so.\n</THINK>\n\n42")
    assert parser.unopened == "think"
    assert runs(TagParser().feed("Okay.\n</think>\n42")) == [
        ("thinking", "Okay."),
        ("answer", "42"),
    ]


# The wrapper.

REQUEST = Request((User("hi"),))


class Pieces(Model):
    """Plays one reply, its text in the given pieces and its native thinking first."""

    def __init__(self, reply, pieces):
        self.reply, self.pieces = reply, pieces

    def complete(self, request):
        return self.reply

    def stream(self, request):
        if self.reply.thinking:
            yield Delta("thinking", self.reply.thinking)
        yield from (Delta("answer", piece) for piece in self.pieces)
        yield Delta("call", '{"n": 1}', "add", 0)
        yield self.reply

    async def astream(self, request):
        for event in self.stream(request):
            yield event


@given(
    st.lists(any_texts, max_size=4),
    strategies.replies,
    st.sampled_from(["", "native"]),
    st.sampled_from(["thinking", "answer"]),
)
def test_all_four_ways_to_ask_agree(pieces, reply, native, plain):
    text = "".join(pieces)
    model = tagged(Pieces(replace(reply, text=text, thinking=native), pieces), Tags(plain=plain))
    said, events = four_ways(model, REQUEST)
    assert [e for e in events if e.kind == "call"] == [Delta("call", '{"n": 1}', "add", 0)]
    thinking, answer = split_tags(text, Tags(plain=plain))
    assert said == replace(
        reply, text=answer, thinking="\n".join(part for part in (native, thinking) if part)
    )
    if not parse([text], Tags(plain=plain))[1]:
        assert joined(events, "answer") == said.text
        assert joined(events, "thinking") == native + thinking


@given(strategies.replies.filter(lambda reply: "<" not in reply.text))
def test_a_model_that_writes_no_tags_stays_as_it_is(reply):
    inner = ScriptedModel(lambda request: reply)
    model = tagged(inner, Tags(plain="answer"))
    assert model.complete(REQUEST) == inner.complete(REQUEST)
    plain, read = list(inner.stream(REQUEST)), list(model.stream(REQUEST))
    assert read[-1] == plain[-1]
    for kind in ("thinking", "answer", "thought", "call"):
        assert joined(read, kind) == joined(plain, kind)


def test_the_rest_of_a_reply_stays():
    native = {"role": "assistant", "content": "<think>a</think>b"}
    reply = Assistant(
        "<think>a</think>b",
        thinking="native",
        tool_calls=(ToolCall("1", "add", {"text": "<think>kept</think>"}),),
        stop_reason="tool_use",
        native=native,
    )
    said = tagged(ScriptedModel([reply], name="p", model="m")).complete(REQUEST)
    assert (said.text, said.thinking) == ("b", "native\na")
    assert said == replace(reply, text="b", thinking="native\na", provider="p", model="m")


def test_json_under_a_schema_is_answer():
    model = tagged(ScriptedModel([Assistant('{"n": 1}')] * 2))
    request = replace(REQUEST, output_schema={"type": "object"})
    assert model.complete(request).text == '{"n": 1}'
    assert joined(model.stream(request), "answer") == '{"n": 1}'


def test_an_agent_answers_without_its_thinking():
    model = tagged(ScriptedModel([Assistant("<thinking>a</thinking>\n<answer>b</answer>")]))
    outcome = Agent(model).run("hi")
    assert (outcome.answer, outcome.exit) == ("b", "silence")
    assert outcome.turn.replies[0].thinking == "a"


# What real servers leaked.


def recorded(case):
    """The message of a recording, and its text in the pieces it came in."""
    response = load("ollama", case)["response"]
    if "stream" in response:
        messages = [json.loads(line)["message"] for line in response["stream"].splitlines()]
        return [message.get("content", "") for message in messages]
    return [response["body"]["message"].get("content", "")]


@needs_wire
@pytest.mark.parametrize(
    ("case", "answer"),
    [
        ("think-false-duplicate-calls-followup", "banana banana banana"),
        ("stream-text-then-tool", ""),
        ("stream-text-then-tool-followup", "The result of $ 2 - 5 $ is **-3**."),
    ],
)
def test_recorded_leaks_are_thinking(case, answer):
    pieces = recorded(case)  # qwen3: the template opened <think>, so only </think> is there
    reply = Assistant("".join(pieces))
    for plain in ("thinking", "answer"):
        said = tagged(Pieces(reply, pieces), Tags(plain=plain)).complete(REQUEST)
        assert said.text == answer
        assert said.thinking.startswith("Okay, ")
        assert "think>" not in said.thinking
    events = list(tagged(Pieces(reply, pieces)).stream(REQUEST))
    assert joined(events, "answer") == answer
    assert joined(events, "thinking") == said.thinking


@needs_wire
def test_recorded_replies_without_tags_stay_as_they_are():
    texts = 0
    for case in cases("ollama"):
        if case.startswith(("err-", "stream-200-error")):
            continue
        text = "".join(recorded(case))
        if "</think>" not in text:
            texts += bool(text)
            assert split_tags(text, PLAIN_ANSWER) == ("", text)
    assert texts > 10
