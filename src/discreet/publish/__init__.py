"""Report: one dict of facts, shown as a page, as markdown and as JSON."""

from discreet.publish.facts import report_facts
from discreet.publish.prose import as_markdown
from discreet.publish.report_page import as_page

__all__ = ["as_markdown", "as_page", "report_facts"]
