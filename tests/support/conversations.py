"""Conversations as other programs keep them: each call has its result, in order."""

from hypothesis import strategies as st

from think_agent import Assistant, ToolCall, ToolResult, User

word = st.text(st.characters(codec="utf-8"), max_size=5)
values = st.none() | st.booleans() | st.integers() | word | st.lists(word, max_size=2)
objects = st.dictionaries(word, values, max_size=2)
names = st.sampled_from(["think", "pay"])
words = word.map("={}".format)


@st.composite
def conversations(draw):
    """Turns: a person's message, replies with calls, a result for each call, and an answer."""
    messages = []
    for turn in range(draw(st.integers(1, 3))):
        messages.append(User(draw(words)))
        for reply in range(draw(st.integers(0, 2))):
            calls = tuple(
                ToolCall(f"id_{turn}_{reply}_{n}", draw(names), arguments)
                for n, arguments in enumerate(draw(st.lists(objects, min_size=1, max_size=2)))
            )
            text = draw(st.just("") | words)
            messages.append(Assistant(text, tool_calls=calls, stop_reason="tool_use"))
            for call in calls:
                failed = draw(st.booleans())
                content = "error: " * failed + draw(words)
                messages.append(ToolResult(call.id, call.name, content, is_error=failed))
        messages.append(Assistant(draw(words), stop_reason="end_turn"))
    return messages
