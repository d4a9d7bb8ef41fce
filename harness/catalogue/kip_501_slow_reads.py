"""KIP-501: followers ask in time, their leader reads slowly, and the partition goes offline."""

import kchaos as k
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.harness.catalogue.kip_501 import (
    ALL,
    LEADER,
    MEASURED,
    begun,
    cluster_of,
    held_fetch,
    write,
)

_HELD, _DOCUMENT = "held-before-the-lock", "as-in-the-document"
_QUEUED, _ANSWERS = "held-by-a-handler", "answers-held-at-the-link"
_BROKERS = (1001, 1002, 1003)
_FOLLOWERS = tuple(sorted(ALL[1:]))
_NOT_LEADER = ErrorCode.NOT_LEADER_FOR_PARTITION.value
_ALONE = ({"operation": {"operation": "nobody", "error_code": _NOT_LEADER}},)


def _documented_cluster(kafka: str) -> k.ClusterSpec:
    """Return the document's brokers and lag, with the default wait of a fetch."""
    return cluster_of(
        kafka,
        _BROKERS,
        replica_lag_time_max_ms="10000",
        replica_fetch_wait_max_ms="500",
        # Ids above 1000 are those that brokers without one are given.
        reserved_broker_max_id="1003",
    )


def _dies_alone(leader: int, follower: int, told: str) -> tuple[k.Step, ...]:
    return (
        k.AwaitState(topic="t", partition=0, leader=leader, isr=(leader,)),
        k.Tell(text=told),
        k.Inject(name="down", fault=k.KillBroker(broker=leader)),
        k.AwaitDecision(topic="t", partition=0, leader=-1),
        # Nobody leads: the follower that is asked says so.
        write("nobody", acks=-1, broker=follower, accept_error=True, timeout_s=2),
    )


def _steps(case: str) -> tuple[k.Step, ...]:
    if case == _DOCUMENT:
        return _documented_steps()
    slow = {
        _HELD: _slow(k.SlowFetchReads(broker=LEADER, topic="t", partition=0)),
        _QUEUED: _slow(k.SlowFetchReads(broker=LEADER, where="request")),
        _ANSWERS: tuple(step for follower in ALL[1:] for step in _unanswered(follower)),
    }[case]
    return (
        *begun(),
        k.Tell(text="both followers ask, and get no answer"),
        *slow,
        k.Tell(text="a client writes to the leader; then the leader finds both followers slow"),
        write("alone", acks=1, records=2),
        # Fetches that wait for records are read by one thread, or by that of a write.
        *([k.AwaitHeld(name="slow", count=2)] if case != _ANSWERS else []),
        *_dies_alone(LEADER, ALL[1], "the leader dies; both followers run, and neither may lead"),
    )


def _slow(fault: k.SlowFetchReads) -> tuple[k.Step, ...]:
    return k.Inject(name="slow", fault=fault), k.AwaitHeld(name="slow")


def _unanswered(follower: int) -> tuple[k.Step, ...]:
    """Drop the leader's responses to the follower."""
    name = f"answers-{follower}"
    held = k.HoldRequests(
        name=name, api="Fetch", source=follower, target=LEADER, direction="response"
    )
    return k.Inject(name=name, fault=held), k.AwaitHeld(name=name)


def _documented_steps() -> tuple[k.Step, ...]:
    """Return the document's offsets: a fetch at 950 before 1002, one at 1002 before 98 more.

    The leader dies after it dropped its followers, which is within 15 of the 25 s.
    """
    leader = _BROKERS[0]
    slow = k.SlowFetchReads(broker=leader, delay_ms=25_000, topic="t", partition=0)
    return (
        *begun(_BROKERS),
        write("to-950", acks=-1, records=949),
        k.Tell(text="the followers fetch at 950, and the leader's log ends at 1002"),
        write("to-1002", acks=-1, records=52),
        k.Tell(text="they fetch at 1002, and the leader takes 25 s for that"),
        k.Inject(name="slow", fault=slow),
        k.AwaitHeld(name="slow"),
        write("to-1100", acks=1, records=98),
        k.AwaitHeld(name="slow", count=2),
        *_dies_alone(
            leader, _BROKERS[1], "the ISR is the leader alone, which dies before the 25 s are over"
        ),
    )


def _expected(
    leader: int, followers: tuple[int, ...], fate: str, point: str = "fetch-read"
) -> k.Expectation:
    kept = tuple(held_fetch(leader, follower, fate) for follower in followers)
    if point != "fetch-read":
        kept = ({"hit": {"point": point, "broker": leader, "fate": fate}},)
    return k.Expectation(
        safe=False,
        findings=(("offline-partition", followers, -1, -1),),
        witness=(*kept, *_ALONE, {"hit": {"point": "isr-check", "broker": leader, "fate": "told"}}),
    )


def _served() -> k.Expectation:
    answer = {"api": "Fetch", "direction": "response", "fate": "held", "target": LEADER}
    return k.Expectation(
        safe=True,
        witness=(
            *({"link": answer | {"source": follower}} for follower in _FOLLOWERS),
            *_ALONE,
            {"log": {"broker": LEADER, "pattern": "Shrinking ISR from .* to 1[. ]"}},
        ),
    )


KIP_501_SLOW_READS = k.Entry(
    name="KIP-501-slow-reads",
    title="A partition is offline although its followers fetched in time",
    story=(
        "Both followers ask their leader in time. It has read their requests from the network and "
        "is slow to read its log for them; the delay lies before it takes the partition's lock, so "
        "it takes writes with acks=1 and checks its ISR as usual. After replica.lag.time.max.ms it "
        "finds that both have not caught up, although they can do nothing but wait for its answer. "
        "It shrinks the ISR to itself. When it dies in that time no follower may lead: the "
        "partition is offline until the leader is back. The KIP was never merged, and no release "
        "behaves otherwise. Not every slow read does this: KIP-501-long-hang. The requests may "
        "wait for a handler thread, or only the answers may not arrive. Then the ISR shrinks all "
        "the same, and neither solution of the KIP would keep it: no fetch is pending in the "
        "leader's ReplicaManager then. With the answers the leader has done its part: nothing is "
        "found."
    ),
    source=MEASURED,
    cases={
        _HELD: "reads are held before they take the partition's lock; lag 3 s",
        _QUEUED: "requests are held before a handler thread looks at them; lag 3 s",
        _ANSWERS: "answers are held at the link; lag 3 s",
        _DOCUMENT: "brokers 1001 to 1003, offsets 950, 1002 and 1100, reads of 25 s, lag 10 s",
    },
    cluster=cluster_of,
    case_clusters={_DOCUMENT: _documented_cluster},
    steps=_steps,
    expectations={
        (case, release): expected
        for case, expected in (
            (_HELD, _expected(LEADER, _FOLLOWERS, "held")),
            (_QUEUED, _expected(LEADER, _FOLLOWERS, "held", point="fetch-request")),
            (_ANSWERS, _served()),
            (_DOCUMENT, _expected(_BROKERS[0], _BROKERS[1:], "delayed")),
        )
        for release in ("2.8.2", "3.9.1")
    },
    measured_only=(_QUEUED, _ANSWERS, _DOCUMENT),
)
