"""Report: one dict of facts, shown as a page, as markdown and as JSON."""

from discreet.report.facts import report_facts
from discreet.report.page import as_page
from discreet.report.prose import as_markdown

__all__ = ["as_markdown", "as_page", "report_facts"]
