"""`kchaos explore` on the command line."""

from pathlib import Path

import click

from kchaos.harness.commands import cli_options as opt
from kchaos.harness.commands.cli_complete import releases

PROPERTIES = (
    *("strong-isr", "kept", "agreement", "truncation-ends"),
    *("online", "online-if-kept-up", "droppable", "moves-once"),
)


@click.command()
@click.option(
    "--kafka",
    "releases",
    required=True,
    multiple=True,
    metavar="RELEASE",
    shell_complete=releases,
    help="Release of all brokers; give it once for each broker to mix releases, from broker 0 on.",
)
@click.option(
    "--without",
    multiple=True,
    metavar="RULE",
    help="A fix to remove from the release, by its name; may be repeated.",
)
@click.option(
    "--with",
    "also",
    multiple=True,
    metavar="RULE|PROPERTY=VALUE",
    help="A rule that only a document proposes, or a broker property of KIP-501; may be repeated.",
)
@click.option(
    "--replicas", type=click.IntRange(2, 4), help="Brokers.  [default: 2, or one for each release]"
)
@click.option("--records", type=click.IntRange(1), help="Writes.  [default: 3, with 3 replicas 2]")
@click.option("--epochs", type=click.IntRange(1), help="Leader epochs after the first.")
@click.option("--log-size", type=click.IntRange(1), help="Records in a leader's log.")
@click.option(
    "--steps",
    "grain",
    type=click.Choice(["answers", "requests", "reads", "queues"]),
    default="answers",
    show_default=True,
    help="How finely steps interleave: answers in flight, also requests, also reads of a leader, "
    "also queues of brokers and controller.",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    type=click.Choice(["kill", "stop", "expire", "controller", "time-out", "reassign", "lag"]),
    help="May happen once, at any time; may be repeated.",
)
@click.option(
    "--skip-epochs",
    is_flag=True,
    help="A broker may miss a LeaderAndIsr, as when the controller moves.",
)
@click.option(
    "--unclean",
    is_flag=True,
    help="A replica outside the ISR is elected where no member of it is there.",
)
@click.option(
    "--property",
    "properties",
    multiple=True,
    type=click.Choice(PROPERTIES),
    metavar="PROPERTY",
    help=f"What must hold in every state: {', '.join(PROPERTIES)}; docs/explore.md says what each "
    "means; may be repeated.  [default: strong-isr]",
)
@click.option(
    "--processes",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Processes that share the states.",
)
@click.option(
    "--most-states",
    type=click.IntRange(1),
    default=20_000_000,
    show_default=True,
    help="Give up after so many states.",
)
@click.option(
    "--memory",
    "memory_mib",
    type=click.IntRange(1),
    default=4096,
    show_default=True,
    metavar="MIB",
    help="Give up when all processes together need more.",
)
@click.option(
    "--scenario",
    type=opt.LocalPath(dir_okay=False, path_type=Path),
    help="File for a schedule that does lasting damage; NAME-2 and so on if it is taken."
    "  [default: explored-RELEASE.json]",
)
@click.option("--schedule/--no-schedule", default=True, help="Whether to search for one.")
@opt.as_json
def explore(
    releases: tuple[str, ...],
    without: tuple[str, ...],
    also: tuple[str, ...],
    replicas: int | None,
    records: int | None,
    epochs: int | None,
    log_size: int | None,
    grain: str,
    faults: tuple[str, ...],
    skip_epochs: bool,
    unclean: bool,
    properties: tuple[str, ...],
    processes: int,
    most_states: int,
    memory_mib: int,
    scenario: Path | None,
    schedule: bool,
    as_json: bool,
) -> int:
    """Model-check a small cluster.

    It prints the shortest counterexample, if there is one. If faults can do lasting damage, it
    writes the shortest such schedule, for `kchaos replay`. A mixed cluster uses the protocol of its
    oldest broker. Exit codes: 0 the properties hold in every state, 1 a counterexample, 2 a bound
    ended the search.
    """
    from kchaos.clusters.releases import release_of
    from kchaos.studies.commands.explore import (
        DEFAULT_BOUNDS,
        ExplorationWanted,
        explore_release,
        faults_of,
        fixes,
        proposed,
        releases_of,
    )
    from kchaos.studies.explore.bounds import Grain

    named = releases_of([release_of(release).text for release in releases], replicas)
    bound = DEFAULT_BOUNDS.get(len(named), 1)
    wanted = ExplorationWanted(
        releases=named,
        without=fixes(without),
        also=proposed(also),
        records=records or bound,
        leader_epoch=epochs or bound,
        log_size=log_size or bound,
        grain=Grain(grain),
        faults=faults_of(faults, len(named)),
        skips_epochs=skip_epochs,
        is_unclean=unclean,
        properties=properties or ("strong-isr",),
        processes=processes,
        most_states=most_states,
        memory_mib=memory_mib,
        scenario=(scenario or Path(f"explored-{'-'.join(releases)}.json")) if schedule else None,
    )
    return explore_release(wanted, as_json=as_json, say=opt.sayer(), write=click.echo)
