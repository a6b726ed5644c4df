"""Report: one dict of facts, shown as a page, as markdown and as JSON."""

from discreet.publish.facts import Entry, report_facts
from discreet.publish.prose import as_markdown
from discreet.publish.report_page import as_page

__all__ = ["Entry", "as_markdown", "as_page", "report_facts"]
