"""File of lines that a campaign goes on with, and the page that is made of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from kchaos.checkers.run_line import RunLine
from kchaos.harness.summary.lines import append_line, read_lines


class ResultsFile:
    """Lines of many runs in a file, which need not exist.

    Attributes:
        lines: What the file has; and lines of lost plays, which it does not keep, so that they are
            played again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[RunLine] = [*read_lines(path)] if path.is_file() else []

    @property
    def last_seen(self) -> Mapping[str, str]:
        """The day, in UTC, of each entry's newest run that was as expected."""
        days: dict[str, str] = {}
        for line in self.lines:
            if line.expected and line.started_at:
                day = datetime.fromtimestamp(line.started_at, UTC).date().isoformat()
                days[line.entry] = max(day, days.get(line.entry, day))
        return days

    def append(self, line: RunLine) -> None:
        """Add a line, on disk when this returns.

        It names the run and not its place, which is another on each machine.
        """
        line = replace(line, run=Path(line.run).name, report=None)
        self.lines.append(line)
        if line.run:
            append_line(self.path, line)

    def write_page(
        self, page_of: Callable[[Sequence[RunLine], str], str], say: Callable[[str], None]
    ) -> None:
        """Write the page beside the file."""
        page = self.path.with_suffix(".md")
        page.write_text(page_of(self.lines, self.path.name))
        say(f"table written to {page}")
