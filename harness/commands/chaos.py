"""`kchaos chaos`: random schedules on real brokers, side by side."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kchaos.checkers.acts import Mode
from kchaos.harness.commands import cli_options as opt

if TYPE_CHECKING:
    from kchaos.checkers.run_line import RunLine
    from kchaos.harness.player.free import FreeRun
    from kchaos.harness.run.runner import RunOptions

_FREE_S, _RATE = 60.0, 10.0


@click.command(
    cls=opt.Command,
    examples=(
        "kchaos chaos --kafka 2.8.2 --runs 4",
        "kchaos chaos --kafka 3.9.1 --mode kraft --mix elections --seed 7",
    ),
)
@opt.kafkas_of_schedules
@click.option("--runs", type=click.IntRange(1), default=1, show_default=True, help="Runs each.")
@click.option(
    "--seed",
    type=opt.SEED,
    help="Seed of the first run; each further run takes the next number.  [default: any]",
)
@opt.plant
@opt.acts_of_schedules
@click.option(
    "--mix",
    type=click.Choice(opt.MIX_NAMES),
    metavar="MIX",
    default="mixed",
    show_default=True,
    help=f"What schedules are mostly made of: {', '.join(opt.MIX_NAMES)}. shutdowns: brokers that "
    "stop ask their controller first. walks: only acts that the model says are "
    "possible. wide-walks: the same with more that may go wrong.",
)
@opt.gates_of_schedules
@click.option(
    "--free",
    "is_free",
    is_flag=True,
    help="Clients write and read without waiting for anything, while faults come by the seed's "
    "clock; --steps and --gates mean nothing then.",
)
@click.option(
    "--for",
    "for_s",
    type=opt.DURATION,
    help="With --free: for how long, such as 5m or 90s.  [default: 60s]",
)
@click.option(
    "--rate",
    type=click.FloatRange(0.1, 1000),
    help="With --free: records a second, of all producers together.  [default: 10]",
)
@click.option(
    "--transactions",
    is_flag=True,
    help="With --free: a transactional producer and a read_committed consumer too.",
)
@click.option(
    "--workload",
    metavar="CMD",
    help="With --free: a command of your own in place of such clients; brokers are in "
    "KCHAOS_BOOTSTRAP_SERVERS, and the topic is t.",
)
@opt.own_parts
@opt.mode
@opt.brokers
@opt.properties_file
@click.option(
    "--fail-on",
    type=click.Choice(("unsafe", "not-conforming", "unknown")),
    multiple=True,
    help="What makes a run fail; may be repeated.  [default: all of them, and whatever the model "
    "does not predict]",
)
@opt.side_by_side
@click.option(
    "--results",
    type=opt.LocalPath(dir_okay=False, path_type=Path),
    help="File of JSON lines to add to; a table is written beside it.",
)
@opt.as_json
@opt.runs_directory
@opt.run_options
def chaos(
    kafkas: tuple[str, ...],
    runs: int,
    seed: int | None,
    planted: str,
    brokers: int | None,
    properties_file: Path | None,
    steps: int,
    mix: str,
    gates: bool,
    is_free: bool,
    for_s: float | None,
    rate: float | None,
    transactions: bool,
    workload: str | None,
    parts: tuple[str, ...],
    mode: Mode | None,
    fail_on: tuple[str, ...],
    side_by_side: int | None,
    results: Path | None,
    as_json: bool,
    options: "RunOptions",
) -> int:
    """Run random schedules on real brokers, and judge every run.

    Each seed gives one schedule: legal steps and faults, healed at the end. What turns out to
    be impossible while it runs is noted, and the schedule goes on. With --mix walks each step
    is one that the model says is possible, and its gates await what the model predicts. A run in
    which a gate does not hold is unknown. With --free clients write and read at a rate in a process
    of their own. Links in front of brokers see what the clients are promised, and the judgement
    measures for how long they had no service. Exit codes: 0 no run fails, 1 one does, 2 what fails
    is only unknown. A run that is unsafe fails, also where the model predicts it.
    """
    from kchaos.harness.campaign.schedules import DrawnSchedules, any_seed, exit_code_of_chaos
    from kchaos.harness.campaign.schedules import chaos as play_chaos
    from kchaos.harness.player.rates import table_text
    from kchaos.harness.report.whose import last_words
    from kchaos.harness.run.own_parts import parts_named

    if not is_free and (transactions or (for_s, rate, workload) != (None, None, None)):
        raise click.UsageError("--for, --rate, --transactions and --workload go with --free")
    if is_free and parts:
        raise click.UsageError("--free runs nothing of one's own: leave --parts or --free out")
    free = _free(for_s, rate, transactions, workload) if is_free else None

    def done(line: "RunLine") -> None:
        if as_json:
            click.echo(json.dumps(line.to_json()))

    lines = play_chaos(
        DrawnSchedules(
            kafkas=kafkas,
            seed=any_seed() if seed is None else seed,
            mixes={mix: 1.0},
            steps=steps,
            gated=gates,
            mode=mode,
            planted=planted,
            properties=properties_file,
            brokers=brokers,
            free=free,
            own=tuple(map(parts_named, parts)),
        ),
        runs=runs,
        side_by_side=side_by_side or opt.default_side_by_side(measures_waits=is_free),
        results=results,
        options=options,
        say=opt.sayer(),
        done=done,
    )
    if not as_json:
        click.echo("\n".join([table_text(lines), *last_words(line.run for line in lines)]))
    return exit_code_of_chaos(lines, fail_on)


def _free(
    for_s: float | None, rate: float | None, transactions: bool, workload: str | None
) -> "FreeRun":
    from kchaos.harness.play.workload import command_in
    from kchaos.harness.player.free import FreeRun

    if workload is not None and (transactions or rate is not None):
        raise click.UsageError(
            "--rate and --transactions are of kchaos's own clients: leave them or --workload out"
        )
    return FreeRun(
        for_s=_FREE_S if for_s is None else for_s,
        rate=rate or _RATE,
        transactions=transactions,
        workload=() if workload is None else command_in(workload),
    )
