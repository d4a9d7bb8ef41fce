"""The commands about this machine: a cluster to play with, what is known, kept and left behind."""

from pathlib import Path

import click

from kchaos.clusters.releases import Mode
from kchaos.harness.commands.cli_options import driver, mode, offline, sayer


@click.command()
@click.option("--kafka", required=True, metavar="RELEASE|PATH", help="What the brokers run.")
@click.option("--brokers", type=click.IntRange(1), default=3, show_default=True)
@click.option("--zookeepers", type=click.IntRange(1), default=1, show_default=True)
@mode
@click.option(
    "--controllers",
    type=click.Choice(["1", "3"]),
    default="1",
    show_default=True,
    callback=lambda _context, _option, value: int(value),
    help="Of a KRaft cluster.",
)
@driver
@offline
def up(
    kafka: str,
    brokers: int,
    zookeepers: int,
    mode: Mode | None,
    controllers: int,
    driver: str,
    offline: bool,
) -> None:
    """Start a cluster to play with; Ctrl-C ends it."""
    from kchaos.clusters.spec import ClusterSpec, brokers_of
    from kchaos.harness.commands.playground import playground

    spec = ClusterSpec(
        brokers=brokers_of(kafka, tuple(range(brokers))),
        zookeepers=zookeepers,
        mode=mode,
        controllers=controllers,
    )
    playground(spec, driver=driver, offline=offline, say=sayer(), write=click.echo)


@click.command()
@click.option("--kafka", required=True, metavar="RELEASE|PATH", help="What the brokers run.")
@mode
@offline
def compose(kafka: str, mode: Mode | None, offline: bool) -> None:
    """Prepare docker-compose.yml in this folder: fetch Kafka and Java, write .env."""
    from kchaos.clusters.docker_driver.compose import write_environment

    say = sayer()
    file = write_environment(kafka, Path.cwd(), mode=mode, offline=offline, say=say)
    click.echo(f"{file} written; now: docker-compose up -d")


@click.command()
def doctor() -> int:
    """Say what this machine can do."""
    from kchaos.clusters.doctor import examine
    from kchaos.harness.commands.exits import AS_EXPECTED, MACHINE

    answers = examine()
    for name, ok, detail, remedy in answers:
        mark = {True: "yes ", False: "NO  ", None: "-   "}[ok]
        click.echo(f"{mark}{name}: {detail}" + (f"; {remedy}" if not ok and remedy else ""))
    return MACHINE if any(answer.ok is False for answer in answers) else AS_EXPECTED


@click.command()
@offline
def repair(offline: bool) -> None:
    """Make a broken cache whole: remove what is damaged, and fetch it anew."""
    from kchaos.clusters.repair import repair_cache

    done = repair_cache(offline=offline, say=sayer())
    click.echo("\n".join(done) or "nothing is broken")


@click.command()
def gc() -> int:
    """Remove what dead runs of kchaos left behind, and only that."""
    from kchaos.clusters.docker_driver.leftovers import collect as collect_containers
    from kchaos.clusters.leftovers import gc as collect
    from kchaos.harness.commands.exits import AS_EXPECTED, MACHINE

    # First, since containers write into the work directories.
    lines = collect_containers()
    for line in lines:
        click.echo(line)
    collected = collect()
    for leftover in collected.removed:
        processes = len(leftover.processes)
        click.echo(f"removed {leftover.directory}, {processes} processes ended")
    for problem in collected.problems:
        click.echo(problem)
    if collected.problems:
        return MACHINE
    if not collected.removed and not lines:
        click.echo("nothing is left behind")
    return AS_EXPECTED


def add_machine_commands(group: click.Group) -> None:
    """Adds them to the command line."""
    for command in (up, compose, doctor, repair, gc):
        group.add_command(command)
