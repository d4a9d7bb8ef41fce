"""Steps and clusters of the mix `rare`: wider clusters, and steps that the other mixes leave out.

Each schedule leaves out about half of the kinds of faults and draws some of the others more often
(swarm testing: Groce and others, ISSTA 2012). So faults meet that would be drawn together in one
schedule of thousands if each had its small chance in all of them.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random

import kchaos as k
from kchaos.clusters.agent.points import FETCH_REQUEST
from kchaos.clusters.releases import KNOWN_RELEASES, KRAFT_RELEASES, release_of
from kchaos.harness.player.draw import Candidates, of_each_replica

RARE = "rare"
"""The mix of wider clusters and of what the other mixes leave out."""
SLOW_DISKS = "slow-disks"
"""The mix whose brokers' disks can be slow; it needs what `SlowDisk` needs of the machine."""
_STEP_S = 15.0
_READ_S = 3.0
_DELAY_MS = 700
_LEFT_OUT = 0.5
_WITH_KRAFT = (
    *("controller.socket.timeout.ms", "replica.socket.timeout.ms", "request.timeout.ms"),
    *("num.replica.fetchers", "num.io.threads"),
)
"""Settings of the mix `rare` that mean something to brokers of KRaft clusters."""
_ALWAYS = ("produce", "produce-to-zombie", "heal", "snapshot", "create-topic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wide:
    """A seed's choices for a schedule of the mix `rare`, beside those of all mixes.

    Attributes:
        is_keyed: Whether some records have keys; else consumers read.
        tiered: Whether the first topic is.
    """

    cluster: k.ClusterSpec
    is_keyed: bool
    tiered: bool


def swarm(
    random: Random, weights: Mapping[str, float], always: Container[str] = _ALWAYS
) -> dict[str, float]:
    """Return the weights of one schedule: about half of the kinds, some of them more often.

    Args:
        random: Draws.
        weights: By kind.
        always: Kinds that keep their weight.
    """
    drawn = {}
    for kind, weight in weights.items():
        # A kind that is never drawn moves no seed.
        factor = random.choice((1, 1, 2, 4)) * (random.random() >= _LEFT_OUT) if weight else 0
        drawn[kind] = weight if kind in always else weight * factor
    return drawn


def draw_wide(
    random: Random, kafka: str, release: str, narrow: k.ClusterSpec, *, count: int | None = None
) -> Wide:
    """Draw a cluster: up to five brokers, perhaps of two releases, tiered, with an ensemble.

    With KRaft all brokers have one release, and no log is tiered.

    `release` is that of a path `kafka`. `narrow` is the other mixes' cluster, whose settings are
    kept. `count` is how many brokers there are, None for three to five.
    """
    number = release_of(release).number
    ids = tuple(range(count or random.choice((3, 4, 5, 5))))
    timeouts = {
        "controller.socket.timeout.ms": random.choice(("3000", "3000", "30000")),
        "replica.socket.timeout.ms": (fetch_ms := random.choice(("1000", "1000", "5000"))),
        "request.timeout.ms": fetch_ms,
        "zookeeper.session.timeout.ms": random.choice(("18000", "18000", "30000")),
        "num.replica.fetchers": random.choice(("1", "1", "2")),
        "controlled.shutdown.enable": random.choice(("true", "false")),
        "controlled.shutdown.retry.backoff.ms": "200",
        # Reads that are held keep handler threads; with all of them held a broker stops.
        "num.io.threads": "8",
    }
    zookeepers = random.choice((1, 1, 1, 3))
    older = older_release(release) if random.random() < 0.3 else None
    is_tiered = random.random() < 0.25 and number >= (3, 6) and older is None
    if narrow.is_kraft:
        older, is_tiered, zookeepers = None, False, 1
        timeouts = {name: timeouts[name] for name in _WITH_KRAFT}
    brokers = k.brokers_of(kafka, ids)
    if older is not None:
        old = set(random.sample(ids, random.randint(1, len(ids) - 1)))
        brokers = tuple(k.BrokerSpec(id=i, kafka=older if i in old else kafka) for i in ids)
        # A rolling upgrade begins so; with its own protocol a new broker talks above old ones.
        timeouts["inter.broker.protocol.version"] = release_of(older).protocol_version
    return Wide(
        cluster=replace(
            narrow,
            brokers=brokers,
            zookeepers=zookeepers,
            first_broker=None if narrow.is_kraft else random.choice(ids),
            properties={**narrow.properties, **timeouts},
            tiered=is_tiered,
        ),
        is_keyed=random.random() < 0.3,
        tiered=is_tiered,
    )


def older_release(release: str, *, is_kraft: bool = False) -> str | None:
    """Return the previous known release, from which a rolling upgrade to this one starts.

    There is one for each mode, if any.
    """
    number = release_of(release).number
    releases = KRAFT_RELEASES if is_kraft else KNOWN_RELEASES
    older = [known for known in releases if release_of(known).number[:2] < number[:2]]
    return max(older, key=lambda known: release_of(known).number, default=None)


def tiered_configuration() -> tuple[tuple[str, str], ...]:
    """Return a topic's settings for an early move to the remote store and few local records."""
    return (
        ("remote.storage.enable", "true"),
        ("segment.bytes", "252"),
        ("local.retention.bytes", "420"),
    )


def _reads(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for partition in view.partitions:
        yield k.Read(
            operation=f"r{draw.number}",
            topic=partition.topic,
            partition=partition.partition,
            records=1,
            timeout_s=_READ_S,
        )


def _reassignments(view: k.View, _draw: k.Draw, *, is_awaited: bool = True) -> Iterator[k.Step]:
    by = "" if is_awaited or not view.is_asked else "api"
    for partition in view.partitions:
        others = [broker for broker in view.brokers if broker not in partition.replicas]
        for other in others:
            for index in range(len(partition.replicas)):
                replicas = (*partition.replicas[:index], other, *partition.replicas[index + 1 :])
                yield k.Reassign(
                    topic=partition.topic,
                    partition=partition.partition,
                    replicas=replicas,
                    by="api" if by else "",
                    is_awaited=is_awaited,
                    timeout_s=_STEP_S,
                )


def _lost_files(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for partition in view.partitions:
        for broker in partition.replicas:
            for ending in ("index", "timeindex"):
                file = f"{partition.topic}-{partition.partition}/{0:020d}.{ending}"
                kept = None if draw.number % 2 else 5
                fault = k.LoseFile(broker=broker, file=file, kept_bytes=kept)
                yield k.Inject(name=f"lose-file-{draw.number}", fault=fault)


def _members(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for member in range(1, view.zookeepers + 1):
        for fault in (
            *(k.KillZooKeeper(member=member), k.KillZooKeeper(member=member, loses_data=True)),
            *(k.StopZooKeeper(member=member), k.PauseZooKeeper(member=member)),
            k.IsolateZooKeeper(member=member),
        ):
            yield k.Inject(name=f"zookeeper-{draw.number}", fault=fault)


def _of_each(make: type[k.CancelReassignment] | type[k.ElectUncleanly]) -> Candidates:
    def candidates(view: k.View, _draw: k.Draw) -> Iterator[k.Step]:
        for each in view.partitions:
            yield make(topic=each.topic, partition=each.partition, timeout_s=_STEP_S)

    return candidates


def _more_partitions(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for topic in view.topics:
        yield k.AddPartitions(topic=topic, assignment=draw.assignment[:1], timeout_s=_STEP_S)


def _moved_replicas(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for partition in view.partitions:
        for broker in partition.replicas:
            yield k.MoveReplica(
                broker=broker,
                topic=partition.topic,
                partition=partition.partition,
                directory=draw.number % 2,
                timeout_s=_STEP_S,
            )


def _orders(view: k.View, _draw: k.Draw) -> Iterator[k.Step]:
    for partition in view.partitions:
        for preferred in partition.replicas[1:]:
            others = tuple(broker for broker in partition.replicas if broker != preferred)
            yield k.ReorderReplicas(
                topic=partition.topic,
                partition=partition.partition,
                replicas=(preferred, *others),
                timeout_s=_STEP_S,
            )


def _deleted_records(view: k.View, _draw: k.Draw) -> Iterator[k.Step]:
    for partition in view.partitions:
        for offset in partition.starts[1:]:
            yield k.DeleteRecords(
                topic=partition.topic,
                partition=partition.partition,
                before_offset=offset,
                timeout_s=5.0,
            )


def _rolls(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for broker in view.brokers:
        for kafka in view.kafkas:
            fault = k.RollBroker(broker=broker, kafka=kafka)
            yield k.Inject(name=f"roll-release-{draw.number}", fault=fault)


def _downgrades(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for topic in view.topics:
        for text in view.formats:
            fault = k.FormatDowngrade(topic=topic, message_format=text)
            yield k.Inject(name=f"downgrade-format-{draw.number}", fault=fault)


def _isolations(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for broker in view.brokers:
        for zookeeper in (False, True):
            fault = k.IsolateBroker(broker=broker, zookeeper=zookeeper)
            yield k.Inject(name=f"isolate-{draw.number}", fault=fault)


def _resets(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for partition in view.partitions:
        for follower in partition.replicas:
            if partition.leader not in (follower, -1):
                fault = k.CutLink(source=follower, target=partition.leader, style="reset")
                yield k.Inject(name=f"cut-reset-{draw.number}", fault=fault)


def _lost_tails(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for partition in view.partitions:
        for broker in partition.replicas:
            for offset in partition.starts[-2:]:
                fault = k.LoseTail(
                    broker=broker,
                    topic=partition.topic,
                    partition=partition.partition,
                    log_end_offset=offset,
                )
                yield k.Inject(name=f"lose-tail-{draw.number}", fault=fault)


def _frozen(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for broker in view.brokers:
        yield k.Inject(name=f"freeze-follower-{draw.number}", fault=k.FreezeFollower(broker=broker))


def _slow_reads(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for broker in view.brokers:
        for delay_ms in (None, _DELAY_MS):
            for where in ("request", "read"):
                fault = k.SlowFetchReads(
                    broker=broker,
                    where="request" if where == "request" else "read",
                    delay_ms=delay_ms,
                )
                yield k.Inject(name=f"slow-reads-{draw.number}", fault=fault)


def _slow_controllers(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for broker in view.brokers:
        yield k.Inject(name=f"hold-controller-{draw.number}", fault=k.HoldController(broker=broker))


def _points(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for broker in view.brokers:
        fault = k.HoldPoint(
            name=f"hold-point-{draw.number}",
            broker=broker,
            point=FETCH_REQUEST,
            manner="delay",
            delay_ms=_DELAY_MS,
        )
        yield k.Inject(name=f"hold-point-{draw.number}", fault=fault)


def _stale(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for broker in view.brokers:
        named = tuple(
            (partition.topic, partition.partition)
            for partition in view.partitions
            if broker in partition.replicas
        )
        for api in ("LeaderAndIsr", "StopReplica"):
            if named:
                fault = k.StaleRequest(
                    api="LeaderAndIsr" if api == "LeaderAndIsr" else "StopReplica",
                    broker=broker,
                    partitions=named,
                    of_ended_generation=api == "StopReplica",
                )
                yield k.Inject(name=f"stale-request-{draw.number}", fault=fault)
        fault = k.StaleRequest(api="UpdateMetadata", broker=broker, partitions=named)
        yield k.Inject(name=f"stale-request-{draw.number}", fault=fault)


def holds(api: str, kind: str, *, of_sender: bool) -> Candidates:
    """Return holds of requests of a kind from each broker, or to it."""

    def candidates(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
        name = f"{kind}-{draw.number}"
        for broker in view.brokers:
            if of_sender:
                fault = k.HoldRequests(name=name, api=api, source=broker)
            else:
                fault = k.HoldRequests(name=name, api=api, target=broker)
            yield k.Inject(name=name, fault=fault)

    return candidates


def slow_disks(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    """Slow flushes, and reads outside the page cache."""
    for broker in view.brokers:
        for operation in ("flush", "read"):
            fault = k.SlowDisk(
                broker=broker,
                operation="flush" if operation == "flush" else "read",
                delay_ms=_DELAY_MS,
                page_cache=True,
            )
            yield k.Inject(name=f"slow-disk-{draw.number}", fault=fault)


RARE_CANDIDATES: Mapping[str, Candidates] = {
    "read": _reads,
    "reassign": _reassignments,
    "reorder": _orders,
    "reassign-on": partial(_reassignments, is_awaited=False),
    "cancel-reassignment": _of_each(k.CancelReassignment),
    "add-partitions": _more_partitions,
    "elect-uncleanly": _of_each(k.ElectUncleanly),
    "move-replica": _moved_replicas,
    "lose-file": _lost_files,
    "zookeeper": _members,
    "delete-records": _deleted_records,
    "roll-release": _rolls,
    "downgrade-format": _downgrades,
    "isolate": _isolations,
    "cut-reset": _resets,
    "lose-tail": _lost_tails,
    "tear-epochs": of_each_replica("tear-epochs", k.TearEpochs),
    "freeze-follower": _frozen,
    "slow-reads": _slow_reads,
    "hold-controller": _slow_controllers,
    "hold-point": _points,
    "stale-request": _stale,
    "hold-update-metadata": holds("UpdateMetadata", "hold-update-metadata", of_sender=False),
    "hold-stop-replica": holds("StopReplica", "hold-stop-replica", of_sender=False),
    "hold-controlled-shutdown": holds(
        "ControlledShutdown", "hold-controlled-shutdown", of_sender=True
    ),
    "hold-isr-change": holds("AlterPartition", "hold-isr-change", of_sender=True),
}
"""Candidates of what only the mixes `rare` and `admin` draw."""
