"""Candidates for the next step of a random schedule, and for how long each acts.

Steps are what a cluster is told to do, and may turn out to be impossible. The mixes of walks draw
other things, the moves of the model (`kchaos.studies`), by the same `drawn_move`. Of
the names that both have only `cut`, `kill` and `reorder` mean the same: the table there has their
weights. `heal` ends any fault here and a cut there, after `expire` a broker stays without a session
there, and during `bounce` the controller stands still there. `pause` is in lists of moves alone.
"""

import tomllib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.resources import files
from itertools import combinations, permutations, product
from typing import Any

import kchaos as k
from kchaos.checkers.model.values.events import NO_LEADER
from kchaos.clusters.links.details import METADATA_TOPIC
from kchaos.clusters.settings import PROTOCOL
from kchaos.harness.player.draw import Candidates, of_each_replica
from kchaos.harness.player.rare import RARE_CANDIDATES, holds, slow_disks

_PRODUCE_S = 3.0
_ELECTION_S = 10.0
_TOPIC_S = 15.0
# A broker looks for what is too old or too much 30 s after its start for the first time.
_RETENTION_S = 35.0
_FIRST_WRITES = 4

_TABLE = tomllib.loads(files(__package__).joinpath("mixes.toml").read_text("utf-8"))
SHUTDOWNS = "shutdowns"
"""The mix whose brokers ask their controller before they stop; in the others none does."""
THROTTLES = "throttles"
"""The mix in which replication is throttled, and followers fetch with several threads."""
UPGRADES = "upgrades"
"""The mix that begins on the release line before, and rolls its brokers to the newer one."""
LOGS = "logs"
"""The mix whose brokers have two log directories, and logs so small that retention deletes."""
CLIENTS = "clients"
"""The mix that disturbs clients, which have to run freely."""
ADMIN = "admin"
"""The mix in which somebody administers topics, whose brokers have two log directories."""
SEVERAL_FOLDERS = (ADMIN, LOGS)
"""The mixes whose brokers have two log directories; with KRaft from 3.7 on (KIP-858)."""
_MIXED: Mapping[str, float] = _TABLE["mixed"] | dict.fromkeys(_TABLE["elsewhere"], 0)
MIXES: Mapping[str, Mapping[str, float]] = {
    "mixed": _MIXED,
    **{name: {**_MIXED, **weights} for name, weights in _TABLE["instead"].items()},
}
"""By name, the weights of the kinds of steps; it is named for what most of them are."""
_WITH_KRAFT: Mapping[str, list[str]] = _TABLE["with_kraft"]
OF_DYNAMIC_QUORUMS: tuple[str, ...] = tuple(_TABLE["of_dynamic_quorums"]["kinds"])
"""Kinds that act on a dynamic quorum alone, which some clusters of a mix that has them have."""

STEP_KINDS: tuple[str, ...] = tuple(_MIXED)
"""Every kind of step that is drawn."""


def step_weights_of(mix: str, *, is_kraft: bool) -> Mapping[str, float]:
    """Return the weight of each kind of step of a mix; with KRaft other kinds replace some."""
    weights = dict(MIXES[mix])
    if not is_kraft:
        weights |= dict.fromkeys(OF_DYNAMIC_QUORUMS, 0)
    else:
        for kind, others in _WITH_KRAFT.items():
            weight = weights.pop(kind)
            weights |= {other: max(weight, weights.get(other, 0)) for other in others}
        weights |= dict.fromkeys(MIXES[mix].keys() - weights.keys(), 0)
    return weights


def without(weights: Mapping[str, float], left_out: Container[str]) -> Mapping[str, float]:
    """Return the weights with those of some kinds set to 0."""
    return {kind: 0.0 if kind in left_out else weight for kind, weight in weights.items()}


def candidates_of(kind: str, view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    """Yield steps of a kind of `STEP_KINDS` in a fixed order; not all need be legal."""
    return _CANDIDATES[kind](view, draw)


def duration(fault: k.Fault) -> tuple[int, int]:
    """Return for how many steps a lasting fault stays: at least and at most.

    A session without a sign of life ends by itself; before that it is ended, or healed.
    """
    match fault:
        case (
            k.CutZooKeeper()
            | k.CutControllers()
            | k.PauseBroker()
            | k.IsolateBroker(zookeeper=True)
        ):
            return 1, 2
        case k.ExpireSession() | k.HoldRequests(api="LeaderAndIsr" | "BrokerHeartbeat"):
            return 1, 2
        case k.CutLink():
            return 2, 7
        case k.HoldRequests(api="Fetch", source=None):
            return 4, 6
        case _:
            return 1, 5


def _by_broker(kind: str, make: Callable[[int], k.Fault]) -> Candidates:
    def candidates(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
        for broker in view.brokers:
            if broker in view.controllers or any(
                broker in partition.replicas for partition in view.partitions
            ):
                yield k.Inject(name=f"{kind}-{draw.number}", fault=make(broker))

    return candidates


def _produces(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for partition in view.partitions:
        yield _produce(partition.topic, partition.partition, None, draw)


def _zombie_produces(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for partition in view.partitions:
        for zombie in sorted(partition.zombies):
            yield _produce(partition.topic, partition.partition, zombie, draw)


def _produce(topic: str, partition: int, broker: int | None, draw: k.Draw) -> k.Produce:
    return k.Produce(
        operation=f"p{draw.number}",
        topic=topic,
        partition=partition,
        records=draw.records,
        acks=draw.acks,
        broker=broker,
        accept_error=True,
        one_record_batches=draw.one_record_batches,
        await_answer=draw.await_answer,
        codec=draw.codec,
        keys=draw.keys,
        timeout_s=_PRODUCE_S,
    )


def _heals(view: k.View, _draw: k.Draw) -> Iterator[k.Step]:
    for name, fault in view.acting:
        # The end of a session whose return nobody awaits leaves nothing to heal.
        if not isinstance(fault, k.ExpireSession | k.FenceBroker) or fault.await_return:
            yield k.Heal(name=name)


def _concerned(view: k.View, a: int, b: int) -> bool:
    """Return whether the two brokers exchange any messages."""
    replicas = any({a, b} <= {*partition.replicas} for partition in view.partitions)
    return replicas or a in view.controllers or b in view.controllers


def _cuts(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for a, b in combinations(view.brokers, 2):
        if not _concerned(view, a, b):
            continue
        yield k.Inject(name=f"cut-{draw.number}", fault=k.CutLink(source=a, target=b))


def _cuts_one_way(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for a, b in permutations(view.brokers, 2):
        if not _concerned(view, a, b):
            continue
        fault = k.CutLink(source=a, target=b, one_way=True)
        yield k.Inject(name=f"cut-one-way-{draw.number}", fault=fault)


def _elections(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for partition in view.partitions:
        fault = k.PreferredElection(
            topic=partition.topic, partition=partition.partition, timeout_s=_ELECTION_S
        )
        yield k.Inject(name=f"elect-{draw.number}", fault=fault)


def _moves(_view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    yield k.Inject(name=f"move-controller-{draw.number}", fault=k.MoveController())


def _fetch_holds(direction: str, kind: str) -> Candidates:
    def candidates(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
        for partition in view.partitions:
            for follower in partition.replicas:
                if partition.leader in (follower, -1):
                    continue
                name = f"{kind}-{draw.number}"
                fault = k.HoldRequests(
                    name=name,
                    api="Fetch",
                    source=follower,
                    target=partition.leader,
                    direction="response" if direction == "response" else "request",
                    topic=partition.topic,
                    partition=partition.partition,
                )
                yield k.Inject(name=name, fault=fault)

    return candidates


def _left_behind(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    """Hold what every follower is answered of a partition that has one in sync.

    Of requests a hold would come too late: one waits at the leader, and takes the next records.
    """
    for partition in view.partitions:
        if partition.leader in view.whole and len(partition.isr & view.whole) > 1:
            name = f"leave-behind-{draw.number}"
            fault = k.HoldRequests(
                name=name,
                api="Fetch",
                target=partition.leader,
                direction="response",
                topic=partition.topic,
                partition=partition.partition,
            )
            yield k.Inject(name=name, fault=fault)


def _led_alone(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    """Cut a leader from a follower, so that it is in the ISR alone once its followers end."""
    for partition in view.partitions:
        if partition.leader in view.whole:
            for follower in sorted(partition.isr & view.whole - {partition.leader}):
                fault = k.CutLink(source=partition.leader, target=follower)
                yield k.Inject(name=f"{_LEAD_ALONE}-{draw.number}", fault=fault)


_LEAD_ALONE = "lead-alone"
_ENDS = ("kill", "stop", "bounce", "expire-and-await", "unregister")


def sequel(step: k.Step, view: k.View, kinds: Container[str]) -> Iterator[Candidates]:
    """Yield candidates for the steps that follow a step, one after the other.

    Where followers are left behind that is a write, the end of the leader's time, a write to the
    next leader, and the return of both: so logs diverge, and the one that led truncates. Where a
    leader is to be in the ISR alone, its followers end, and it appends with acks=all. The follower
    that is cut off from it starts again, and the leader ends.

    Args:
        step: It was drawn.
        view: Before the step.
        kinds: Only steps of these kinds follow.
    """

    def of(
        wanted: Iterable[str], fits: Callable[[Any, k.View], bool], *, acks: int = 1
    ) -> Candidates:
        return lambda view, draw: (
            each
            for kind in wanted
            if kind in kinds
            for each in candidates_of(kind, view, replace(draw, acks=acks))
            if fits(each, view)
        )

    def is_of_place(each: Any, _view: k.View) -> bool:
        of_step = getattr(each, "fault", each)
        return (of_step.topic, of_step.partition) == place

    def ends(each: Any, _view: k.View) -> bool:
        return bool(each.fault.broker == leader)

    def acts_on(each: Any, view: k.View, broker: int | None) -> bool:
        return getattr(dict(view.acting)[each.name], "broker", None) == broker

    match step:
        case k.Inject(name=name, fault=k.HoldRequests(api="Fetch", source=None) as hold):
            leader, place = hold.target, (hold.topic, hold.partition)
            yield of(["produce"], is_of_place)
            yield of(_ENDS, ends)
            yield of(["produce"], is_of_place)
            yield of(["heal"], lambda each, _: each.name == name)
            yield of(["heal"], lambda each, view: acts_on(each, view, leader))
        case k.Inject(name=name, fault=k.CutLink() as cut) if name.startswith(_LEAD_ALONE):
            leader, lags = cut.source, cut.target
            led = next(
                each for each in view.partitions if each.leader == leader and lags in each.isr
            )
            place, others = (led.topic, led.partition), {*led.replicas} - {leader, lags}
            yield of(["kill"], lambda each, _: each.fault.broker == lags)
            for _ in others:
                yield of(["kill"], lambda each, _: each.fault.broker in others)
            yield of(["produce"], is_of_place, acks=-1)
            yield of(["heal"], lambda each, view: acts_on(each, view, lags))
            yield of(["kill", "stop"], ends)
            yield of(["elect", "elect-uncleanly"], is_of_place)
            yield of(["produce"], is_of_place)
            yield of(["heal"], lambda each, view: acts_on(each, view, leader))


_OF_LEADERS = ("Produce", "Produce", "Produce", "Fetch")
"""A Produce is drawn three times as often as a Fetch."""
_OF_GROUPS = ("OffsetCommit", "Heartbeat")
_LATE_MS = 700


def _quorum_holds(api: str, kind: str, topic: str | None) -> Candidates:
    """Return holds of a broker's requests to controllers: heartbeats, ISRs or metadata fetches."""

    def make(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
        name = f"{kind}-{draw.number}"
        for broker in view.brokers:
            if any(broker in placed.replicas for placed in view.partitions):
                partition = None if topic is None else 0
                fault = k.HoldRequests(
                    name=name, api=api, source=broker, topic=topic, partition=partition
                )
                yield k.Inject(name=name, fault=fault)

    return make


def _disturbances(kind: str, **fields: Any) -> Candidates:
    def candidates(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
        name = f"{kind}-{draw.number}"
        leaders = {partition.leader for partition in view.partitions} - {NO_LEADER}
        asked = [*product(sorted(leaders), _OF_LEADERS), *product((None,), _OF_GROUPS)]
        for broker, api in asked:
            fault = k.DisturbClients(name=name, api=api, broker=broker, **fields)
            yield k.Inject(name=name, fault=fault)

    return candidates


def _by_controller(kind: str, make: Callable[[int], k.Fault]) -> Candidates:
    def candidates(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
        for controller in view.quorum:
            yield k.Inject(name=f"{kind}-{draw.number}", fault=make(controller))

    return candidates


def _changes_of_quorum(
    kind: str, change: type[k.AddController] | type[k.RemoveController]
) -> Candidates:
    def candidates(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
        for controller in view.quorum if view.voters else ():
            fault = change(controller=controller)
            yield k.Inject(name=f"{kind}-{draw.number}", fault=fault)

    return candidates


def _epoch_holds(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    name = f"hold-epochs-{draw.number}"
    for a, b in permutations(view.brokers, 2):
        if any({a, b} <= {*partition.replicas} for partition in view.partitions):
            fault = k.HoldRequests(name=name, api="OffsetForLeaderEpoch", source=a, target=b)
            yield k.Inject(name=name, fault=fault)


def _forgeries(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    name = f"forge-epochs-{draw.number}"
    for a, b in permutations(view.brokers, 2):
        if any({a, b} <= {*partition.replicas} for partition in view.partitions):
            fault = k.ForgeAnswers(name=name, source=a, target=b, error="NOT_LEADER_FOR_PARTITION")
            yield k.Inject(name=name, fault=fault)


def _controller_disks(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    """Disks of controllers that were killed: wiped, or without the last batches."""
    for controller in view.quorum:
        wiped = k.WipeLogDirectory(broker=controller)
        for batches in (1, 3):
            lost = k.LoseTail(
                broker=controller, topic=METADATA_TOPIC, partition=0, log_end_offset=-batches
            )
            yield k.Inject(name=f"controller-disk-{draw.number}", fault=lost)
        yield k.Inject(name=f"controller-disk-{draw.number}", fault=wiped)


def _topic_formats(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for topic in view.topics:
        for text in view.formats:
            fault = k.ConfigureTopic(topic=topic, configuration=(("message.format.version", text),))
            yield k.Inject(name=f"configure-format-{draw.number}", fault=fault)


def _broker_formats(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for broker in view.brokers:
        for text in view.formats:
            fault = k.RollBroker(broker=broker, properties=(("log.message.format.version", text),))
            yield k.Inject(name=f"roll-format-{draw.number}", fault=fault)


def _upgrades(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for broker in (*view.quorum, *view.brokers):
        if view.asked and broker not in view.upgraded:
            fault = k.RollBroker(broker=broker, kafka=view.asked)
            yield k.Inject(name=f"upgrade-{draw.number}", fault=fault)


def _ways_back(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for broker in sorted(view.upgraded):
        for kafka in view.kafkas:
            if kafka != view.asked:
                fault = k.RollBroker(broker=broker, kafka=kafka)
                yield k.Inject(name=f"go-back-{draw.number}", fault=fault)


def _raised_protocols(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for broker in view.brokers if view.asked_protocol else ():
        fault = k.RollBroker(broker=broker, properties=((PROTOCOL, view.asked_protocol),))
        yield k.Inject(name=f"raise-protocol-{draw.number}", fault=fault)


def _raised_features(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    if view.asked_levels:
        fault = k.UpdateFeatures(levels=view.asked_levels)
        yield k.Inject(name=f"raise-features-{draw.number}", fault=fault)


def _throttles(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    for partition in view.partitions:
        for broker in partition.replicas:
            for side in ("leader", "follower"):
                fault = k.ThrottleReplication(
                    broker=broker, topic=partition.topic, bytes_per_second=1, side=side
                )
                yield k.Inject(name=f"throttle-{draw.number}", fault=fault)


def _topics(view: k.View, draw: k.Draw) -> Iterator[k.Step]:
    # One that was deleted may be made again.
    name = next(unused for unused in "tuvw" if unused not in view.topics)
    yield k.CreateTopic(
        topic=name, assignment=draw.assignment, configuration=draw.configuration, timeout_s=_TOPIC_S
    )


def _deletions(view: k.View, _draw: k.Draw) -> Iterator[k.Step]:
    for topic in view.topics:
        yield k.DeleteTopic(topic=topic, timeout_s=_TOPIC_S)


def _retentions(view: k.View, _draw: k.Draw) -> Iterator[k.Step]:
    if sum(name[0] == "p" and name[1:].isdecimal() for name in view.names) < _FIRST_WRITES:
        return
    for partition in view.partitions:
        brokers = tuple(
            broker for broker in partition.replicas if broker in view.whole & partition.isr
        )
        if brokers:
            yield k.AwaitLogStart(
                topic=partition.topic,
                partition=partition.partition,
                brokers=brokers,
                log_start_offset=1,
                timeout_s=_RETENTION_S,
            )


def _snapshots(view: k.View, _draw: k.Draw) -> Iterator[k.Step]:
    yield k.TakeSnapshot(label=f"snapshot-{view.snapshots + 1}")


_CANDIDATES: Mapping[str, Callable[[k.View, k.Draw], Iterator[k.Step]]] = {
    "produce": _produces,
    "produce-to-zombie": _zombie_produces,
    "heal": _heals,
    "kill": _by_broker("kill", lambda broker: k.KillBroker(broker=broker)),
    "kill-in-recovery": _by_broker(
        "kill-in-recovery", lambda broker: k.KillBroker(broker=broker, in_recovery=True)
    ),
    "stop": _by_broker("stop", lambda broker: k.StopBroker(broker=broker)),
    "bounce": _by_broker("bounce", lambda broker: k.FastBounce(broker=broker)),
    "pause": _by_broker("pause", lambda broker: k.PauseBroker(broker=broker)),
    "cut": _cuts,
    "cut-one-way": _cuts_one_way,
    "cut-zookeeper": _by_broker("cut-zookeeper", lambda broker: k.CutZooKeeper(broker=broker)),
    "expire": _by_broker(
        "expire", lambda broker: k.ExpireSession(broker=broker, await_return=False)
    ),
    "expire-and-await": _by_broker(
        "expire-and-await", lambda broker: k.ExpireSession(broker=broker)
    ),
    "elect": _elections,
    "move-controller": _moves,
    "hold-fetch": _fetch_holds("request", "hold-fetch"),
    "leave-behind": _left_behind,
    _LEAD_ALONE: _led_alone,
    "hold-fetch-answers": _fetch_holds("response", "hold-fetch-answers"),
    "hold-epochs": _epoch_holds,
    "hold-leader-and-isr": holds("LeaderAndIsr", "hold-leader-and-isr", of_sender=False),
    "forge-epochs": _forgeries,
    "configure-format": _topic_formats,
    "roll-format": _broker_formats,
    "lose-epochs": of_each_replica("lose-epochs", k.LoseEpochs),
    "wipe": _by_broker("wipe", lambda broker: k.WipeLogDirectory(broker=broker)),
    "throttle": _throttles,
    "cut-controllers": _by_broker(
        "cut-controllers", lambda broker: k.CutControllers(broker=broker)
    ),
    "fence": _by_broker("fence", lambda broker: k.FenceBroker(broker=broker, await_return=False)),
    "unregister": _by_broker("unregister", lambda broker: k.UnregisterBroker(broker=broker)),
    "hold-heartbeats": _quorum_holds("BrokerHeartbeat", "hold-heartbeats", None),
    "hold-metadata": _quorum_holds("Fetch", "hold-metadata", METADATA_TOPIC),
    "hold-alter-partition": _quorum_holds("AlterPartition", "hold-alter-partition", None),
    "kill-controller": _by_controller("kill-controller", lambda node: k.KillBroker(broker=node)),
    "pause-controller": _by_controller("pause-controller", lambda node: k.PauseBroker(broker=node)),
    "isolate-controller": _by_controller(
        "isolate-controller", lambda node: k.IsolateBroker(broker=node)
    ),
    "add-controller": _changes_of_quorum("add-controller", k.AddController),
    "remove-controller": _changes_of_quorum("remove-controller", k.RemoveController),
    "controller-disk": _controller_disks,
    "raise-features": _raised_features,
    "create-topic": _topics,
    "delete-topic": _deletions,
    "await-retention": _retentions,
    "fail-directory": of_each_replica("fail-directory", k.FailLogDirectory),
    "snapshot": _snapshots,
    "lose-answers": _disturbances("lose-answers"),
    "lose-client-requests": _disturbances("lose-client-requests", direction="request"),
    "hold-answers": _disturbances("hold-answers", effect="hold"),
    "late-answers": _disturbances("late-answers", effect="delay", delay_ms=_LATE_MS),
    **RARE_CANDIDATES,
    "upgrade": _upgrades,
    "go-back": _ways_back,
    "raise-protocol": _raised_protocols,
    "slow-disk": slow_disks,
}
