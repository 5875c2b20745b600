"""think-agent: one agent loop, a think tool that does nothing, and a typed exit signal.

It works on every provider. Importing this package only defines names: it loads no SDK, prints
nothing and makes no folder.
"""

from .agent import Agent, Approve
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
    TranscriptError,
)
from .loop import AskHuman, CallModel, CallTool, Check, Done, Policy, Refuse, Step, next_step
from .messages import (
    Assistant,
    Checked,
    Ended,
    Force,
    Message,
    Paused,
    Started,
    ToolCall,
    ToolResult,
    Usage,
    User,
    Verdict,
)
from .model import Model, Request
from .outcome import Outcome
from .policies import Price
from .policies.answer import Source
from .policies.cannot import THINK_CANNOT
from .policies.done_when import CheckFunction
from .providers import connect
from .running import Event
from .streaming import Delta, Notice, Progress
from .testing.scripted import ScriptedModel
from .think import THINK, THINK_MINIMAL
from .tools import NoResult, NothingDone, Predicate, Tool, tool
from .turn import Action, Turn

__all__ = [
    "THINK",
    "THINK_CANNOT",
    "THINK_MINIMAL",
    "Action",
    "Agent",
    "Approve",
    "AskHuman",
    "Assistant",
    "AuthError",
    "BadRequest",
    "BadResponse",
    "CallModel",
    "CallTool",
    "Check",
    "CheckFunction",
    "Checked",
    "ConnectionFailed",
    "Delta",
    "Done",
    "Ended",
    "Event",
    "Force",
    "Message",
    "Model",
    "ModelError",
    "ModelNotFound",
    "NoResult",
    "NothingDone",
    "Notice",
    "Outcome",
    "Overloaded",
    "Paused",
    "Policy",
    "Predicate",
    "Price",
    "Progress",
    "RateLimited",
    "Refuse",
    "Request",
    "ScriptedModel",
    "Source",
    "Started",
    "Step",
    "TimedOut",
    "Tool",
    "ToolCall",
    "ToolResult",
    "TranscriptError",
    "Turn",
    "Usage",
    "User",
    "Verdict",
    "connect",
    "next_step",
    "tool",
]
__version__ = "0.2.0"
