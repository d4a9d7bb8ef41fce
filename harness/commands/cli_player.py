"""The commands of the random player."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kchaos.checkers.acts import Mode
from kchaos.harness.commands.cli_complete import releases
from kchaos.harness.commands.cli_options import (
    LocalPath,
    SeedType,
    as_json,
    default_side_by_side,
    mode,
    own_parts,
    run_options,
    runs_directory,
    sayer,
    side_by_side,
    trust,
)

if TYPE_CHECKING:
    from kchaos.harness.commands.chaos import RunsWanted
    from kchaos.harness.player.free import FreeRun
    from kchaos.harness.run.runner import RunOptions

# Those of harness.player.candidates and walks, which import too much for `--help`.
MIX_NAMES = (
    *("mixed", "cuts", "restarts", "shutdowns", "zombies", "elections", "holds", "formats"),
    *("disks", "throttles", "topics", "logs", "admin", "rare", "upgrades", "slow-disks"),
    *("walks", "wide-walks"),
)
_RATE = 10.0
kafkas_of_schedules = click.option(
    "--kafka",
    "kafkas",
    multiple=True,
    required=True,
    metavar="RELEASE|PATH",
    shell_complete=releases,
    help="Release, distribution folder or .tgz; may be repeated.",
)
acts_of_schedules = click.option(
    "--steps", type=click.IntRange(1), default=25, show_default=True, help="Acts in a schedule."
)
gates_of_schedules = click.option(
    "--gates/--no-gates",
    default=True,
    show_default=True,
    help="Whether acts wait for each other's effect.",
)


def _free_clients(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of free clients, which the command receives as `free`."""

    @click.option(
        "--free",
        is_flag=True,
        help="Clients write and read without waiting for anything, while faults come by the seed's "
        "clock; --steps and --gates mean nothing then.",
    )
    @click.option(
        "--for",
        "duration",
        metavar="DURATION",
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
    @functools.wraps(command)
    def with_free(
        *,
        free: bool,
        duration: str | None,
        rate: float | None,
        transactions: bool,
        workload: str | None,
        **rest: Any,
    ) -> int:
        return command(free=_free(free, duration, rate, transactions, workload), **rest)

    return with_free


def _free(
    free: bool, duration: str | None, rate: float | None, transactions: bool, workload: str | None
) -> "FreeRun | None":
    from kchaos.harness.commands.nightly import seconds_in
    from kchaos.harness.play.workload import command_in
    from kchaos.harness.player.free import FreeRun

    if not free:
        if transactions or (duration, rate, workload) != (None, None, None):
            raise click.UsageError("--for, --rate, --transactions and --workload go with --free")
        return None
    if workload is not None and (transactions or rate is not None):
        raise click.UsageError(
            "--rate and --transactions are of kchaos's own clients: leave them or --workload out"
        )
    try:
        for_s = seconds_in(duration or "60s")
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--for") from None
    command = () if workload is None else command_in(workload)
    return FreeRun(for_s=for_s, rate=rate or _RATE, transactions=transactions, workload=command)


def _runs_wanted(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of drawn runs, which the command receives as `wanted`."""

    @kafkas_of_schedules
    @click.option("--runs", type=click.IntRange(1), default=1, show_default=True, help="Runs each.")
    @click.option(
        "--seed",
        type=SeedType(),
        help="Seed of the first run; each further run takes the next number.  [default: any]",
    )
    @acts_of_schedules
    @click.option(
        "--mix",
        type=click.Choice(MIX_NAMES),
        metavar="MIX",
        default="mixed",
        show_default=True,
        help=f"What schedules are mostly made of: {', '.join(MIX_NAMES)}. shutdowns: brokers that "
        "stop ask their controller first. walks: only acts that the model says are possible. "
        "wide-walks: the same with more that may go wrong.",
    )
    @gates_of_schedules
    @_free_clients
    @own_parts
    @mode
    @functools.wraps(command)
    def with_wanted(
        *,
        kafkas: tuple[str, ...],
        runs: int,
        seed: int | None,
        steps: int,
        mix: str,
        gates: bool,
        free: "FreeRun | None",
        parts: tuple[str, ...],
        mode: Mode | None,
        **rest: Any,
    ) -> int:
        from kchaos.harness.commands.chaos import RunsWanted
        from kchaos.harness.run.own_parts import parts_named

        if free is not None and parts:
            raise click.UsageError("--free draws nothing of one's own: leave --parts or --free out")
        wanted = RunsWanted(
            kafkas=kafkas,
            runs=runs,
            seed=seed,
            steps=steps,
            mix=mix,
            gated=gates,
            mode=mode,
            free=free,
            own=tuple(map(parts_named, parts)),
        )
        return command(wanted=wanted, **rest)

    return with_wanted


def add_player_commands(group: click.Group) -> None:
    """Add `chaos` and `shrink` to the command line."""
    group.add_command(chaos)
    group.add_command(shrink)


@click.command()
@_runs_wanted
@click.option(
    "--fail-on",
    type=click.Choice(("unsafe", "not-conforming", "unknown")),
    multiple=True,
    help="What makes a run fail; may be repeated.  [default: all of them, and whatever the model "
    "does not predict]",
)
@side_by_side
@click.option(
    "--results",
    type=LocalPath(dir_okay=False, path_type=Path),
    help="File of JSON lines to add to; a table is written beside it.",
)
@as_json
@runs_directory
@run_options
def chaos(
    wanted: "RunsWanted",
    fail_on: tuple[str, ...],
    side_by_side: int | None,
    results: Path | None,
    as_json: bool,
    options: "RunOptions",
) -> int:
    """Play random schedules on real brokers, and judge every run.

    A schedule is drawn from its seed: legal steps and faults, healed at the end. What turns out to
    be impossible while it is played is noted, and the schedule goes on. With --mix walks each step
    is one that the model says is possible, and its gates await what the model predicts. A run in
    which a gate does not hold is unknown. With --free clients write and read at a rate in a process
    of their own. Links in front of brokers see what the clients are promised, and the judgement
    measures for how long they had no service. Exit codes: 0 no run fails, 1 one does, 2 what fails
    is only unknown. A run that is unsafe fails, also where the model predicts it.
    """
    from kchaos.harness.commands.chaos import chaos as play_chaos
    from kchaos.harness.player.rates import table_text
    from kchaos.harness.summary.lines import Line

    def done(line: Line) -> None:
        if as_json:
            click.echo(json.dumps(line))

    code, lines = play_chaos(
        wanted,
        side_by_side=side_by_side or default_side_by_side(measures_waits=wanted.free is not None),
        results=results,
        options=options,
        say=sayer(),
        done=done,
        fail_on=fail_on,
    )
    if not as_json:
        click.echo(table_text(lines))
    return code


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--plays", type=click.IntRange(1), default=40, show_default=True, help="At most so many plays."
)
@click.option(
    "--tries",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Plays of a schedule until it counts as not showing it.",
)
@click.option(
    "--output",
    type=LocalPath(dir_okay=False, path_type=Path),
    help="Scenario file to write.  [default: RUN-shrunk.json beside the run]",
)
@side_by_side
@trust
@as_json
@runs_directory
@run_options
def shrink(
    run: Path,
    plays: int,
    tries: int,
    output: Path | None,
    side_by_side: int | None,
    trust: bool,
    as_json: bool,
    options: "RunOptions",
) -> int:
    """Leave out steps of a run while it still shows the same.

    A smaller schedule shows the same if it has findings of the same kinds, about conformance or
    else about safety. For an unknown run the reason must be the same. Each is played on real
    brokers, until no step can be left out or --plays are used up.
    """
    from kchaos.harness.commands.shrink import shrink as shrink_run

    return shrink_run(
        run,
        plays=plays,
        tries=tries,
        output=output,
        side_by_side=side_by_side or default_side_by_side(),
        options=options,
        say=sayer(),
        write=click.echo,
        as_json=as_json,
        trust=trust,
    )
