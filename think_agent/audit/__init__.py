"""Why did it do that? A transcript as text, as JSON and as one HTML page.

from think_agent.audit import report, to_html
page = to_html(report(outcome.transcript, exit=outcome.exit))
"""

from .layout import Report, report
from .page import to_html
from .text import Record, read, to_json_report, to_text, write_page

__all__ = [
    "Record",
    "Report",
    "read",
    "report",
    "to_html",
    "to_json_report",
    "to_text",
    "write_page",
]
