"""The commands about this machine: a cluster to try, what is known, kept and left behind."""

from pathlib import Path
from textwrap import TextWrapper
from typing import TYPE_CHECKING

import click

from kchaos.checkers.acts import Mode
from kchaos.harness.commands import cli_options as opt
from kchaos.harness.commands.cli_complete import releases
from kchaos.harness.printable import printable

if TYPE_CHECKING:
    from kchaos.harness.run.runner import RunOptions


@click.command(
    cls=opt.Command,
    examples=(
        "kchaos up --kafka 3.9.1",
        "kchaos up --kafka 2.8.2 --judge -- ./my_test.sh",
        "kchaos up --kafka 3.9.1 --judge --mix restarts --seed 7 -- mvn test",
    ),
)
@click.option(
    "--kafka",
    "kafkas",
    required=True,
    multiple=True,
    metavar="RELEASE|PATH",
    shell_complete=releases,
    help="What the brokers run. May be repeated: then one for each broker, in the order of their "
    "ids, and all speak the protocol of the oldest.",
)
@click.option("--brokers", type=click.IntRange(1), help="[default: 3, or one for each --kafka]")
@click.option("--zookeepers", type=click.IntRange(1), default=1, show_default=True)
@opt.mode
@opt.controllers
@click.option(
    "--observers",
    type=click.IntRange(0),
    help="Of a KRaft cluster: how many controllers more do not vote until AddController adds them. "
    "The quorum is dynamic then (kraft.version 1, Kafka 3.9 and later), with 0 as well.  [default: "
    "a static quorum]",
)
@click.option(
    "--combined",
    is_flag=True,
    help="The brokers, 1 or 3, are the KRaft controllers too (process.roles=broker,controller). "
    "Safety alone is judged.",
)
@click.option(
    "--property",
    "properties",
    type=opt.ReadBy("NAME=VALUE", opt.property_in),
    multiple=True,
    help="A setting of every broker, such as min.insync.replicas=2; may be repeated.",
)
@opt.properties_file
@click.option(
    "--judge",
    is_flag=True,
    help="Run a command beside the cluster, with its addresses in KCHAOS_BOOTSTRAP_SERVERS and "
    "BOOTSTRAP_SERVERS; then judge what its clients were promised. At KCHAOS_CONTROL the command "
    "injects and heals faults.",
)
@click.option(
    "--mix",
    type=click.Choice(opt.FREE_MIX_NAMES),
    metavar="MIX",
    help="With --judge: faults by the seed's clock until the command ends, mostly of one kind: "
    f"{', '.join(opt.FREE_MIX_NAMES)}.",
)
@click.option("--seed", type=opt.SEED, help="With --mix: the seed of the faults.  [default: any]")
@click.option(
    "--for",
    "for_s",
    type=opt.DURATION,
    help="With --judge: the most time that the command may take, such as 10m; then it is stopped, "
    "and the exit code is 1 or 2.",
)
@click.option(
    "--topic",
    "topics",
    type=opt.ReadBy("NAME[:PARTITIONS[:REPLICAS]]", opt.topic_in),
    multiple=True,
    help="With --judge: a topic that is there before the command; may be repeated.  [default: with "
    "--mix the topic t]",
)
@opt.topics_file
@opt.plant
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@opt.runs_directory
@opt.run_options
def up(
    kafkas: tuple[str, ...],
    brokers: int | None,
    zookeepers: int,
    mode: Mode | None,
    controllers: int,
    observers: int | None,
    combined: bool,
    properties: tuple[tuple[str, str], ...],
    properties_file: Path | None,
    judge: bool,
    mix: str | None,
    seed: int | None,
    for_s: float | None,
    topics: tuple[tuple[str, int, int], ...],
    topics_file: Path | None,
    planted: str,
    command: tuple[str, ...],
    options: "RunOptions",
) -> int | None:
    """Start a cluster to try things on; Ctrl-C ends it.

    With --judge -- COMMAND it ends with the command. Faults that act then are healed, and replicas
    settle. The exit code is 1 if something was lost or is not as it should be, 2 if nobody knows,
    and else the command's own.
    """
    from kchaos.clusters.releases import KRAFT_VERSION
    from kchaos.clusters.spec import BrokerSpec, ClusterSpec
    from kchaos.harness.commands.playground import Beside, judged_playground, playground
    from kchaos.harness.run.own_settings import oldest_release, with_settings_of
    from kchaos.harness.run.own_topics import own_topics, topic_on
    from kchaos.harness.run.scenario import cluster_planted

    of_brokers = kafkas * (brokers or 3) if len(kafkas) == 1 else kafkas
    if len(of_brokers) != (brokers or len(of_brokers)):
        raise click.UsageError(
            f"--brokers {brokers}, and {len(kafkas)} times --kafka: give one for each broker, or "
            "one for all"
        )
    if judge != bool(command):
        raise click.UsageError("--judge and a command belong together: --judge -- ./my_test.sh")
    if not judge and (topics or (mix, seed, for_s, topics_file) != (None, None, None, None)):
        raise click.UsageError(
            "--mix, --seed, --for, --topic and --topics go with --judge -- COMMAND"
        )
    if seed is not None and mix is None:
        raise click.UsageError("--seed is of the faults of --mix: give --mix too")
    spec = ClusterSpec(
        brokers=tuple(
            BrokerSpec(id=number, kafka=kafka) for number, kafka in enumerate(of_brokers)
        ),
        zookeepers=zookeepers,
        mode=mode or ("kraft" if combined or observers is not None else None),
        controllers=controllers,
        observers=observers or 0,
        combined=combined,
        features={} if observers is None else {KRAFT_VERSION: 1},
        properties=dict(properties),
    )
    spec = cluster_planted(spec, planted)
    say = opt.sayer()
    spec = with_settings_of(properties_file, spec, options=options, say=say)
    if not judge:
        playground(spec, options=options, say=say, write=click.echo)
        return None
    from kchaos.harness.campaign.schedules import any_seed
    from kchaos.harness.commands.show import result_lines
    from kchaos.harness.exits import exit_code_beside

    ids = [broker.id for broker in spec.brokers]
    made = [topic_on(ids, *topic) for topic in topics]
    if topics_file is not None:
        read = own_topics(topics_file, oldest_release(spec, options, say), ids)
        for text in read.texts():
            say(text)
        made += read.topics
    beside = Beside(
        topics=made, mix=mix or "", seed=any_seed() if seed is None else seed, for_s=for_s
    )
    results, status = judged_playground(spec, command, beside, options=options, say=say)
    for line in result_lines(results, is_expected=False):
        click.echo(line)
    return exit_code_beside(results, status)


@click.command(cls=opt.Command)
@click.option(
    "--kafka",
    required=True,
    metavar="RELEASE|PATH",
    shell_complete=releases,
    help="What the brokers run.",
)
@opt.mode
@opt.offline
def compose(kafka: str, mode: Mode | None, offline: bool) -> None:
    """Prepare docker-compose.yml in this folder. Kafka and Java are fetched, .env is written."""
    from kchaos.clusters.docker_driver.compose import write_environment

    say = opt.sayer()
    file = write_environment(kafka, Path.cwd(), mode=mode, offline=offline, say=say)
    click.echo(f"{file} written; now: docker-compose up -d")


_WRAPPER = TextWrapper(
    80, subsequent_indent=" " * 4, break_long_words=False, break_on_hyphens=False
)


@click.command(cls=opt.Command)
def doctor() -> int:
    """Check what this machine can run."""
    from kchaos.clusters.front.doctor import examine
    from kchaos.harness.exits import AS_EXPECTED, MACHINE

    answers = examine()
    for name, ok, detail, remedy in answers:
        mark = {True: "yes ", False: "NO  ", None: "-   "}[ok]
        answer = f"{mark}{name}: {detail}" + (f"; {remedy}" if not ok and remedy else "")
        click.echo("\n".join(_WRAPPER.wrap(printable(answer))))
    return MACHINE if any(answer.ok is False for answer in answers) else AS_EXPECTED


@click.command(cls=opt.Command)
@opt.offline
def repair(offline: bool) -> None:
    """Repair a broken cache. What is damaged is removed and fetched anew."""
    from kchaos.clusters.kafka.repair import repair_cache

    done = repair_cache(offline=offline, say=opt.sayer())
    click.echo("\n".join(done) or "nothing is broken")


@click.command(cls=opt.Command)
def gc() -> int:
    """Remove only the leftovers of dead runs."""
    from kchaos.clusters.docker_driver.leftovers import collect as collect_containers
    from kchaos.clusters.system.leftovers import gc as collect
    from kchaos.harness.exits import AS_EXPECTED, MACHINE

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


MACHINE_COMMANDS = (up, compose, doctor, repair, gc)
