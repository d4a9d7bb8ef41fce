"""`kchaos shrink`: the smallest schedule that still shows what a run shows."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kchaos.harness.commands import cli_options as opt

if TYPE_CHECKING:
    from kchaos.harness.run.runner import RunOptions


@click.command(
    cls=opt.Command,
    examples=(
        "kchaos shrink kchaos-runs/latest",
        "kchaos shrink kchaos-night/chaos-mixed-2.8.2-20261127-145912-c132",
    ),
)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--runs", type=click.IntRange(1), default=40, show_default=True, help="At most so many runs."
)
@click.option(
    "--tries",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Runs of a schedule until it counts as not showing it.",
)
@click.option(
    "--output",
    type=opt.LocalPath(dir_okay=False, path_type=Path),
    help="Scenario file to write.  [default: RUN-shrunk.json beside the run]",
)
@opt.side_by_side
@opt.trust
@opt.as_json
@opt.runs_directory
@opt.run_options
def shrink(
    run: Path,
    runs: int,
    tries: int,
    output: Path | None,
    side_by_side: int | None,
    trust: bool,
    as_json: bool,
    options: "RunOptions",
) -> int:
    """Remove steps of a run while it still shows the same.

    A smaller schedule shows the same if it has findings of the same kinds, about conformance or
    else about safety. For an unknown run the reason must be the same. Each is run on real
    brokers, until no step can be left out or --runs are used up.
    """
    from kchaos.checkers.judge import judge
    from kchaos.checkers.run_directory import RunDirectory
    from kchaos.checkers.run_line import signs_of
    from kchaos.harness.campaign.campaign import player_in
    from kchaos.harness.campaign.shrinking import Shrinking
    from kchaos.harness.errors import UsageError
    from kchaos.harness.exits import UNKNOWN, exit_code_for_lines
    from kchaos.harness.run.settings import trusted_scenario

    say = opt.sayer()
    directory = RunDirectory.open(run.resolve())
    scenario = trusted_scenario(directory.path / "scenario.json", trust=trust)
    if tries > runs:
        raise UsageError(f"{tries} tries of each schedule are more than {runs} runs")
    signs = frozenset(signs_of(judge(directory)))
    if not signs:
        raise UsageError(f"{run} conforms and is safe: there is nothing that a part could show")
    say(f"{len(scenario.steps)} steps show {', '.join(sorted(signs))}")
    search = Shrinking(
        scenario=scenario,
        signs=signs,
        plays=runs,
        tries=tries,
        side_by_side=side_by_side or opt.default_side_by_side(),
        file=output or directory.path.parent / f"{directory.name}-shrunk.json",
        say=say,
    )
    with player_in("shrink", options) as player:
        shrunk = search.shrink(player, str(directory.read("run.json")["release"]))
    if shrunk is None or search.line is None:
        say(f"run {search.played} times, it does not show that again: see --tries")
        return UNKNOWN
    result = {
        "scenario": str(search.file),
        "steps": len(shrunk.steps),
        "of": len(scenario.steps),
        "minimal": shrunk.is_minimal,
        "runs": search.played,
        "signs": search.line.signs,
        "run": search.line.run,
    }
    if as_json:
        click.echo(json.dumps(result))
    else:
        how = "no step can be left out" if shrunk.is_minimal else "the runs were used up"
        times = "1 run" if search.played == 1 else f"{search.played} runs"
        click.echo(f"{result['steps']} of {result['of']} steps after {times}: {how}")
        click.echo(f"{search.file}: kchaos replay runs it\nrun: {search.line.run}")
    return exit_code_for_lines([search.line])
