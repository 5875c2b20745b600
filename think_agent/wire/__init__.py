"""Five wire protocols as pure translators: `to_wire`, `from_wire`, and a `Fold` for streams.

    anthropic.py          the Messages API
    openai_chat.py        Chat Completions, which most compatible servers speak
    openai_responses.py   OpenAI's Responses API
    gemini.py             generateContent
    ollama.py             /api/chat

Rule 1: JSON in, JSON out. Nothing here imports an SDK, waits, or knows an address.
Rule 2: what a provider wrote goes back to it as it came (`native`); what another one wrote is
        built from its neutral parts.
"""
