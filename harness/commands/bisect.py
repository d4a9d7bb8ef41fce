"""`kchaos bisect`: between which releases or builds a bug came or went, by running it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kchaos.harness.commands import cli_options as opt
from kchaos.harness.commands.cli_complete import entries, releases

if TYPE_CHECKING:
    from kchaos.harness.run.runner import RunOptions


@click.command(
    cls=opt.Command,
    examples=(
        "kchaos bisect KAFKA-6361 --case n20 --good 2.1.1 --bad 0.11.0.3",
        "kchaos bisect ./my-run --builds ./builds",
    ),
)
@click.argument("name", metavar="NAME|FILE", shell_complete=entries)
@click.option(
    "--good",
    metavar="RELEASE|BUILD",
    shell_complete=releases,
    help="Does not show it.  [default: what the bug says; of builds an end]",
)
@click.option(
    "--bad",
    metavar="RELEASE|BUILD",
    shell_complete=releases,
    help="Shows it.  [default: what the bug says, or a file's own release; of builds an end]",
)
@click.option(
    "--builds",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A folder of distribution folders or .tgz files, in place of releases.",
)
@click.option("--case", help="Of the entry, where it has several.")
@click.option(
    "--runs",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Runs of the releases on both sides of a border.",
)
@opt.properties_file
@opt.trust
@opt.as_json
@opt.runs_directory
@opt.run_options
def bisect(
    name: str,
    good: str | None,
    bad: str | None,
    builds: Path | None,
    case: str | None,
    runs: int,
    properties_file: Path | None,
    trust: bool,
    as_json: bool,
    options: "RunOptions",
) -> int:
    """Find the releases or builds that introduced or fixed a bug. Each is run.

    NAME is a bug of `kchaos list` or a file of Python that has one, FILE a run or a scenario. The
    first releases of the lines between --good and --bad are bisected, and then the lines that have
    a backport. A release shows a bug of the list if its run has a finding of a kind that is
    expected where the bug is. It shows the bug of a file if its run is unsafe. Builds are bisected
    in the order of their names, a release candidate before its release; a .tgz beside its folder is
    left out. Only the verdict is written: `kchaos report RUN` draws a run. After a stop the same
    command goes on.
    """
    from kchaos.harness.campaign.bisection import confirmed_borders, search_for
    from kchaos.harness.exits import AS_EXPECTED, FINDING

    say = opt.sayer()
    search = search_for(
        name,
        case,
        builds,
        good=good,
        bad=bad,
        trusted=trust,
        properties=properties_file,
        options=options,
        say=say,
    )
    code, borders = AS_EXPECTED, list[str]()
    for border, shown in confirmed_borders(search, runs=runs, options=options, say=say):
        code = code if border.is_sure(shown) else FINDING
        if as_json:
            click.echo(json.dumps(border.to_json() | {"shown": shown}))
        else:
            borders.append(border.with_runs(shown))
            say(borders[-1])
    click.echo("\n".join(borders), nl=bool(borders))
    return code
