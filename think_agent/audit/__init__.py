"""Why did it do that? Shows a run as text, JSON or an HTML page, and counts other programs' runs.

from think_agent.audit import report, to_html
page = to_html(report(outcome.transcript))
"""

from .backtest import Difference, backtest
from .check import Findings, check
from .explain import Explained, explain
from .logs import LoggedRun, read_log
from .page import to_html
from .reading import Record, read
from .report import RunReport, report, to_json_report

__all__ = [
    "Difference",
    "Explained",
    "Findings",
    "LoggedRun",
    "Record",
    "RunReport",
    "backtest",
    "check",
    "explain",
    "read",
    "read_log",
    "report",
    "to_html",
    "to_json_report",
]
