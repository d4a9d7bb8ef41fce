"""The probe: a write with acks=all that tells whether replication goes on."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from kchaos.checkers import observations
from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.formats.error_codes import (
    DOES_NOT_LEAD,
    REFUSES_RECORDS,
    ErrorCode,
    error_name,
)
from kchaos.checkers.model import events
from kchaos.checkers.observations import SettleProbe
from kchaos.clusters.ask.client import Produced
from kchaos.clusters.errors import AwaitTimeout
from kchaos.clusters.releases import release_of
from kchaos.clusters.system.exchange import NoAnswer
from kchaos.clusters.system.interrupts import check_interrupt
from kchaos.clusters.system.standstill import awake_s
from kchaos.harness.gates import gates
from kchaos.harness.gates.replication import replicas_of, unused_probe
from kchaos.harness.gates.settled import Settled
from kchaos.harness.play.play import Play

_PROBE_S = 10.0
_RETRY_S = 0.25
"""Seconds until a refused probe is written again."""
_QUOTA = "quota.producer.default"
_ANSWERS_AT_ONCE = (2, 0)
_ASKED_AGAIN = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """A partition that is probed while it settles.

    Attributes:
        play: In which it is probed.
        partition: Topic and number.
        leader: Its leader in cluster metadata; -1 if it has none, and then nothing is written.
        in_sync: The brokers of its ISR that know of it.
        settled: Where what comes of it is added; its bound is that of every wait.
        abort: Raises where it is of no use to wait on.
    """

    play: Play
    partition: TopicPartition
    leader: int
    in_sync: list[int]
    settled: Settled
    abort: Callable[[], None]

    def await_end(self, end: int) -> None:
        """Wait until every in-sync log ends there, or further if other clients may write.

        Raises:
            AwaitTimeout: One does not within the bound.
        """
        gates.await_log_end(
            self.play,
            self.partition,
            self.in_sync,
            end,
            timeout_s=self.settled.bound_s,
            or_beyond=self.play.cluster.has_given_addresses,
            abort=self.abort,
        )


def probe(probed: Probed) -> int | None:
    """Write a record with acks=all until one is acknowledged; return the log end offset, or -1.

    None says that the topic takes no such record, by its settings, quotas or ACLs: whether
    replication goes on is not known then.

    That is the positive sign that replication goes on: a leader acknowledges what its high
    watermark has passed. A refusal, or an answer that does not come, may be a follower that is
    slow or a leader that waits for a controller; so it is asked again for as long as the bound, or
    until the partition's state is another one. If it is still refused then, although all replicas
    are in sync, the topic wants more of them than it has (up to 3.6): a write to the leader alone
    is the probe, and the disks tell whether it is replicated. It is as small as a record can be
    that differs from others, so that it fits where anything does. It has a key, since a leader
    refuses a record without one if its topic is compacted. Where a quota delays the answer, the
    high watermark that the leader checkpoints is the sign.
    """
    deadline = awake_s() + probed.settled.bound_s
    number, acks = 0, -1
    while True:
        number += 1
        end = gates.last_offset(probed.play, probed.leader, probed.partition) + 2
        answer = _written(probed, acks)
        if isinstance(answer, NoAnswer) and _is_throttled(probed):
            written = gates.last_offset(probed.play, probed.leader, probed.partition) + 1
            if written >= end and _has_passed(probed, written):
                return written
        # Its leader may still wait for the controller's word about an ISR that ZooKeeper has.
        is_over = awake_s() > deadline
        if is_over and acks == -1 and _are_too_few(probed, answer):
            acks = 1
        elif not _may_still_come(answer) or is_over:
            break
        probed.abort()
        check_interrupt()
        time.sleep(_RETRY_S)
    if isinstance(answer, Produced) and answer.error_code == 0:
        return answer.base_offset + 1
    probed.abort()
    if isinstance(answer, Produced) and answer.error_code in REFUSES_RECORDS:
        return None
    return _refused(probed, answer=answer, number=number, end=end)


def _written(probed: Probed, acks: int) -> Produced | Exception:
    """Write one probe and note its outcome; return the response or the error."""
    operation, text = unused_probe(probed.play, probed.partition)
    answer = write_record(
        probed.play,
        probed.partition,
        probed.leader,
        operation,
        text=text,
        keys=(text,),
        acks=acks,
        timeout_s=_PROBE_S,
        is_probe=True,
    )
    done = isinstance(answer, Produced) and answer.error_code == 0
    shown = answer.error_code if isinstance(answer, Produced) else str(answer)
    probed.settled.probes.append(SettleProbe(operation=operation, acknowledged=done, error=shown))
    return answer


def write_record(
    play: Play,
    partition: TopicPartition,
    leader: int,
    operation: str,
    *,
    acks: int,
    timeout_s: float,
    text: str = "",
    keys: tuple[str, ...] = (),
    is_probe: bool = False,
) -> Produced | Exception:
    """Write one record; return the response or the error.

    `text` is the record, by default its operation's name. `timeout_s` is the client's; twice that
    and 10 s may pass until it reports a timeout.
    """
    action = events.Produce(
        operation=operation,
        broker=leader,
        topic=partition.topic,
        partition=partition.partition,
        records=(text or operation,),
        keys=keys,
        acks=acks,
    )
    play.clients.produce(action, timeout_s=timeout_s, is_probe=is_probe)
    return gates.await_answer(play, operation, timeout_s=2 * timeout_s + 10)


def _refused(probed: Probed, *, answer: Produced | Exception, number: int, end: int) -> int:
    """Add why no probe was acknowledged; return the log end offset if all have the last, or -1.

    `number` is the count of probes, and `end` the log end offset after the last one.
    """
    partition, leader, settled = probed.partition, probed.leader, probed.settled
    shown = answer.error_code if isinstance(answer, Produced) else str(answer)
    if isinstance(answer, NoAnswer) or shown == ErrorCode.REQUEST_TIMED_OUT:
        try:
            probed.await_end(end)
        except AwaitTimeout as error:
            probed.play.observed(observations.WaitedInVain(detail=str(error)))
        else:
            detail = (
                f"{number} probe writes with acks=all are on every in-sync disk, and for "
                f"{settled.bound_s:g} s none was acknowledged: the high watermark stands still"
            )
            settled.worsen("stalled")
            settled.add("replication-stopped", partition, leader, detail)
            return end
    settled.worsen("stalled")
    if shown in DOES_NOT_LEAD:
        detail = f"broker {leader} is named as leader and answers error {shown} to a write"
        settled.add("offline-partition", partition, -1, detail)
    else:
        detail = (
            f"none of {number} probe writes was acknowledged in {settled.bound_s:g} s; the last "
            f"one: {error_name(shown) if isinstance(shown, int) else shown}"
        )
        settled.add("replication-stopped", partition, leader, detail)
    return -1


def _is_throttled(probed: Probed) -> bool:
    """Return whether the leader may hold its answer back for a quota, for any time.

    From 2.0 on it answers at once, and reads no more of that connection for a while (KIP-219;
    ClientQuotaManager, 1.1.1 and 2.0.1).
    """
    leader = probed.play.cluster.brokers[probed.leader]
    if release_of(leader.judged_as).number >= _ANSWERS_AT_ONCE:
        return False
    return _QUOTA in leader.properties or probed.play.cluster.metadata.has_client_quotas()


def _has_passed(probed: Probed, end: int) -> bool:
    """Return whether the leader has checkpointed a high watermark at `end` or beyond."""
    checkpointed = probed.play.observer.checkpointed(probed.leader).get(probed.partition)
    return checkpointed is not None and checkpointed >= end


def _are_too_few(probed: Probed, answer: Produced | Exception) -> bool:
    """Return whether a write failed for too few replicas, although all of them are in sync."""
    assigned = replicas_of(probed.play, probed.partition)
    refused = isinstance(answer, Produced) and answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    return refused and set(assigned) <= set(probed.in_sync)


def _may_still_come(answer: Produced | Exception) -> bool:
    if isinstance(answer, Produced):
        return answer.error_code in (*_ASKED_AGAIN, *DOES_NOT_LEAD)
    return isinstance(answer, NoAnswer)


def is_probe_replicated(probed: Probed, end: int) -> bool:
    """Wait until every in-sync log ends behind the probe; add those that do not in time.

    Where somebody was given the cluster's addresses, their clients may go on to write behind it.
    """
    try:
        probed.await_end(end)
    except AwaitTimeout as error:
        probed.settled.worsen("stalled")
        for broker in probed.in_sync:
            ends_at = gates.last_offset(probed.play, broker, probed.partition) + 1
            is_open = probed.play.cluster.has_given_addresses
            if ends_at < end or (ends_at > end and not is_open):
                probed.settled.add("replication-stopped", probed.partition, broker, str(error))
        return False
    return True
