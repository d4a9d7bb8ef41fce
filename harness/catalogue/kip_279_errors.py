"""KIP-279, errors: a question for an epoch's end is not answered in time, or by an error."""

import kchaos as k
from kchaos.harness.catalogue.settings import quick_cluster
from kchaos.harness.catalogue.words import held

A, B, CONTROLLER = 0, 1, 2
_HELD, _FORGED = "held", "forged"
_FAILED = "Error when sending leader epoch request"
_TOLD_ERROR = "Retrying leaderEpoch request for partition t-0 as the leader reported an error"


def _steps(case: str) -> tuple[k.Step, ...]:
    return (*_BEFORE, *(_ANSWERS_HELD if case == _HELD else _ANSWERS_FORGED))


_BEFORE: tuple[k.Step, ...] = (
    k.CreateTopic(topic="t", assignment=((A, B),)),
    k.Tell(text="A leads; 0-10 are on both, 11-20 on A alone"),
    k.Produce(operation="both", topic="t", partition=0, records=11, acks=-1),
    k.AwaitReplicated(topic="t", partition=0, brokers=(A, B), log_end_offset=11),
    k.AwaitHighWatermark(topic="t", partition=0, brokers=(A, B), high_watermark=11),
    k.Inject(name="A-B", fault=k.CutLink(source=A, target=B)),
    k.Produce(operation="a-only", topic="t", partition=0, records=10, acks=1),
    k.Inject(name="A-down", fault=k.KillBroker(broker=A)),
    k.AwaitState(topic="t", partition=0, leader=B, isr=(B,)),
    k.Heal(name="A-B"),
    k.Produce(operation="b-only", topic="t", partition=0, records=3, acks=1),
)
_ANSWERS_HELD: tuple[k.Step, ...] = (
    k.Tell(text="A returns, and B's answers to it are held"),
    held("answers", "OffsetForLeaderEpoch", source=A, target=B, direction="response"),
    k.Heal(name="A-down"),
    k.Tell(text="three times A gives up waiting; has it truncated to its high watermark?"),
    k.AwaitHeld(name="answers", count=3),
    k.AwaitLog(broker=A, pattern=_FAILED, count=2),
    k.AwaitReplicated(topic="t", partition=0, brokers=(A,), log_end_offset=21),
)
_ANSWERS_FORGED: tuple[k.Step, ...] = (
    k.Tell(text="A returns, and each answer of B reaches it as an error"),
    k.Inject(
        name="answers",
        fault=k.ForgeAnswers(name="answers", source=A, target=B, error="NOT_LEADER_FOR_PARTITION"),
    ),
    k.Heal(name="A-down"),
    k.Tell(text="A gets three errors; has it truncated to its high watermark?"),
    k.AwaitLog(broker=A, pattern=_TOLD_ERROR, count=3),
    k.AwaitReplicated(topic="t", partition=0, brokers=(A,), log_end_offset=21),
)


def _asked_again(pattern: str, fate: str) -> tuple[dict[str, dict[str, object]], ...]:
    answer = {"api": "OffsetForLeaderEpoch", "direction": "response", "source": A, "target": B}
    untouched = {"snapshot": "before-healing", "broker": A, "partition": "t-0", "starts": [0]}
    return (
        {"log": {"broker": A, "pattern": pattern}},
        {"link": {**answer, "fate": fate}},
        {"epochs": untouched},
        {"round": {"follower": A, "leader": B, "end_offset": 11}},
    )


KIP_279_ERRORS = k.Entry(
    name="KIP-279-errors",
    title="A question for an epoch's end that fails is asked again",
    story=(
        "KIP-279 says that any error of OffsetForLeaderEpoch, a time-out included, falls back to "
        "truncating to the high watermark. The shipped code does not: an error is no answer, the "
        "partition waits for replica.fetch.backoff.ms, and the follower asks again. Here B's "
        "answers are held until A has given up three times, or reach it as an error three times; "
        "A's log still ends at 21 then, and not at 11, its high watermark. Once an answer gets "
        "through it truncates to 11, as the answer says."
    ),
    source=(
        "KIP-279, Proposed Changes; kafka.server.ReplicaFetcherThread.fetchEpochsFromLeader, 2.0.1"
    ),
    cases={
        _HELD: "the answers are held for longer than the follower waits",
        _FORGED: "the link puts NOT_LEADER_FOR_PARTITION in the place of each answer",
    },
    cluster=quick_cluster(A, B, controller=CONTROLLER),
    steps=_steps,
    expectations={
        (_HELD, "2.0.1"): k.Expectation(safe=True, witness=_asked_again(_FAILED, "held")),
        (_FORGED, "2.0.1"): k.Expectation(safe=True, witness=_asked_again(_TOLD_ERROR, "forged")),
    },
)
