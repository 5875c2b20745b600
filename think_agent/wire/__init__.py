"""Five wire protocols as pure translators: `to_wire`, `from_wire`, and a `Fold` for streams.

`anthropic.py` speaks the Messages API, `openai_chat.py` Chat Completions (as most compatible
servers do), `openai_responses.py` OpenAI's Responses API, `gemini.py` generateContent, `ollama.py`
/api/chat. They share what goes out (`outgoing.py`) and what comes in (`incoming.py`).

Rule 1: JSON in, JSON out. Nothing here imports an SDK, waits, or knows an address.
Rule 2: a Fold accumulates the events of one stream. `feed` takes an event and returns the Deltas
        that a watcher may see. `result` is the response as if it had come whole; it says how the
        reply ended only if the server has said so. `ended` is true after the last event, even if
        the server keeps the connection open.
Rule 3: what a provider wrote (`native`) goes back unchanged to the host that wrote it. For all
        others it is built from the fields of the message.
"""
