"""Five wire protocols as pure translators: `to_wire`, `from_wire`, and a `Fold` for streams.

`anthropic.py` speaks the Messages API, `openai_chat.py` Chat Completions (as most compatible
servers do), `openai_responses.py` OpenAI's Responses API, `gemini.py` generateContent, `ollama.py`
/api/chat. They share code for requests (`outgoing.py`) and replies (`incoming.py`).

Rule 1: JSON in, JSON out. Nothing here imports an SDK, waits, or knows an address.
Rule 2: a Fold accumulates one stream's events. `feed` takes an event and returns its Deltas.
        `result` is the response as if it had arrived in one piece, with a stop reason only if the
        server sent one. `ended` is true after the last event, even if the server keeps the
        connection open.
Rule 3: a provider's own message (`native`) goes back unchanged to the host that wrote it. For all
        others it's built from the message's fields.
"""
