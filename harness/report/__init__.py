"""The report of one run, as one HTML page and as text for a terminal.

It reads a run directory and one of its judgements, shows both, and decides nothing.
"""

from kchaos.harness.report.page import render, write_report
from kchaos.harness.report.text import text_report

__all__ = ["render", "text_report", "write_report"]
