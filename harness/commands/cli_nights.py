"""The commands of a nightly job: what many runs say together."""

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kchaos.clusters.releases import Mode
from kchaos.harness.commands.cli_options import (
    as_json,
    mode,
    run_options,
    sayer,
)
from kchaos.harness.commands.cli_player import (
    MIX_NAMES,
    acts_of_schedules,
    gates_of_schedules,
    kafkas_of_schedules,
)

if TYPE_CHECKING:
    from kchaos.harness.run.runner import RunOptions

# Those of harness.summary.summary, which imports too much for `--help`.
FAIL_ON = ("unsafe", "not-conforming", "unknown", "new")
_fail_on = click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    multiple=True,
    help="What makes a run fail; may be repeated. new: a finding whose fingerprint the baseline "
    "does not have on that release.  [default: unsafe, not-conforming and unknown]",
)
_baseline = click.option(
    "--baseline",
    type=click.Path(exists=True, path_type=Path),
    help="An earlier night: its folder, or its night.jsonl.",
)


def add_night_commands(group: click.Group) -> None:
    """Adds the commands of a nightly job to the command line."""
    for command in (nightly, summary, tables, pack, unpack):
        group.add_command(command)


class _Read(click.ParamType[Any]):
    """An option's text as what a function reads in it."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, _option: Any, _context: Any) -> Any:
        """What the text means; what was read already is kept."""
        try:
            return self._read(value) if isinstance(value, str) else value
        except ValueError as error:
            raise click.BadParameter(str(error)) from None


def _seconds(text: str) -> float:
    from kchaos.harness.commands.nightly import seconds_in

    return seconds_in(text)


def _bytes(text: str) -> int:
    from kchaos.harness.commands.nightly import bytes_in

    return bytes_in(text)


def _mix(text: str) -> tuple[str, float]:
    name, _, weight = text.partition("=")
    if name not in MIX_NAMES:
        raise ValueError(f"no mix is named {name!r}; known: {', '.join(MIX_NAMES)}")
    if not (weight or "1").isdecimal():
        raise ValueError(f"{text!r}: a weight is a whole number, as in walks=3")
    return name, float(weight or "1")


def _shard(text: str) -> tuple[int, int]:
    part, slash, parts = text.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise ValueError(f"{text!r} is no part such as 2/5")
    return int(part), int(parts)


def _keep(text: str) -> int | None:
    """How many of the runs in which nothing is wrong are kept; None for all."""
    if text == "all":
        return None
    if text != "failed" and not text.isdecimal():
        raise ValueError(f"{text!r} is none of failed, all and a number")
    return 0 if text == "failed" else int(text)


@click.command()
@kafkas_of_schedules
@click.option(
    "--for",
    "for_s",
    type=_Read("DURATION", _seconds),
    help="How long, such as 2h or 90m. What could not end in time is not begun.",
)
@click.option("--runs", type=click.IntRange(1), help="How many schedules in all.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("kchaos-night"),
    show_default=True,
    help="The night's folder, for runs, lines and summary. A night that is there goes on.",
)
@_baseline
@_fail_on
@click.option(
    "--keep",
    type=_Read("failed|all|N", _keep),
    default="failed",
    show_default=True,
    help="Which runs stay on disk of those in which nothing is wrong: none, all, the newest N.",
)
@click.option(
    "--max-size",
    "max_bytes",
    type=_Read("SIZE", _bytes),
    help="What runs may take on disk, such as 2G. The last run that shows a bug is never deleted: "
    "rather than that the night ends.",
)
@click.option(
    "--shard",
    type=_Read("PART/PARTS", _shard),
    default="1/1",
    help="Play only these seeds, such as 2/5; needs --seed, the same for all parts.",
)
@click.option("--seed", type=click.IntRange(0), help="Of the first schedules.  [default: any]")
@click.option(
    "--mix",
    "mixes",
    type=_Read("MIX[=WEIGHT]", _mix),
    multiple=True,
    help="May be repeated.  [default: mixed=4, walks=2, and each other one but rare, "
    "upgrades and slow-disks]",
)
@acts_of_schedules
@gates_of_schedules
@click.option(
    "--side-by-side",
    type=click.IntRange(1),
    help="Clusters at once.  [default: as cores and memory allow]",
)
@click.option(
    "--tables",
    "tables_folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Add the runs to the Parquet tables in this folder, as kchaos tables does.",
)
@as_json
@mode
@run_options
def nightly(
    kafkas: tuple[str, ...],
    for_s: float | None,
    runs: int | None,
    output: Path,
    baseline: Path | None,
    fail_on: tuple[str, ...],
    keep: int | None,
    max_bytes: int | None,
    shard: tuple[int, int],
    seed: int | None,
    mixes: tuple[tuple[str, float], ...],
    steps: int,
    gates: bool,
    side_by_side: int | None,
    tables_folder: Path | None,
    as_json: bool,
    mode: Mode | None,
    options: "RunOptions",
) -> int:
    """Play random schedules until a budget is used up, and write a summary.

    Each seed is played on each Kafka. A run's line stays in night.jsonl when the run is deleted.
    Ctrl-C ends the night with what there is. Exit codes: 0 no run fails, 1 one does, 2 what fails
    is only unknown, or no run is known; 130 after Ctrl-C.
    """
    from kchaos.harness.commands.chaos import default_side_by_side
    from kchaos.harness.commands.nightly import Limits, Night, seed_of
    from kchaos.harness.commands.nightly import nightly as play_night
    from kchaos.harness.commands.summary import exit_code_of_summary

    if for_s is None and runs is None:
        raise click.UsageError("say how long with --for 2h, or how many with --runs 100")
    if shard[1] > 1 and seed is None:
        raise click.UsageError("--shard needs --seed: the parts of a night share its seed")
    # Slow disks need FUSE, the other two another release; more of the runs of all are unknown.
    seldom = ("rare", "upgrades", "slow-disks")
    usual = {name: 1.0 for name in MIX_NAMES if name not in seldom}
    usual |= {"mixed": 4.0, "walks": 2.0}
    made = play_night(
        Night(
            kafkas=kafkas,
            seed=seed_of(output, seed),
            mixes=dict(mixes) or usual,
            steps=steps,
            gated=gates,
            shard=shard,
            mode=mode,
        ),
        folder=output,
        limits=Limits(for_s=for_s, runs=runs, keep=keep, max_bytes=max_bytes),
        side_by_side=side_by_side or default_side_by_side(),
        baseline=baseline,
        fail_on=fail_on,
        tables=tables_folder,
        options=replace(options, runs_directory=output),
        say=sayer(),
        done=lambda line: click.echo(json.dumps(line)) if as_json else None,
    )
    return exit_code_of_summary(made)


@click.command()
@click.argument(
    "folders", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@_baseline
@_fail_on
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the files go.  [default: the first DIR]",
)
def summary(
    folders: tuple[Path, ...], baseline: Path | None, fail_on: tuple[str, ...], output: Path | None
) -> int:
    """Write what the runs in folders say together: a page, Markdown, JSON and JUnit XML.

    A DIR is a night's folder or any other with judged runs; several are shards of one night.
    Exit codes: 0 no run fails, 1 one does, 2 what fails is only unknown, or no run is known.
    """
    from kchaos.harness.commands.summary import exit_code_of_summary, summarise

    made = summarise(
        folders, baseline=baseline, fail_on=fail_on, output=output or folders[0], say=sayer()
    )
    return exit_code_of_summary(made)


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--output",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of the tables, which is made or added to.",
)
def tables(runs: tuple[Path, ...], output: Path) -> None:
    """Add runs to tables in Parquet, for DuckDB, Spark and others.

    RUNS are run directories, or folders of them. A run's rows take the place of those that it had;
    docs/tables.md has every column.
    """
    from kchaos.harness.run.directories import find_runs
    from kchaos.harness.summary.tables import append, rows_of

    directories = find_runs(runs)
    append(map(rows_of, directories), output)
    click.echo(f"{len(directories)} runs in {output}")


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The archive to make.  [default: RUN.tar.xz beside the run]",
)
def pack(run: Path, output: Path | None) -> None:
    """Put a run into one small file, and say how another machine plays and judges it.

    The archive has the evidence and the newest judgement.
    """
    from kchaos.harness.commands.pack import pack as pack_run

    archive = pack_run(run, output)
    name = run.resolve().name
    click.echo(f"{archive}: {archive.stat().st_size >> 10} KiB\n")
    for command in ("judge --no-spark", "report", "replay"):
        click.echo(f"kchaos unpack {shlex.quote(archive.name)} && kchaos {command} {name}")


@click.command()
@click.argument("archive", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Where the run goes.  [default: here]",
)
def unpack(archive: Path, output: Path) -> None:
    """Take a run out of an archive, and make sure that its evidence is whole."""
    from kchaos.harness.commands.pack import unpack as unpack_run

    click.echo(str(unpack_run(archive, output).path))
