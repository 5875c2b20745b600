"""The server of the benchmark: replays one conversation to whoever asks, in every protocol.

It is a process of its own, so that it takes no time from what is measured, and it only counts and
writes bytes: the replies are encoded before the first request. Which reply is due is told by the
number of tool results in the request, so a conversation may come over any connection.

`python -m tests.benchmarks.replay [SECONDS]` prints its port and answers each request after so many
seconds. GET / tells how many bytes were asked so far, and POST /reset forgets them.
"""

import asyncio
import json
import sys
from typing import Any

from tests.servers import Protocol
from tests.servers.anthropic import AnthropicProtocol
from tests.servers.gemini import GeminiProtocol
from tests.servers.ollama import OllamaServer
from tests.servers.openai_chat import Chat
from tests.servers.openai_responses import Responses
from think_agent import Assistant, ToolCall, Usage

from .conversation import ANSWER, CALLS, MODEL, REQUEST

# The end of a path, the protocol behind it, and what stands in a request once per tool result.
PROTOCOLS: list[tuple[bytes, type[Protocol], bytes]] = [
    (b"/chat/completions", Chat, b'"tool_call_id"'),
    (b"/responses", Responses, b'"function_call_output"'),
    (b"/messages", AnthropicProtocol, b'"tool_use_id"'),
    (b":generateContent", GeminiProtocol, b'"functionResponse"'),
    (b"/api/chat", OllamaServer, b'"tool_name"'),
]
