"""Why did it do that? Shows a transcript as data, JSON or an HTML page, and reads foreign runs.

from think_agent.audit import report, to_html
page = to_html(report(outcome.transcript))
"""

from .explain import Difference, Explained, backtest, explain
from .imports import Log, read_log
from .page import to_html
from .reading import Record, read
from .report import Report, report, to_json_report
from .runs import Run

__all__ = [
    "Difference",
    "Explained",
    "Log",
    "Record",
    "Report",
    "Run",
    "backtest",
    "explain",
    "read",
    "read_log",
    "report",
    "to_html",
    "to_json_report",
]
