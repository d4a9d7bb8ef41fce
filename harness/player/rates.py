"""Rates of many schedules by release and mix, for the terminal and for the docs."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from kchaos.checkers.evidence.about import marked
from kchaos.checkers.results import is_unknown
from kchaos.harness.player.drawn_settings import NO_GATES
from kchaos.harness.player.lines import Line


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedRate:
    """The runs of one release and mix, put together.

    Attributes:
        runs: How many.
        conforming: How many conform; likewise `safe`, and `unknown` to either question.
        expected: How many are as the model predicts, in both answers.
        not_possible: How many steps turned out to be impossible, or had a gate that never held.
        steps: Of all schedules together, gates included.
        seconds: Median of a run; `waited_s` that of its time at gates.
        command: Plays the same schedules again.
    """

    release: str
    mix: str
    runs: int
    conforming: int
    safe: int
    unknown: int
    expected: int
    not_possible: int
    steps: int
    seconds: float
    waited_s: float
    command: str


def rates_of(lines: Sequence[Line]) -> list[PlayedRate]:
    """One rate for each release and mix, in that order; lines are those of `line_of_run`."""
    groups: dict[tuple[tuple[int, ...], str, str], list[Line]] = defaultdict(list)
    for line in lines:
        groups[(*_release(line), str(line["case"]))].append(line)
    return [_rate(group) for _, group in sorted(groups.items())]


def seconds_of(lines: Sequence[Line]) -> list[tuple[str, int, float, float]]:
    """Per release, in order: how many runs, median seconds of a run, median of those at gates."""
    groups: dict[tuple[tuple[int, ...], str], list[Line]] = defaultdict(list)
    for line in lines:
        groups[_release(line)].append(line)
    return [
        (
            _release(group[0])[1],
            len(group),
            median([float(played["seconds"]) for played in group if played["seconds"]] or [0.0]),
            median(float(played["waited_s"]) for played in group),
        )
        for _, group in sorted(groups.items())
    ]


def _rate(group: Sequence[Line]) -> PlayedRate:
    first = group[0]
    return PlayedRate(
        release=_release(first)[1],
        mix=str(first["case"]),
        runs=len(group),
        conforming=sum(line["conforms"] is True for line in group),
        safe=sum(line["safe"] is True for line in group),
        unknown=sum(is_unknown(line) for line in group),
        expected=sum(line["expected"] is True for line in group),
        not_possible=sum(int(line["not_possible"]) for line in group),
        steps=sum(int(line["steps"]) for line in group),
        seconds=median([float(line["seconds"]) for line in group if line["seconds"]] or [0.0]),
        waited_s=median(float(line["waited_s"]) for line in group),
        command=_commands(group),
    )


def table_text(lines: Sequence[Line]) -> str:
    """The table at the end: a row for each release and mix, then what was not as expected."""
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
            f"{rate.seconds:.1f}",
            f"{rate.waited_s:.1f}",
            f"{rate.not_possible} of {rate.steps}",
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
    surprising = [line for line in lines if line["expected"] is not True]
    expected = f"{len(lines) - len(surprising)} of {len(lines)} as expected"
    seconds = [
        f"{release}: median {run_s:.1f} s a run, {waited_s:.1f} s of it at gates"
        for release, _, run_s, waited_s in seconds_of(lines)
    ]
    return "\n".join([*table, *seconds, expected, *map(_told, surprising)])


def page_of(lines: Sequence[Line], *, results: Path) -> str:
    """The rates as a Markdown page."""
    rows = [
        f"| {rate.release} | {rate.mix} | {rate.conforming} of {rate.runs} | "
        f"{rate.safe} of {rate.runs} | {rate.unknown} | {rate.seconds:.1f} | {rate.waited_s:.1f} | "
        f"{rate.not_possible} of {rate.steps} | {rate.command} |"
        for rate in rates_of(lines)
    ]
    surprising = [f"- {_told(line)}" for line in lines if line["expected"] is not True]
    return "\n".join(
        [
            "# Random schedules",
            "",
            f"Made by `kchaos chaos --results {results.name}` from that file; do not edit. Seconds",
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


def _told(line: Line) -> str:
    shows = ", ".join(line["signs"]) or "nothing"
    why = " ".join(str(line["unknown"] or line["reason"]).split())
    if len(why) > 240:
        why = why[:240] + "…"
    name = Path(str(line["run"])).name
    return f"{_release(line)[1]} {line['case']} seed {line['seed']}: {why} (shows {shows}; {name})"


def _commands(group: Sequence[Line]) -> str:
    """One command for each number of steps and each row of seeds without a gap."""
    commands = []
    for acts in sorted({int(line["acts"]) for line in group}):
        seeds = sorted({int(line["seed"]) for line in group if int(line["acts"]) == acts})
        mix, _, more = str(group[0]["case"]).partition("-")
        mode = next((f" --mode {word}" for word in ("kraft", "zookeeper") if word in more), "")
        for first, count in _rows(seeds):
            command = f"kchaos chaos --kafka {group[0]['kafka']}{mode} --mix {mix} --seed {first}"
            command += f" --runs {count} --steps {acts}" + " --no-gates" * (NO_GATES in more)
            commands.append(f"`{command}`")
    return "<br>".join(commands)


def _rows(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """First number and length of each row of numbers that follow each other."""
    rows: list[tuple[int, int]] = []
    for number in numbers:
        if rows and sum(rows[-1]) == number:
            rows[-1] = (rows[-1][0], rows[-1][1] + 1)
        else:
            rows.append((number, 1))
    return rows


def _release(line: Line) -> tuple[tuple[int, ...], str]:
    """The release of a line, for sorting and for people: two builds of one name are two."""
    release = str(line["release"])
    # Lines of older runs have no build.
    return _number(release), marked(release, str(line.get("build", "")))


def _number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".") if part.isdigit())
