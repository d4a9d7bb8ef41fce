"""KAFKA-7601's fix: a leader that writes the new format again knows no epoch of what is older."""

import kchaos as k
from kchaos.clusters.releases import release_of

N, O, M, CONTROLLER = 0, 1, 2, 3  # noqa: E741 - O is the broker of the old format
_FORMAT = "log.message.format.version"
_NEW, _OLD = {_FORMAT: "0.11.0"}, {_FORMAT: "0.10.2"}
_ALL = (N, O, M)
_CASE = "sessions-end"


def _cluster(kafka: str) -> k.ClusterSpec:
    formats = {N: _NEW, O: _OLD, M: _NEW, CONTROLLER: _NEW}
    return k.ClusterSpec(
        brokers=tuple(
            k.BrokerSpec(id=broker, kafka=kafka, properties=properties)
            for broker, properties in formats.items()
        ),
        first_broker=CONTROLLER,
        # A broker that is cut off shall not lose its session before the scenario ends it.
        properties={**k.QUICK, "zookeeper.session.timeout.ms": "18000"},
    )


def _without_session(broker: int, name: str) -> tuple[k.Step, ...]:
    return (
        k.Inject(name=f"{name}-ZooKeeper", fault=k.CutZooKeeper(broker=broker)),
        k.Inject(name=f"{name}-session", fault=k.ExpireSession(broker=broker, await_return=False)),
    )


def _with_session(name: str) -> tuple[k.Step, ...]:
    return k.Heal(name=f"{name}-session"), k.Heal(name=f"{name}-ZooKeeper")


def _write(operation: str, leader: int, *, records: int = 1, acks: int = -1) -> k.Produce:
    return k.Produce(
        operation=operation, topic="t", partition=0, records=records, acks=acks, broker=leader
    )


def _steps(case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=(_ALL,)),
        k.Tell(text="N writes 0 and 1 in the new format"),
        _write("new", N, records=2),
        k.AwaitReplicated(topic="t", partition=0, brokers=_ALL, log_end_offset=2),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=_ALL, high_watermark=2),
        k.Tell(text="N's session ends, and O leads; O writes 2 in the old format, and N another 2"),
        *_without_session(N, "N"),
        k.AwaitState(topic="t", partition=0, leader=O, isr=(O, M)),
        _write("n-only", N, acks=1),
        _write("old", O),
        k.AwaitReplicated(topic="t", partition=0, brokers=_ALL, log_end_offset=3),
        k.Tell(text="O's session ends, and M leads; it writes 3 in the new format"),
        *_without_session(O, "O"),
        k.AwaitState(topic="t", partition=0, leader=M, isr=(M,)),
        _write("new-again", M),
        k.Tell(text="N is back, and asks M where the epoch of 0 and 1 ended"),
        *_with_session("N"),
        k.AwaitReplicated(topic="t", partition=0, brokers=(N,), log_end_offset=4),
        *_with_session("O"),
    )


def _cannot_show(case: str, release: str) -> str:
    if (2, 7) <= release_of(release).number[:2] < (3, 0):
        return (
            f"at {release}'s own protocol nobody follows O's old format (KAFKA-7601-mixed-default)"
        )
    return ""


_SOURCE = (
    "found by a random run of 2.2.2; kafka.server.epoch.LeaderEpochFileCache.endOffsetFor and "
    "kafka.log.Log.append, 2.2.2 and 2.6.3; measured on real brokers"
)
_ANSWERED = {"round": {"follower": N, "leader": M, "end_offset": 3}}
_CLEARED = {
    "log": {
        "broker": M,
        "pattern": "Clearing leader epoch cache after unexpected append with message format v1",
    }
}
_RED = k.Expectation(
    safe=False, findings=(("divergence", (N, M), 2, 2),), witness=(_ANSWERED, _CLEARED)
)
# From protocol 3.0 on brokers ignore the setting (KIP-724), so that O's record has an epoch.
_GREEN = k.Expectation(
    safe=True,
    witness=({"round": {"follower": N, "leader": M, "end_offset": 2}},),
    source=f"{_SOURCE}; KIP-724",
)

KAFKA_7601_NEW_FORMAT_AGAIN = k.Entry(
    name="KAFKA-7601-new-format-again",
    title="A leader of the new format answers where its own epoch begins, behind an old format",
    story=(
        "N and M write a format with leader epochs, O an older one without, as during a rolling "
        "upgrade of the format. N writes 0 and 1. Its session ends and O leads, which writes 2. N "
        "does not know that yet, and has another record at 2. The fix of KAFKA-7601, in 2.2.1, "
        "empties M's epoch cache at O's record. Then M leads, and the cache begins with M's own "
        "epoch, at 3. N comes back and asks where the epoch of 0 and 1 ended. M takes an epoch "
        "below all that it knows for one whose records are deleted, and answers with the start of "
        "the first one, 3. So N keeps its record at 2. Every election is clean, and no process "
        "ends. From protocol 3.0 on brokers ignore the setting."
    ),
    source=_SOURCE,
    cases={_CASE: "sessions end and come back; every broker's process goes on"},
    cannot_show=_cannot_show,
    cluster=_cluster,
    steps=_steps,
    expectations={
        **dict.fromkeys([(_CASE, "2.2.2"), (_CASE, "2.6.3")], _RED),
        (_CASE, "3.0.2"): _GREEN,
    },
)
