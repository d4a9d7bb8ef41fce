"""The commands of a nightly job: what many runs say together."""

from pathlib import Path

import click

from kchaos.harness.commands.cli_options import sayer

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
    """Adds `summary` to the command line."""
    group.add_command(summary)


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
