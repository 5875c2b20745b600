"""think-agent: one agent loop, a no-op think tool, and a typed way out, on every provider.

Importing this package does nothing but define names: no SDK is loaded, nothing is printed, no
folder is made.
"""

from .agent import Agent
from .errors import (
    AuthError,
    BadRequest,
    BadResponse,
    ConnectionFailed,
    ModelError,
    ModelNotFound,
    Overloaded,
    RateLimited,
    TimedOut,
    ToolsUnsupported,
)
from .loop import AskHuman, CallModel, CallTool, Done, Refuse, next_step
from .messages import Assistant, Force, Message, Started, ToolCall, ToolResult, Usage, User, Verdict
from .model import Capabilities, Model, Request, ScriptedModel
from .providers import connect
from .running import Outcome
from .streaming import Delta, Notice
from .think import THINK, THINK_MINIMAL
from .tools import Tool, tool
from .turn import Action, Turn

__version__ = "0.1.0"

__all__ = [
    "THINK",
    "THINK_MINIMAL",
    "Action",
    "Agent",
    "AskHuman",
    "Assistant",
    "AuthError",
    "BadRequest",
    "BadResponse",
    "CallModel",
    "CallTool",
    "Capabilities",
    "ConnectionFailed",
    "Delta",
    "Done",
    "Force",
    "Message",
    "Model",
    "ModelError",
    "ModelNotFound",
    "Notice",
    "Outcome",
    "Overloaded",
    "RateLimited",
    "Refuse",
    "Request",
    "ScriptedModel",
    "Started",
    "TimedOut",
    "Tool",
    "ToolCall",
    "ToolResult",
    "ToolsUnsupported",
    "Turn",
    "Usage",
    "User",
    "Verdict",
    "connect",
    "next_step",
    "tool",
]
