"""The commands about runs that ended: what they say together, tables and packs of them."""

import shlex
from pathlib import Path

import click

from kchaos.checkers.store import Place, StoredPlace
from kchaos.harness.commands import cli_options as opt


@click.command(
    cls=opt.Command,
    examples=(
        "kchaos summary kchaos-night",
        "kchaos summary night-1 night-2 --baseline lines.jsonl --fail-on new",
    ),
)
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=opt.PlaceType())
@opt.baseline
@opt.fail_on
@click.option(
    "--output",
    type=opt.LocalPath(file_okay=False, path_type=Path),
    help="Where the files go.  [default: the first DIR, unless it is on an object store]",
)
def summary(
    folders: tuple[Place, ...],
    baseline: Place | None,
    fail_on: tuple[str, ...],
    output: Path | None,
) -> int:
    """Summarise the runs in folders. That is a page, Markdown, JSON and JUnit XML.

    A DIR is a night's folder or any other with judged runs; several are shards of one night. It may
    be a place on an object store, s3://BUCKET/PREFIX, with what kchaos nightly --store left there.
    Exit codes: 0 no run fails, 1 one does, 2 what fails is only unknown, or no run is known.
    """
    from kchaos.harness.campaign.summary_files import exit_code_of_summary, summarise

    output = output or next((each for each in folders[:1] if isinstance(each, Path)), None)
    if output is None:
        raise click.UsageError(f"say with --output DIR where the summary of {folders[0]} goes")
    made = summarise(folders, baseline=baseline, fail_on=fail_on, output=output, say=opt.sayer())
    return exit_code_of_summary(made)


@click.command(
    cls=opt.Command,
    examples=(
        "kchaos tables kchaos-night --output tables",
        "kchaos tables kchaos-night --output tables --duckdb runs.duckdb",
    ),
)
@click.argument("runs", nargs=-1, required=True, type=opt.PlaceType())
@click.option(
    "--output",
    required=True,
    type=opt.PlaceType(file_okay=False),
    help="The folder of the tables, which is made or added to; it may be s3://BUCKET/PREFIX.",
)
@click.option(
    "--duckdb",
    type=opt.LocalPath(dir_okay=False, path_type=Path),
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


@click.command(
    cls=opt.Command,
    examples=(
        "kchaos pack kchaos-runs/latest",
        "kchaos pack kchaos-runs/latest --output s3://BUCKET/runs",
    ),
)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--output",
    type=opt.PlaceType(dir_okay=False),
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


@click.command(
    cls=opt.Command,
    examples=(
        "kchaos unpack RUN.tar.xz",
        "kchaos unpack s3://BUCKET/runs/RUN.tar.xz --output here",
    ),
)
@click.argument("archive", type=opt.PlaceType(exists=True, dir_okay=False))
@click.option(
    "--output",
    type=opt.LocalPath(file_okay=False, path_type=Path),
    default=Path(),
    help="Where the run goes.  [default: here]",
)
def unpack(archive: Place, output: Path) -> None:
    """Take a run out of an archive. Its evidence must be whole.

    ARCHIVE is a file, or lies on an object store: s3://BUCKET/PREFIX/RUN.tar.xz.
    """
    from kchaos.checkers.packs import unpack as unpack_run

    click.echo(str(unpack_run(archive, output).path))
