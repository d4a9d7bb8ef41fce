"""KIP-279 under an older inter-broker protocol: the fix is in the jar, and not in the requests."""

import kchaos as k
from kchaos.harness.catalogue.kip_279_3 import KIP_279_3
from kchaos.harness.catalogue.words import at_link

A, B, CONTROLLER = 0, 1, 2
_BEFORE, _AFTER = "1.1.1", "2.0.1"
_PROTOCOL = "inter.broker.protocol.version"
_OLD, _OWN = "protocol-1.1", "own-protocol"
_RIGHT, _WRONG = "rolled-as-told", "rolled-without-protocol"


def _cluster(kafka: str, **more: str) -> k.ClusterSpec:
    return k.ClusterSpec(
        brokers=k.brokers_of(kafka, (A, B, CONTROLLER)),
        first_broker=CONTROLLER,
        properties={**k.QUICK, "unclean.leader.election.enable": "true", **more},
    )


def _of_old_protocol(kafka: str) -> k.ClusterSpec:
    return _cluster(kafka, **{_PROTOCOL: "1.1"})


def _to_be_rolled(_kafka: str) -> k.ClusterSpec:
    return _cluster(_BEFORE)


def _rolled(*settings: tuple[str, str], kafka: str = "") -> tuple[k.Step, ...]:
    """Roll every broker in turn; A leads again at the end."""
    steps: list[k.Step] = []
    for broker, leader in ((CONTROLLER, A), (A, B), (B, A)):
        change = k.RollBroker(broker=broker, properties=settings, kafka=kafka)
        steps.append(k.Inject(name=f"roll-{broker}", fault=change))
        isr = (A, B) if leader == A else (B, A)
        steps.append(k.AwaitState(topic="t", partition=0, leader=leader, isr=isr))
    return tuple(steps)


# Whoever was the controller before: while A and B are both away it is none of them. Up to 2.2 a new
# controller leaves a partition as it is whose leader died with the one before.
_CONTROLLER_AGAIN: tuple[k.Step, ...] = (
    k.Inject(name="B-away", fault=k.StopBroker(broker=B)),
    k.AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
    k.Inject(name="A-away", fault=k.StopBroker(broker=A)),
    k.Heal(name="A-away"),
    k.AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
    k.Heal(name="B-away"),
    k.AwaitState(topic="t", partition=0, leader=A, isr=(A, B)),
)
_SCHEDULE = KIP_279_3.steps("common-epoch")
_COMMON = next(index for index, step in enumerate(_SCHEDULE) if isinstance(step, k.Inject))


def _steps(case: str) -> tuple[k.Step, ...]:
    if case in (_OLD, _OWN):
        return _SCHEDULE
    if case == _RIGHT:
        return (
            *_SCHEDULE[: _COMMON - 1],
            k.Tell(
                text="every broker is restarted with the new jar, and speaks what the old one did"
            ),
            *_rolled((_PROTOCOL, "1.1"), kafka=_AFTER),
            k.Tell(text="every broker is restarted once more, and speaks its own protocol"),
            *_rolled((_PROTOCOL, "2.0")),
            *_CONTROLLER_AGAIN,
            *_SCHEDULE[_COMMON - 1 :],
        )
    return (
        k.CreateTopic(topic="t", assignment=((A, B),)),
        k.Produce(operation="common", topic="t", partition=0, records=1, acks=-1),
        k.AwaitReplicated(topic="t", partition=0, brokers=(A, B), log_end_offset=1),
        k.Tell(text="B is restarted with the new jar and at once speaks its own protocol"),
        k.Inject(name="roll-B", fault=k.RollBroker(broker=B, kafka=_AFTER)),
        k.AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
        k.Tell(text="A, with the old jar, writes: does B get it?"),
        k.Produce(operation="later", topic="t", partition=0, records=1, acks=1),
    )


_SOURCE = "KIP-279, Compatibility, Deprecation, and Migration Plan"


def _asked(version: int) -> dict[str, dict[str, object]]:
    return at_link("OffsetForLeaderEpoch", "request", A, B, api_version=version)


def _answered(**fields: int) -> dict[str, dict[str, int]]:
    return {"round": {"follower": A, "leader": B, **fields}}


_REFUSED = {
    "log": {
        "broker": A,
        "pattern": "Error getting request for apiKey: OFFSET_FOR_LEADER_EPOCH, apiVersion: 1",
    }
}
_TWO_ROUNDS = (_asked(1), _answered(end_offset=2), _answered(end_offset=1))

KIP_279_OLD_PROTOCOL = k.Entry(
    name="KIP-279-old-protocol",
    title="The fixed jar under an old inter-broker protocol diverges as before",
    story=(
        "The epoch in the answer to OffsetForLeaderEpoch is a new field of version 1, and a broker "
        "asks with that version only from inter-broker protocol 2.0 on. So one jar gives both "
        "verdicts of KIP-279's scenario 3. The KIP's migration plan is two rolling restarts, "
        "first the jar under the old protocol, then the protocol. Who raises the protocol with "
        "the jar has a follower that asks an old leader in versions that it does not know."
    ),
    source=_SOURCE,
    cases={
        _OLD: "inter.broker.protocol.version is 1.1",
        _OWN: "the same jar with its own protocol",
        _RIGHT: f"a cluster of {_BEFORE}, rolled twice as the KIP says",
        _WRONG: f"a cluster of {_BEFORE}, of which one broker is upgraded, protocol included",
    },
    cluster=_cluster,
    case_clusters={_OLD: _of_old_protocol, _RIGHT: _to_be_rolled, _WRONG: _to_be_rolled},
    steps=_steps,
    expectations={
        (_OLD, _AFTER): k.Expectation(
            safe=False,
            findings=(("divergence", (A, B), 1, 1),),
            witness=(_asked(0), _answered(end_offset=2)),
        ),
        (_OWN, _AFTER): k.Expectation(safe=True, witness=_TWO_ROUNDS),
        (_RIGHT, _AFTER): k.Expectation(safe=True, witness=_TWO_ROUNDS),
        (_WRONG, _AFTER): k.Expectation(
            safe=False,
            findings=(("replication-stopped", (B,), -1, -1),),
            witness=(_REFUSED,),
            source=f"{_SOURCE}; kafka.network.RequestChannel.Request, {_BEFORE}",
        ),
    },
)
