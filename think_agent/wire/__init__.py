"""Five wire protocols as pure translators: `to_wire`, `from_wire`, and a `Fold` for streams.

    anthropic.py          the Messages API
    openai_chat.py        Chat Completions, which most compatible servers speak
    openai_responses.py   OpenAI's Responses API
    gemini.py             generateContent
    ollama.py             /api/chat

Rule 1: JSON in, JSON out. Nothing here imports an SDK, waits, or knows an address.
Rule 2: a Fold collects the events of one stream: `feed` takes one, and gives the Deltas that a
        watcher may see of it; `result` is the response as if it had come whole, and how it ended is
        in it only if that has come. `ended`: the last event has come, even if the server leaves the
        line open.
Rule 3: what a provider wrote goes back to it as it came (`native`); what another one wrote is
        built from its neutral parts.
"""
