"""Gate: a broker of a KRaft cluster has applied its controller's decision.

A broker reads the metadata log by itself, and a while after it has read a decision its replicas
change. It says which leader epoch a replica has when it is asked for an offset by a client that
believes in one: with another one it refuses (KIP-320). What a process has shown once is not asked
again: its leader epochs only grow, and a broker whose lock is held answers nobody.
"""

from dataclasses import asdict

from kchaos.checkers import observations
from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.clusters.ask.client import list_offset
from kchaos.clusters.metadata.api import LeaderAndIsr
from kchaos.clusters.system.exchange import NoAnswer, NotSent
from kchaos.clusters.system.interrupts import check_interrupt
from kchaos.clusters.system.waiting import await_until
from kchaos.harness.play.play import Play

_LATEST = -1
_VERSION = 4
_ANSWER_S = 5.0


def await_applied(
    play: Play, partition: TopicPartition, broker: int, state: LeaderAndIsr, *, timeout_s: float
) -> None:
    """Wait until the broker's replica has this state's leader epoch, or a later one."""

    def check() -> None:
        check_interrupt()
        play.cluster.brokers[broker].check_running()

    seen: dict[str, int] = {}
    await_until(
        lambda: _has_epoch(play, partition, broker, state.leader_epoch, seen),
        timeout_s=timeout_s,
        waiting_for=f"broker {broker} to have leader epoch {state.leader_epoch} of "
        f"{partition.name}",
        last_seen=lambda: f"it answers with error {seen.get('error', 'none')}",
        remedy=f"it reads the metadata log: see brokers/{broker}/server.log",
        abort=check,
    )
    told = observations.LeaderAndIsr(**asdict(state))
    play.observed(observations.Delivered(broker=broker, state=told))


def has_applied(play: Play, partition: TopicPartition, broker: int, state: LeaderAndIsr) -> bool:
    """Return whether the state of `await_applied` has been reached."""
    return _has_epoch(play, partition, broker, state.leader_epoch, {})


def _has_epoch(
    play: Play, partition: TopicPartition, broker: int, leader_epoch: int, seen: dict[str, int]
) -> bool:
    node = play.cluster.brokers[broker]
    process = (broker, node.pid, play.cluster.metadata.topic_id(partition.topic), *partition)
    shown = play.observer.leader_epochs
    if shown.get(process, -1) >= leader_epoch:
        return True
    try:
        answer = list_offset(
            node.client_address,
            topic=partition.topic,
            partition=partition.partition,
            timestamp=_LATEST,
            version=_VERSION,
            timeout_s=_ANSWER_S,
            from_follower=True,
            leader_epoch=leader_epoch,
        )
    except (NotSent, NoAnswer):
        return False
    seen["error"] = answer.error_code
    if answer.error_code not in (0, ErrorCode.FENCED_LEADER_EPOCH):
        return False
    shown[process] = leader_epoch
    return True
