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
)
from .loop import AskHuman, CallModel, CallTool, Check, Done, Refuse, next_step
from .messages import (
    Assistant,
    Checked,
    Ended,
    Force,
    Message,
    Started,
    ToolCall,
    ToolResult,
    Usage,
    User,
    Verdict,
)
from .model import Model, Request
from .outcome import Outcome
from .providers import connect
from .scripted import ScriptedModel
from .streaming import Delta, Notice
from .think import THINK, THINK_MINIMAL
from .tools import NothingDone, Tool, tool
from .turn import Turn

__all__ = [
    "THINK",
    "THINK_MINIMAL",
    "Agent",
    "AskHuman",
    "Assistant",
    "AuthError",
    "BadRequest",
    "BadResponse",
    "CallModel",
    "CallTool",
    "Check",
    "Checked",
    "ConnectionFailed",
    "Delta",
    "Done",
    "Ended",
    "Force",
    "Message",
    "Model",
    "ModelError",
    "ModelNotFound",
    "NothingDone",
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
    "Turn",
    "Usage",
    "User",
    "Verdict",
    "connect",
    "next_step",
    "tool",
]
__version__ = "0.1.0"
