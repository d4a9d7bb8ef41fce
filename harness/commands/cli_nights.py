"""The commands of a nightly job: what many runs say together."""

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kchaos.checkers.acts import Mode
from kchaos.checkers.store import Place, StoredPlace, stored_place_of
from kchaos.harness.commands.cli_options import (
    LocalPath,
    PlaceType,
    SeedType,
    as_json,
    default_side_by_side,
    mode,
    run_options,
    sayer,
    side_by_side,
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
    type=PlaceType(exists=True),
    help="An earlier night: its folder, or its night.jsonl; also on an object store.",
)


def add_night_commands(group: click.Group) -> None:
    """Add the commands of a nightly job to the command line."""
    for command in (nightly, summary, tables, pack, unpack):
        group.add_command(command)


class _Read(click.ParamType[Any]):
    """An option's text as what a function reads in it."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, _option: Any, _context: Any) -> Any:
        """Return the text's value; one that was read already is kept."""
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
    """Return the number of clean runs to keep; None for all."""
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
    type=LocalPath(file_okay=False, path_type=Path),
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
@click.option("--seed", type=SeedType(), help="Of the first schedules.  [default: any]")
@click.option(
    "--mix",
    "mixes",
    type=_Read("MIX[=WEIGHT]", _mix),
    multiple=True,
    help="May be repeated.  [default: mixed=4, walks=2, and each other one but rare, "
    "upgrades, slow-disks and wide-walks]",
)
@acts_of_schedules
@gates_of_schedules
@side_by_side
@click.option(
    "--tables",
    "tables_folder",
    type=PlaceType(file_okay=False),
    help="Add the runs to the Parquet tables in this folder, as kchaos tables does; it may be "
    "s3://BUCKET/PREFIX.",
)
@click.option(
    "--store",
    type=_Read("s3://BUCKET/PREFIX", stored_place_of),
    help="In the end put what stays of the night on an object store, in a place of its own: lines, "
    "summary, and a pack of each run that is kept.",
)
@as_json
@mode
@run_options
def nightly(
    kafkas: tuple[str, ...],
    for_s: float | None,
    runs: int | None,
    output: Path,
    baseline: Place | None,
    fail_on: tuple[str, ...],
    keep: int | None,
    max_bytes: int | None,
    shard: tuple[int, int],
    seed: int | None,
    mixes: tuple[tuple[str, float], ...],
    steps: int,
    gates: bool,
    side_by_side: int | None,
    tables_folder: Place | None,
    store: StoredPlace | None,
    as_json: bool,
    mode: Mode | None,
    options: "RunOptions",
) -> int:
    """Play random schedules until a budget is used up. A summary is written.

    Each seed is played on each Kafka. A run's line stays in night.jsonl when the run is deleted.
    Ctrl-C ends the night with what there is. Exit codes: 0 no run fails, 1 one does, 2 what fails
    is only unknown, or no run is known; 130 after Ctrl-C.
    """
    from kchaos.harness.commands.nightly import Limits, Night, seed_of
    from kchaos.harness.commands.nightly import nightly as play_night
    from kchaos.harness.commands.summary import exit_code_of_summary

    if for_s is None and runs is None:
        raise click.UsageError("say how long with --for 2h, or how many with --runs 100")
    if shard[1] > 1 and seed is None:
        raise click.UsageError("--shard needs --seed: the parts of a night share its seed")
    made = play_night(
        Night(
            kafkas=kafkas,
            seed=seed_of(output, seed),
            mixes=dict(mixes) or _usual_mixes(),
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
        store=store,
        options=replace(options, runs_directory=output),
        say=sayer(),
        done=lambda line: click.echo(json.dumps(line)) if as_json else None,
    )
    return exit_code_of_summary(made)


def _usual_mixes() -> dict[str, float]:
    """Return the mixes of a night without `--mix`, each with its weight."""
    # Slow disks need FUSE, two others another release; wide walks take long to draw.
    seldom = ("rare", "upgrades", "slow-disks", "wide-walks")
    usual = {name: 1.0 for name in MIX_NAMES if name not in seldom}
    return usual | {"mixed": 4.0, "walks": 2.0}


@click.command()
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=PlaceType())
@_baseline
@_fail_on
@click.option(
    "--output",
    type=LocalPath(file_okay=False, path_type=Path),
    help="Where the files go.  [default: the first DIR, unless it is on an object store]",
)
def summary(
    folders: tuple[Place, ...],
    baseline: Place | None,
    fail_on: tuple[str, ...],
    output: Path | None,
) -> int:
    """Write what the runs in folders say together. That is a page, Markdown, JSON and JUnit XML.

    A DIR is a night's folder or any other with judged runs; several are shards of one night. It may
    be a place on an object store, s3://BUCKET/PREFIX, with what kchaos nightly --store left there.
    Exit codes: 0 no run fails, 1 one does, 2 what fails is only unknown, or no run is known.
    """
    from kchaos.harness.commands.summary import exit_code_of_summary, summarise

    output = output or next((each for each in folders[:1] if isinstance(each, Path)), None)
    if output is None:
        raise click.UsageError(f"say with --output DIR where the summary of {folders[0]} goes")
    made = summarise(folders, baseline=baseline, fail_on=fail_on, output=output, say=sayer())
    return exit_code_of_summary(made)


@click.command()
@click.argument("runs", nargs=-1, required=True, type=PlaceType())
@click.option(
    "--output",
    required=True,
    type=PlaceType(file_okay=False),
    help="The folder of the tables, which is made or added to; it may be s3://BUCKET/PREFIX.",
)
@click.option(
    "--duckdb",
    type=LocalPath(dir_okay=False, path_type=Path),
    help="A database file for DuckDB to write, with a view of each table.",
)
def tables(runs: tuple[Place, ...], output: Place, duckdb: Path | None) -> None:
    """Add runs to tables in Parquet, for DuckDB, Spark and others.

    RUNS are run directories, or folders of them; or packs on an object store. A run's rows take
    the place of those that it had, on a store by a view; docs/tables.md has it and every column.
    """
    from kchaos.harness.run.directories import find_places
    from kchaos.harness.summary.tables import append, rows_at, write_views

    if duckdb is not None and not isinstance(output, Path):
        raise click.UsageError("--duckdb is for tables in a folder: docs/tables.md has views of S3")
    places = find_places(runs)
    append(map(rows_at, places), output)
    if duckdb is not None and isinstance(output, Path):
        write_views(output, duckdb)
    runs_text = "1 run" if len(places) == 1 else f"{len(places)} runs"
    click.echo(f"{runs_text} in {output}")


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--output",
    type=PlaceType(dir_okay=False),
    help="The archive to make, or the folder on an object store where it goes: s3://BUCKET/PREFIX."
    "  [default: RUN.tar.xz beside the run]",
)
def pack(run: Path, output: Place | None) -> None:
    """Put a run into one small file. Commands for it on another machine are printed.

    The archive has the evidence and the newest judgement.
    """
    from kchaos.checkers.packs import SUFFIX, pack_name
    from kchaos.checkers.packs import pack as pack_run

    name = run.resolve().name
    if isinstance(output, StoredPlace) and not output.name.endswith(SUFFIX):
        output = output / pack_name(name)
    archive = pack_run(run, output)
    if isinstance(archive, Path):
        size, there = archive.stat().st_size, archive.name
    else:
        size, there = archive.size(), str(archive)
    click.echo(f"{archive}: {size >> 10} KiB\n")
    click.echo(f"kchaos unpack {shlex.quote(there)}")
    for command in ("judge --no-spark", "report", "replay"):
        click.echo(f"kchaos {command} {shlex.quote(name)}")


@click.command()
@click.argument("archive", type=PlaceType(exists=True, dir_okay=False))
@click.option(
    "--output",
    type=LocalPath(file_okay=False, path_type=Path),
    default=Path(),
    help="Where the run goes.  [default: here]",
)
def unpack(archive: Place, output: Path) -> None:
    """Take a run out of an archive. Its evidence must be whole.

    ARCHIVE is a file, or lies on an object store: s3://BUCKET/PREFIX/RUN.tar.xz.
    """
    from kchaos.checkers.packs import unpack as unpack_run

    click.echo(str(unpack_run(archive, output).path))
