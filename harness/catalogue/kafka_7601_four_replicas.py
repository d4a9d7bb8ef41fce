"""KAFKA-7601, issue 2 with four replicas: the schedule that 2.0.1 to 2.2.0 still diverge on."""

import kchaos as k
from kchaos.clusters.releases import release_of

CONTROLLER, P, Q, L, F = 0, 1, 2, 3, 4
_OLD = {"log.message.format.version": "0.10.2"}
_NEW = {"log.message.format.version": "0.11.0"}
_ALL = (P, Q, L, F)
_KILLED, _STOPPED = "follower-killed", "follower-stopped"
_PROTOCOL_2_6 = "follower-killed-at-2.6"


def _cluster(kafka: str, **more: str) -> k.ClusterSpec:
    return k.ClusterSpec(
        brokers=(
            k.BrokerSpec(id=CONTROLLER, kafka=kafka),
            k.BrokerSpec(id=P, kafka=kafka, properties=_OLD),
            k.BrokerSpec(id=Q, kafka=kafka, properties=_OLD),
            k.BrokerSpec(id=L, kafka=kafka, properties=_NEW),
            k.BrokerSpec(id=F, kafka=kafka, properties=_NEW),
        ),
        first_broker=CONTROLLER,
        properties={**k.QUICK, **more},
    )


def _at_2_6(kafka: str) -> k.ClusterSpec:
    return _cluster(kafka, **{"inter.broker.protocol.version": "2.6"})


def _steps(case: str) -> tuple[k.Step, ...]:
    end = k.StopBroker(broker=F) if case == _STOPPED else k.KillBroker(broker=F)
    return (
        k.CreateTopic(topic="t", assignment=(_ALL,)),
        k.Tell(
            text="P and Q are down for a moment, so that L leads; it writes 0-4 in the new format"
        ),
        k.Inject(name="P-away", fault=k.StopBroker(broker=P)),
        k.AwaitState(topic="t", partition=0, leader=Q),
        k.Inject(name="Q-away", fault=k.StopBroker(broker=Q)),
        k.AwaitState(topic="t", partition=0, leader=L, isr=(L, F)),
        k.Heal(name="P-away"),
        k.AwaitState(topic="t", partition=0, isr=(L, F, P)),
        k.Heal(name="Q-away"),
        k.AwaitState(topic="t", partition=0, isr=(L, F, P, Q)),
        k.Produce(operation="new", topic="t", partition=0, records=5, acks=-1),
        k.AwaitReplicated(topic="t", partition=0, brokers=_ALL, log_end_offset=5),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=_ALL, high_watermark=5),
        k.Tell(text="P is preferred, leads, and writes 5 and 6 in the old format"),
        k.Inject(name="elect-P", fault=k.PreferredElection(topic="t", partition=0)),
        k.AwaitState(topic="t", partition=0, leader=P),
        k.Produce(operation="old", topic="t", partition=0, records=2, acks=-1),
        k.AwaitReplicated(topic="t", partition=0, brokers=_ALL, log_end_offset=7),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=_ALL, high_watermark=7),
        k.Tell(text="7-9 of P reach F alone; both go down, and Q, in the ISR, is elected"),
        k.Inject(name="P-Q", fault=k.CutLink(source=P, target=Q)),
        k.Inject(name="P-L", fault=k.CutLink(source=P, target=L)),
        k.Produce(operation="p-only", topic="t", partition=0, records=3, acks=1),
        k.AwaitReplicated(topic="t", partition=0, brokers=(F,), log_end_offset=10),
        k.Inject(name="F-down", fault=end),
        k.AwaitState(topic="t", partition=0, leader=P, isr=(P, Q, L)),
        k.Inject(name="P-down", fault=k.KillBroker(broker=P)),
        k.AwaitState(topic="t", partition=0, leader=Q, isr=(Q, L)),
        k.Heal(name="P-Q"),
        k.Heal(name="P-L"),
        k.Tell(text="Q writes 7-9 in the old format, then L 10 and 11 in the new one"),
        k.Produce(operation="q", topic="t", partition=0, records=3, acks=1),
        k.AwaitReplicated(topic="t", partition=0, brokers=(Q, L), log_end_offset=10),
        k.Inject(name="Q-down", fault=k.StopBroker(broker=Q)),
        k.AwaitState(topic="t", partition=0, leader=L, isr=(L,)),
        k.Produce(operation="l", topic="t", partition=0, records=2, acks=1),
        k.Tell(text="F returns and asks L where the epoch of 0-4 ended"),
        k.Heal(name="F-down"),
    )


def _cannot_show(case: str, release: str) -> str:
    if release_of(release) < release_of("2.7.0"):
        is_old = case == _PROTOCOL_2_6
        return f"protocol 2.6 is no older one for {release}; use --case {_KILLED}" if is_old else ""
    if case == _PROTOCOL_2_6:
        return ""
    return (
        f"at {release}'s own protocol nobody follows P's old format (KAFKA-7601-mixed-default), so "
        f"records 5 and 6 are never committed; use --case {_PROTOCOL_2_6}"
    )


_SOURCE = "KAFKA-7601, issue 2 (fixed in 2.2.1); measured on real brokers"

_CLEARED = "Clearing leader epoch cache after unexpected append with message format v1"
_DIVERGED = (("divergence", (L, F), 7, 9),)
_ANSWERED = {"round": {"follower": F, "leader": L, "end_offset": 10}}


def _epochs_of(broker: int, *starts: int) -> dict[str, dict[str, object]]:
    return {
        "epochs": {
            "snapshot": "final",
            "broker": broker,
            "partition": "t-0",
            "starts": list(starts),
        }
    }


_RED = k.Expectation(safe=False, findings=_DIVERGED, witness=(_ANSWERED,))
_RED_IN_SPITE_OF_THE_FIX = k.Expectation(
    safe=False,
    findings=_DIVERGED,
    witness=(_ANSWERED, {"log": {"broker": L, "pattern": _CLEARED}}),
    source=f"{_SOURCE}; kafka.log.LogSegment.recover, 2.2.1, 2.3.1 and 2.8.2",
)

KAFKA_7601_FOUR_REPLICAS = k.Entry(
    name="KAFKA-7601-four-replicas",
    title="Two leaders that write an old format leave no epoch, and a follower keeps their past",
    story=(
        "P and Q write an old format, L and F one with leader epochs. L writes 0-4, then P leads "
        "and writes 5 and 6, and 7-9 that only F gets. Both go down, Q leads and writes other "
        "records at 7-9, then L leads again. What P and Q wrote has no epoch, so on L the epoch of "
        "0-4 goes on until L's next one, at 10. F comes back, asks where that epoch ended, gets "
        "10, and keeps P's 7-9. Every election is clean. The fix, in 2.2.1, empties the epoch "
        "cache at each record in an old format, so that L knows nothing below 10 and F asks for "
        "nothing: it truncates to its high watermark, 7. The fix does not survive an unclean stop: "
        "the next start recovers the segment, puts the epoch of 0-4 back from the batches, and F "
        "asks for it; on L the epoch is gone, but the answer is the start of a later one."
    ),
    source=_SOURCE,
    cases={
        _KILLED: "F is killed: its next start rebuilds epochs from the log",
        _STOPPED: "F is stopped cleanly",
        _PROTOCOL_2_6: "F is killed; brokers speak protocol 2.6, at which an old format can lead",
    },
    cannot_show=_cannot_show,
    cluster=_cluster,
    case_clusters={_PROTOCOL_2_6: _at_2_6},
    steps=_steps,
    expectations={
        **dict.fromkeys([(_KILLED, "2.0.1"), (_KILLED, "2.1.1"), (_STOPPED, "2.2.0")], _RED),
        (_STOPPED, "2.2.1"): k.Expectation(
            safe=True,
            witness=(
                {"log": {"broker": L, "pattern": _CLEARED}},
                _epochs_of(L, 10),
                {"log": {"broker": F, "pattern": r"[Tt]runcat\w+ .*to( offset)? 7\b"}},
            ),
        ),
        **dict.fromkeys(
            [(_KILLED, "2.2.1"), (_KILLED, "2.3.1"), (_PROTOCOL_2_6, "2.8.2")],
            _RED_IN_SPITE_OF_THE_FIX,
        ),
    },
    default_releases=("2.1.1", "2.2.0", "2.2.1"),
)
