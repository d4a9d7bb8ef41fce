"""KIP-380: a broker takes a live leader for dead, as its earlier generation was told."""

from collections.abc import Mapping
from typing import Any

import kchaos as k
from kchaos.harness.catalogue.kip_380_bounced import (
    BOUNCING,
    CONTROLLER,
    OTHER,
    bounced_cluster,
    late_answer,
    topic_with_a_record,
)

_FOLLOWER, _CLIENT = "leader-taken-for-dead", "client-asks"
_ALL = (OTHER, CONTROLLER, BOUNCING)


def _steps(case: str) -> tuple[k.Step, ...]:
    return _a_client_asks() if case == _CLIENT else _a_follower_is_told()


def _a_client_asks() -> tuple[k.Step, ...]:
    """Ask broker 1, which has no replica, so that only its metadata of t matter."""
    both = (OTHER, CONTROLLER)

    def client(operation: str, tries: int = 20) -> k.WriteWhereTold:
        return k.WriteWhereTold(
            operation=operation, topic="t", partition=0, ask=BOUNCING, tries=tries
        )

    return (
        *topic_with_a_record(both),
        k.AwaitReplicated(topic="t", partition=0, brokers=both, log_end_offset=1),
        k.Tell(text="broker 2 is down; an UpdateMetadata tells broker 1 so, and is late"),
        k.Inject(name="2-down", fault=k.KillBroker(broker=OTHER)),
        k.AwaitState(topic="t", partition=0, leader=CONTROLLER, isr=(CONTROLLER,)),
        k.Inject(
            name="late",
            fault=k.StaleRequest(api="UpdateMetadata", broker=BOUNCING, partitions=(("t", 0),)),
        ),
        k.Tell(text="broker 2 returns and leads again; broker 1 bounces, and a client asks it"),
        k.Heal(name="2-down"),
        k.AwaitState(topic="t", partition=0, leader=CONTROLLER, isr=both),
        # A leader tells its controller of a grown ISR seconds later, and that tells all brokers.
        k.AwaitLog(broker=CONTROLLER, pattern=r"Sending MetadataRequest to Brokers.*\bt-0\b"),
        k.Inject(name="prefer", fault=k.PreferredElection(topic="t", partition=0)),
        k.Inject(name="bounce", fault=k.FastBounce(broker=BOUNCING)),
        client("before"),
        k.Tell(text="now the request to its earlier generation arrives, and the client asks again"),
        k.Heal(name="late"),
        client("after", tries=5),
        k.Tell(text="another controller tells every broker everything; the client asks again"),
        k.Inject(name="move", fault=k.MoveController()),
        client("told-anew"),
    )


def _a_follower_is_told() -> tuple[k.Step, ...]:
    return (
        *topic_with_a_record(_ALL),
        k.AwaitReplicated(topic="t", partition=0, brokers=_ALL, log_end_offset=1),
        k.Tell(text="broker 2 is down; an UpdateMetadata tells broker 1 so, and is late"),
        k.Inject(name="2-down", fault=k.KillBroker(broker=OTHER)),
        k.AwaitState(topic="t", partition=0, leader=CONTROLLER, isr=(CONTROLLER, BOUNCING)),
        k.Inject(
            name="late",
            fault=k.StaleRequest(api="UpdateMetadata", broker=BOUNCING, partitions=(("t", 0),)),
        ),
        k.Tell(text="broker 2 returns; broker 1 bounces and follows broker 0"),
        k.Heal(name="2-down"),
        k.AwaitState(topic="t", partition=0, leader=CONTROLLER, isr=_ALL),
        k.Inject(name="bounce", fault=k.FastBounce(broker=BOUNCING)),
        k.AwaitState(topic="t", partition=0, leader=CONTROLLER, isr=_ALL),
        k.AwaitFollowing(topic="t", partition=0, follower=BOUNCING, leader=CONTROLLER),
        k.Tell(text="now the request to its earlier generation arrives: broker 2 is dead, it says"),
        k.Heal(name="late"),
        k.Tell(text="preferred election: broker 2 leads; does broker 1 follow?"),
        k.Inject(name="prefer", fault=k.PreferredElection(topic="t", partition=0)),
        k.AwaitState(topic="t", partition=0, leader=OTHER),
        k.Produce(operation="m2", topic="t", partition=0, records=1, acks=1),
    )


_UNAVAILABLE = {
    "log": {"broker": BOUNCING, "pattern": r"cannot become follower since the new leader 2 is un"}
}


def _ended(operation: str, acknowledged: bool) -> Mapping[str, Any]:
    """Return the witness that the client's write was, or was not, acknowledged in the end."""
    return {
        "observed": {
            "kind": "wrote-where-told",
            "operation": operation,
            "acknowledged": acknowledged,
        }
    }


def _sent_to_an_old_leader(number: int) -> Mapping[str, Any]:
    """Return the witness that broker 1 named broker 0, which refused, and no broker 2."""
    return {
        "observed": {
            "kind": "told",
            "operation": "after",
            "number": number,
            "leader": CONTROLLER,
            "brokers": [CONTROLLER, BOUNCING],
            "fetch_error_code": 6,
            "produce_error_code": 6,
        }
    }


KIP_380_STALE_UPDATE_METADATA = k.Entry(
    name="KIP-380-stale-update-metadata",
    title="A bounced broker takes a live leader for dead, from an UpdateMetadata of before",
    story=(
        "While broker 2 was down, an UpdateMetadata said so to broker 1. Broker 2 is long back, "
        "and broker 1 has bounced, when the request arrives. Up to 2.1 broker 1 believes it: it "
        "tells clients that broker 2 is not there, and when broker 2 is elected, broker 1 does not "
        "follow a leader that it takes for dead (ReplicaManager.makeFollowers). The UpdateMetadata "
        "that comes right after mends the cache, but nobody repeats the LeaderAndIsr. (A "
        "reassignment does not show it: there the controller sends UpdateMetadata first.) From 2.2 "
        "on the late request is refused with STALE_BROKER_EPOCH (77). It is made by kchaos at the "
        "injection: the controller drops what it had still to send to a broker that it saw leave. "
        "A client that asks broker 1 is sent to the leader of before, which answers "
        "NOT_LEADER_FOR_PARTITION (6) to reads and writes; it gets the same answer each time it "
        "asks again, however long, since no timer repeats metadata. The next UpdateMetadata that "
        "names the partition ends it, after an election or a change of the ISR: here that of "
        "another controller."
    ),
    source="KIP-380, first assumption; measured on real brokers",
    cases={
        _FOLLOWER: "it leaves the leader out of the live brokers",
        _CLIENT: "it names a leader of before, and a client believes it",
    },
    cluster=bounced_cluster,
    steps=_steps,
    expectations={
        (_FOLLOWER, "2.1.1"): k.Expectation(
            safe=False,
            findings=(
                ("stale-request-accepted", (BOUNCING,), -1, -1),
                ("replication-stopped", (BOUNCING,), -1, -1),
            ),
            witness=(late_answer("UpdateMetadata", 0), _UNAVAILABLE),
        ),
        (_FOLLOWER, "2.2.2"): k.Expectation(
            safe=True, witness=(late_answer("UpdateMetadata", 77),)
        ),
        (_CLIENT, "2.1.1"): k.Expectation(
            safe=False,
            findings=(("stale-request-accepted", (BOUNCING,), -1, -1),),
            witness=(
                late_answer("UpdateMetadata", 0),
                _ended("before", True),
                _sent_to_an_old_leader(1),
                _sent_to_an_old_leader(5),
                _ended("after", False),
                _ended("told-anew", True),
            ),
        ),
        (_CLIENT, "2.2.2"): k.Expectation(
            safe=True,
            witness=(
                late_answer("UpdateMetadata", 77),
                _ended("before", True),
                _ended("after", True),
                _ended("told-anew", True),
            ),
        ),
    },
)
