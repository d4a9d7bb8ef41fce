"""Tables of many played schedules by release and mix, for the terminal and for the docs."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from statistics import median

from kchaos.checkers.run_line import RunLine
from kchaos.harness.player.drawn_settings import NO_GATES, mix_of_case
from kchaos.harness.summary.rates import Rate, rates_of, release_of


def seconds_of(lines: Sequence[RunLine]) -> list[tuple[str, int, float, float]]:
    """Per release, in order: how many runs, median seconds of a run, median of those at gates."""
    by_release = groupby(rates_of(lines), key=lambda rate: rate.release)
    groups = [
        (release, [line for rate in rates for line in rate.lines]) for release, rates in by_release
    ]
    return [(release, len(group), _run_s(group), _waited_s(group)) for release, group in groups]


def _run_s(lines: Sequence[RunLine]) -> float:
    """Median seconds of a run; 0 where nobody measured one."""
    return median([line.seconds for line in lines if line.seconds] or [0.0])


def _waited_s(lines: Sequence[RunLine]) -> float:
    """Median seconds that a run waited at gates; 0 where nobody measured them."""
    measured = [line.waited_s for line in lines if line.waited_s is not None]
    return median(measured or [0.0])


def _skipped(lines: Sequence[RunLine]) -> str:
    """Return the number of impossible steps, or of steps whose gate did not hold, of all."""
    skipped = sum(line.not_possible for line in lines)
    return f"{skipped} of {sum(line.steps for line in lines)}"


def table_text(lines: Sequence[RunLine]) -> str:
    """Return the table at the end: a row for each release and mix, then all surprises."""
    header = ("release", "mix", "runs", "conform", "safe", "unknown", "s", "waiting", "skipped")
    rows = [header]
    rows += [
        (
            rate.release,
            rate.mix,
            str(rate.runs),
            str(rate.conforming),
            str(rate.safe),
            str(rate.unknown),
            f"{_run_s(rate.lines):.1f}",
            f"{_waited_s(rate.lines):.1f}",
            _skipped(rate.lines),
        )
        for rate in rates_of(lines)
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    table = [
        " ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    surprising = [line for line in lines if not line.expected]
    expected = f"{len(lines) - len(surprising)} of {len(lines)} as expected"
    seconds = [
        f"{release}: median {run_s:.1f} s a run, {waited_s:.1f} s of it at gates"
        for release, _, run_s, waited_s in seconds_of(lines)
    ]
    return "\n".join([*table, *seconds, expected, *map(_told, surprising)])


def page_of(lines: Sequence[RunLine], source: str) -> str:
    """Return the rates as a Markdown page, made from the file called `source`."""
    rows = [
        f"| {rate.release} | {rate.mix} | {rate.conforming} of {rate.runs} | "
        f"{rate.safe} of {rate.runs} | {rate.unknown} | {_run_s(rate.lines):.1f} | "
        f"{_waited_s(rate.lines):.1f} | {_skipped(rate.lines)} | {commands_of(rate)} |"
        for rate in rates_of(lines)
    ]
    surprising = [f"- {_told(line)}" for line in lines if not line.expected]
    return "\n".join(
        [
            "# Random schedules",
            "",
            f"Made by `kchaos chaos --results {source}` from that file; do not edit. Seconds",
            "are medians of a run on the machine at hand, its cluster's start included, and those",
            "of them that it waited at gates. Skipped are steps that turned out to be impossible,",
            "or whose gate did not hold in time.",
            "",
            "| release | mix | conform | safe | unknown | seconds | waiting | skipped | command |",
            "|---|---|---|---|---|---|---|---|---|",
            *rows,
            "",
            "| release | runs | seconds | waiting |",
            "|---|---|---|---|",
            *(
                f"| {release} | {runs} | {run_s:.1f} | {waited_s:.1f} |"
                for release, runs, run_s, waited_s in seconds_of(lines)
            ),
            "",
            "## Not as the model predicts",
            "",
            *(surprising or ["None."]),
            "",
        ]
    )


def _told(line: RunLine) -> str:
    shows = ", ".join(line.signs) or "nothing"
    why = " ".join(str(line.unknown or line.reason).split())
    if len(why) > 240:
        why = why[:240] + "…"
    shown = f" (shows {shows}; {Path(line.run).name})" if line.run else ""
    return f"{release_of(line)} {line.case} seed {line.seed}: {why}{shown}"


def commands_of(rate: Rate) -> str:
    """Return the commands that play the same schedules again, as Markdown.

    There is one for each number of steps and each row of seeds without a gap.
    """
    commands, group = [], rate.lines
    for acts in sorted({line.acts for line in group}):
        seeds = sorted({line.seed or 0 for line in group if line.acts == acts})
        case = group[0].case
        mix = mix_of_case(case)
        more = case.removeprefix(mix)
        mode = next((f" --mode {word}" for word in ("kraft", "zookeeper") if word in more), "")
        for first, count in _rows(seeds):
            command = f"kchaos chaos --kafka {group[0].kafka}{mode} --mix {mix} --seed {first}"
            command += f" --runs {count} --steps {acts}" + " --no-gates" * (NO_GATES in more)
            commands.append(f"`{command}`")
    return "<br>".join(commands)


def _rows(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first number and the length of each run of consecutive numbers."""
    rows: list[tuple[int, int]] = []
    for number in numbers:
        if rows and sum(rows[-1]) == number:
            rows[-1] = (rows[-1][0], rows[-1][1] + 1)
        else:
            rows.append((number, 1))
    return rows
