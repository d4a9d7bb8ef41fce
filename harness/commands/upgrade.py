"""`kchaos upgrade` on the command line."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kchaos.harness.commands import cli_options as opt
from kchaos.harness.commands.cli_complete import releases

if TYPE_CHECKING:
    from kchaos.harness.run.runner import RunOptions

# Those of harness.upgrades.procedure, which imports too much for `--help`.
UPGRADE_MIXES = (*opt.FREE_MIX_NAMES, "disks", "topics")


@click.command(
    cls=opt.Command,
    examples=(
        "kchaos upgrade --from 2.8.2 --to 3.9.1 --plan",
        "kchaos upgrade --from 2.8.2 --to 3.9.1 --runs 20",
        "kchaos upgrade --from 3.9.1 --to 4.4.0 --controllers 3",
        "kchaos upgrade --from 3.9.1 --migrate",
    ),
)
@click.option(
    "--from",
    "older",
    multiple=True,
    required=True,
    metavar="RELEASE|PATH",
    shell_complete=releases,
    help="What the cluster runs at first.",
)
@click.option(
    "--to",
    "newer",
    multiple=True,
    metavar="RELEASE",
    shell_complete=releases,
    help="What it goes to.",
)
@click.option(
    "--to-build",
    "build",
    type=click.Path(exists=True, path_type=Path),
    help="A build of your own in its place: a distribution folder or .tgz.",
)
@click.option(
    "--migrate",
    "migrates",
    is_flag=True,
    help="From ZooKeeper to KRaft: at the release of --from, or on the way to --to 4.x.",
)
@click.option(
    "--back-from",
    type=click.Choice(("provision", "migration", "kraft", "finalize")),
    help="With --migrate: go back to ZooKeeper after this phase.",
)
@click.option("--back", is_flag=True, help="Take the binaries back, before the protocol is raised.")
@click.option(
    "--finalize",
    is_flag=True,
    help="With --back: raise the feature levels, and lower them before the binaries go back.",
)
@click.option(
    "--dynamic-quorum",
    is_flag=True,
    help="With KRaft: raise kraft.version last, so that the quorum is dynamic; from 4.1 on.",
)
@click.option(
    "--one-roll",
    is_flag=True,
    help="Binaries and protocol in one roll, which skips the old protocol; needs --unsupported.",
)
@opt.mode
@opt.controllers
@click.option(
    "--fault",
    "mix",
    type=click.Choice(UPGRADE_MIXES),
    metavar="MIX",
    help=f"Faults in each phase, at random from a mix: {', '.join(UPGRADE_MIXES)}.",
)
@click.option(
    "--stepped",
    is_flag=True,
    help="Clients write between the rolls alone, and do not read.  [default: all the time]",
)
@click.option(
    "--workload",
    metavar="CMD",
    help="A command of your own that runs beside it; brokers are in KCHAOS_BOOTSTRAP_SERVERS.",
)
@opt.brokers
@click.option(
    "--racks",
    type=click.IntRange(2),
    metavar="N",
    help="Spread the brokers over N racks in turn (broker.rack).",
)
@click.option(
    "--log-directories",
    type=click.IntRange(1, 8),
    default=1,
    metavar="N",
    help="Of each broker; with KRaft from 3.7 on.",
)
@opt.topics_file
@opt.properties_file
@click.option("--runs", type=click.IntRange(1), default=1, show_default=True, help="How many.")
@click.option(
    "--seed",
    type=opt.SEED,
    help="Of the first run; each further one takes the next number.  [default: any]",
)
@click.option(
    "--unsupported", is_flag=True, help="Run also what Kafka does not support, to see the cost."
)
@click.option("--plan", is_flag=True, help="Say what would be run, and run nothing.")
@opt.side_by_side
@click.option(
    "--sign-off",
    "sign_off",
    type=opt.LocalPath(file_okay=False, path_type=Path),
    help="Folder of the page.  [default: sign-off-PAIR-SEED beside the runs]",
)
@opt.as_json
@opt.runs_directory
@opt.run_options
def upgrade(
    older: tuple[str, ...],
    newer: tuple[str, ...],
    build: Path | None,
    migrates: bool,
    back_from: str | None,
    back: bool,
    finalize: bool,
    dynamic_quorum: bool,
    one_roll: bool,
    mode: Any,
    controllers: int,
    mix: str | None,
    stepped: bool,
    workload: str | None,
    brokers: int | None,
    racks: int | None,
    log_directories: int,
    topics_file: Path | None,
    properties_file: Path | None,
    runs: int,
    seed: int | None,
    unsupported: bool,
    plan: bool,
    side_by_side: int | None,
    sign_off: Path | None,
    as_json: bool,
    options: "RunOptions",
) -> int:
    """Run Kafka's upgrade procedure under clients, and judge it. A page to sign off is written.

    With ZooKeeper new binaries go to one broker after the other at the old protocol. Then the
    protocol is raised, and then the message format where an old one was kept. With KRaft new
    binaries go to controllers, then to brokers, and then feature levels are raised. The seed sets
    the orders, the place of the controller and the faults. A migration goes from ZooKeeper to
    KRaft, and from ZooKeeper to 4.x each hop is run on one cluster. Exit codes: 0 green, or safe
    where nothing more is judged, 1 red, 2 unknown; 64 what Kafka does not support.
    """
    from kchaos.harness.campaign.schedules import any_seed
    from kchaos.harness.campaign.upgrade import (
        exit_code_of_upgrade,
        plan_json,
        plan_lines,
        play_upgrade,
        result_lines,
        upgrade_of,
    )
    from kchaos.harness.upgrades.rendering import json_of

    say = opt.sayer()
    meant = upgrade_of(
        older,
        newer,
        build,
        migrates=migrates,
        back_from=back_from or "",
        back=back,
        finalize=finalize,
        dynamic_quorum=dynamic_quorum,
        one_roll=one_roll,
        mix=mix or "",
        stepped=stepped,
        workload=workload,
        unsupported=unsupported,
        options=options,
        say=say,
        mode=mode,
        controllers=controllers,
        properties=properties_file,
        topics=topics_file,
        brokers=brokers or 3,
        racks=racks or 0,
        log_directories=log_directories,
    )
    if plan:
        click.echo(plan_json(meant, seed) if as_json else "\n".join(plan_lines(meant, seed)))
        return 0
    result, page = play_upgrade(
        meant,
        runs=runs,
        seed=any_seed() if seed is None else seed,
        side_by_side=side_by_side or opt.default_side_by_side(measures_waits=not stepped),
        folder=sign_off,
        options=options,
        say=say,
        done=lambda line: click.echo(json.dumps(line.to_json())) if as_json else None,
    )
    click.echo(json.dumps(json_of(result)) if as_json else "\n".join(result_lines(result, page)))
    return exit_code_of_upgrade(result)
