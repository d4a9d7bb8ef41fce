"""Gates: what a step waits for. Each observes the cluster, and none of them is a sleep."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

from kchaos.checkers import observations
from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.model import events
from kchaos.checkers.segments.directory import PartitionContents, read_partition
from kchaos.clusters.ask.client import Produced
from kchaos.clusters.links import ApiKey, LinkRecord
from kchaos.clusters.metadata.api import LeaderAndIsr
from kchaos.clusters.system.exchange import NoAnswer, NotSent
from kchaos.clusters.system.interrupts import check_interrupt
from kchaos.clusters.system.waiting import await_until
from kchaos.faults.api import links_of
from kchaos.harness.errors import NotPossible
from kchaos.harness.gates import applied
from kchaos.harness.play.play import Play

GATE_S = 45.0
"""Seconds that a step's gate may take unless the step says otherwise."""
GONE_ON = ("passed", "released")
_OF_CONTROLLERS = (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA)
_MOST_LOOKS = 20
"""Most readings of a disk that loses files meanwhile."""


def await_state(
    play: Play,
    partition: TopicPartition,
    *,
    leader: int | None = None,
    isr: Sequence[int] | None = None,
    leader_epoch: int | None = None,
    timeout_s: float,
) -> LeaderAndIsr:
    """Wait for a state with the given leader, ISR in any order and least epoch; return it."""
    seen: list[LeaderAndIsr | None] = [None]

    def holds() -> LeaderAndIsr | None:
        seen[0] = state = play.cluster.metadata.state(*partition)
        if state is None or (leader is not None and state.leader != leader):
            return None
        if leader_epoch is not None and state.leader_epoch < leader_epoch:
            return None
        return None if isr is not None and set(state.isr) != set(isr) else state

    wanted = [f"leader {leader}"] * (leader is not None) + [f"ISR {isr}"] * (isr is not None)
    wanted += [f"leader epoch {leader_epoch} or a later one"] * (leader_epoch is not None)
    state = await_until(
        holds,
        timeout_s=timeout_s,
        waiting_for=f"{partition.name} to have {' and '.join(wanted)}",
        last_seen=lambda: seen[0],
        remedy="see the controller's lines in brokers/N/server.log",
        abort=no_exit(play),
    )
    told = observations.LeaderAndIsr(**asdict(state))
    play.observed(observations.AwaitedState(**partition._asdict(), state=told))
    return state


def await_log_end(
    play: Play,
    partition: TopicPartition,
    brokers: Sequence[int],
    log_end_offset: int,
    *,
    timeout_s: float,
    or_beyond: bool = False,
    abort: Callable[[], None] | None = None,
) -> None:
    """Wait until the last batch on each broker's disk ends right before `log_end_offset`.

    With `or_beyond` it may end later, since other clients may write. `abort` raises if waiting is
    of no use; by default, if a broker has exited.
    """
    seen: dict[int, int] = {}

    def holds() -> bool:
        for broker in brokers:
            seen[broker] = last_offset(play, broker, partition) + 1
        if or_beyond:
            return all(end >= log_end_offset for end in seen.values())
        return all(end == log_end_offset for end in seen.values())

    await_until(
        holds,
        timeout_s=timeout_s,
        waiting_for=f"{partition.name} to end at {log_end_offset} on {brokers}",
        last_seen=lambda: f"log end offsets on disk {seen}",
        remedy="see the fetchers' lines in brokers/N/server.log",
        abort=abort or no_exit(play),
    )
    play.observed(observations.LogEnd(**partition._asdict(), ends=dict(seen)))


def await_high_watermark(
    play: Play,
    partition: TopicPartition,
    brokers: Sequence[int],
    high_watermark: int,
    *,
    timeout_s: float,
) -> None:
    """Wait until each broker has checkpointed exactly this high watermark.

    The model is told: from here on older values are out of the question.
    """
    seen: dict[int, int | None] = {}
    names = ", ".join(f"broker {broker}" for broker in brokers)

    def holds() -> bool:
        for broker in brokers:
            seen[broker] = play.observer.checkpointed(broker).get(partition)
        return all(offset == high_watermark for offset in seen.values())

    def last_seen() -> str:
        return ", ".join(
            f"{'nothing' if offset is None else offset} on broker {broker}"
            for broker, offset in seen.items()
        )

    await_until(
        holds,
        timeout_s=timeout_s,
        waiting_for=f"high watermark {high_watermark} of {partition.name} "
        f"to be checkpointed on {names}",
        last_seen=last_seen,
        remedy="followers learn it with their next fetch; the file is written every "
        "replica.high.watermark.checkpoint.interval.ms",
        abort=no_exit(play),
    )
    zxid = play.last_zxid()
    for broker in brokers:
        seen_now = events.HighWatermarkObserved(
            broker=broker,
            topic=partition.topic,
            partition=partition.partition,
            high_watermark=high_watermark,
        )
        play.recorder.action(seen_now, zxid)
    marks = dict.fromkeys(brokers, high_watermark)
    play.observed(observations.HighWatermark(**partition._asdict(), seen=marks))


def await_answer(play: Play, operation: str, *, timeout_s: float) -> Produced | Exception:
    """Wait for the response to a started produce, and return it.

    Raises:
        NotPossible: There was no such produce, since nobody could take it.
    """
    if operation not in play.clients.pending:
        raise NotPossible(f"no produce {operation!r} was started")
    thread: threading.Thread = play.clients.pending[operation]
    await_until(
        lambda: not thread.is_alive() and operation in play.clients.answers,
        timeout_s=timeout_s,
        waiting_for=f"an answer to produce {operation}",
        last_seen=lambda: "none",
        remedy="acks=all waits for every in-sync replica; is one of them cut off or paused?",
        abort=no_exit(play),
    )
    answer = play.clients.answers[operation]
    if isinstance(answer, Exception) and not isinstance(answer, NoAnswer | NotSent):
        raise answer
    return answer


def await_held(play: Play, name: str, count: int, *, timeout_s: float) -> None:
    """Wait until the hold of that name holds at least `count` messages.

    Raises:
        NotPossible: There was no such hold.
    """
    if name not in play.faults.injections:
        raise NotPossible(f"no hold named {name!r} was injected")
    hold = play.faults.injections[name].handle
    await_until(
        lambda: len(hold.held) >= count,
        timeout_s=timeout_s,
        waiting_for=f"{count} messages to be held by {name}",
        last_seen=lambda: [record.describe() for record in hold.held],
        remedy="the rule's source, target, partition or offset may match nothing: see links.jsonl",
        abort=no_exit(play),
    )
    messages = tuple(record.describe() for record in hold.held)
    play.observed(observations.Held(name=name, messages=messages))


def await_delivered(
    play: Play, partition: TopicPartition, broker: int, state: LeaderAndIsr, *, timeout_s: float
) -> None:
    """Wait until the broker's current process has answered a LeaderAndIsr with this state.

    Seen at the link: the controller's request that names this leader and leader epoch, or a later
    epoch, and the broker's answer to it. The state alone says what was decided, not who has
    heard of it. Without links nothing is awaited. With KRaft the broker itself is asked
    (`applied`).
    """
    if play.cluster.is_kraft:
        applied.await_applied(play, partition, broker, state, timeout_s=timeout_s)
        return
    if play.cluster.links is None:
        return
    is_answer = _delivery(partition, broker, state)
    links_of(play.cluster).await_record(
        is_answer,
        timeout_s=timeout_s,
        waiting_for=f"broker {broker} to answer the LeaderAndIsr with leader {state.leader} "
        f"and leader epoch {state.leader_epoch} of {partition.name}",
        since=play.observer.links_started.get(broker, 0),
        abort=check_interrupt,
        api_keys=(ApiKey.LEADER_AND_ISR,),
    )
    told = observations.LeaderAndIsr(**asdict(state))
    play.observed(observations.Delivered(broker=broker, state=told))


def is_delivered(play: Play, partition: TopicPartition, broker: int, state: LeaderAndIsr) -> bool:
    """Return whether the response of `await_delivered` has come; True without links."""
    if play.cluster.is_kraft:
        return applied.has_applied(play, partition, broker, state)
    if play.cluster.links is None:
        return True
    is_answer = _delivery(partition, broker, state)
    return any(map(is_answer, since_start(play, broker, ApiKey.LEADER_AND_ISR)))


def since_start(play: Play, broker: int, *api_keys: ApiKey) -> Iterator[LinkRecord]:
    """Yield what links saw of these requests to the broker's current process, and of its answers.

    Raises:
        LinkError: Some of it is no longer kept.
    """
    since = play.observer.links_started.get(broker, 0)
    for record in links_of(play.cluster).log(since, *api_keys):
        if record.target == broker:
            yield record


def _delivery(
    partition: TopicPartition, broker: int, state: LeaderAndIsr
) -> Callable[[LinkRecord], bool]:
    """Return a predicate for the broker's good response to this or a later state.

    A state that another one replaces at once may never be sent.
    """
    asked: set[tuple[int, int]] = set()

    def is_answer(record: LinkRecord) -> bool:
        if record.target != broker:
            return False
        exchange = (record.connection, record.correlation_id)
        if record.direction == "response":
            # The broker has done what it answers, whether the controller still waits or not.
            is_given = record.fate in (*GONE_ON, "abandoned")
            return exchange in asked and is_given and is_accepted(record, partition)
        named = record.partition(*partition) or {}
        is_it = (named.get("leader"), named.get("leader_epoch")) == state.term
        if is_it or (named.get("leader_epoch") or -1) > state.leader_epoch:
            asked.add(exchange)
        return False

    return is_answer


def is_accepted(record: LinkRecord, partition: TopicPartition) -> bool:
    """Return whether a LeaderAndIsr response confirms this leader epoch.

    It refuses one partition, and not the whole request, with STALE_CONTROLLER_EPOCH if it has the
    epoch already: a controller whose request timed out sends it again (ReplicaManager,
    0.10.2 to 3.9).
    """
    of_partition = (record.partition(*partition) or {}).get("error_code")
    refused = (record.detail or {}).get("error_code")
    return not refused and of_partition in (None, 0, ErrorCode.STALE_CONTROLLER_EPOCH)


def is_yet_to_answer(play: Play, broker: int, controller: int) -> bool:
    """Return whether the broker has not answered the controller's last request.

    If that process dies now the controller sends the request to the next one
    (RequestSendThread.doWork, 0.10.2.2, 2.0.1 and 3.8.0). Whether it is about to send another one
    no link shows. False without links.
    """
    if play.cluster.links is None or play.cluster.is_kraft:
        return False
    last: tuple[int, int] | None = None
    for record in since_start(play, broker, *_OF_CONTROLLERS):
        exchange = (record.connection, record.correlation_id)
        if record.direction == "request" and record.source == controller and record.fate in GONE_ON:
            last = exchange
        elif exchange == last and record.fate in (*GONE_ON, "abandoned"):
            last = None
    return last is not None


def was_taken_out(play: Play, partition: TopicPartition, broker: int, controller: int) -> bool:
    """Return whether the controller's last ISR omits a broker since it last called it alive.

    If the broker is in the ISR all the same, the leader took it in again. False without links.
    """
    taken_out = False
    for told in _updates_of_metadata(play, controller):
        if broker in (told.detail or {}).get("live_brokers", ()):
            taken_out = False
        else:
            named = told.partition(*partition)
            taken_out = taken_out or (named is not None and broker not in named["isr"])
    return taken_out


def is_news_to_controller(
    play: Play, partition: TopicPartition, state: LeaderAndIsr, controller: int
) -> bool:
    """Return whether a former controller wrote the state after this one sent an earlier epoch.

    Until 2.1 ZooKeeper does not refuse it (KAFKA-6082). Nobody is told of such a state, and the
    leader, who has another version of it, cannot change its ISR. False without links.
    """
    epoch = play.cluster.metadata.controller_epoch() or 0
    if state.controller_epoch >= epoch:
        return False
    told = [
        named["leader_epoch"]
        for update in _updates_of_metadata(play, controller)
        if (update.detail or {}).get("controller_epoch") == epoch
        and (named := update.partition(*partition)) is not None
    ]
    return bool(told) and told[-1] < state.leader_epoch


def _updates_of_metadata(play: Play, controller: int) -> Iterator[LinkRecord]:
    """Yield each UpdateMetadata that this broker has sent as controller."""
    if play.cluster.links is None:
        return
    for record in links_of(play.cluster).log(0, ApiKey.UPDATE_METADATA):
        if (record.source, record.direction) == (controller, "request"):
            yield record


def await_cut_off(play: Play, source: int, target: int, *, timeout_s: float) -> None:
    """Wait until a cut has held a fetcher's request from one broker to another."""
    wanted = (ApiKey.FETCH, ApiKey.OFFSET_FOR_LEADER_EPOCH)
    await_until(
        lambda: any(
            key.api_key in wanted
            and key.direction == "request"
            and (key.source, key.target) == (source, target)
            and count.cut
            for key, count in links_of(play.cluster).counts().items()
        ),
        timeout_s=timeout_s,
        waiting_for=f"a fetcher's request from broker {source} to {target} to be cut off",
        last_seen=lambda: "none",
    )


def contents(play: Play, broker: int, partition: TopicPartition) -> PartitionContents | None:
    """Return the content of the partition on the broker's disk; None while it has no directory.

    A segment that the broker deletes while the others are read lets it look again.
    """
    directory = play.observer.partition_directory(broker, partition.topic, partition.partition)
    looks = 0
    while directory.is_dir():
        try:
            return read_partition(directory, decode_records=False)
        except FileNotFoundError:
            looks += 1
            if looks == _MOST_LOOKS:
                raise
    return None


def last_offset(play: Play, broker: int, partition: TopicPartition) -> int:
    """Return the offset of the last record on the broker's disk, or -1."""
    log = contents(play, broker, partition)
    return log.batches[-1].last_offset if log is not None and log.batches else -1


def check_causes_of_death(play: Play) -> None:
    """Check that nothing outside Kafka, such as the OOM killer, ended a broker.

    After that nobody can say how replication would have gone on.

    Raises:
        BrokerExited: One was.
    """
    for broker in play.cluster.brokers.values():
        if broker.cause_of_death:
            broker.check_running()


def no_exit(play: Play) -> Callable[[], None]:
    """Return a check that no running broker has ended by itself."""
    running = [broker for broker in play.cluster.brokers.values() if broker.is_running]

    def check() -> None:
        for broker in running:
            broker.check_running()

    return check
