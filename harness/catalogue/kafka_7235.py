"""KAFKA-7235: a late LeaderAndIsr makes a broker forget its high watermarks, and records go."""

from collections.abc import Mapping

import kchaos as k
from kchaos.harness.catalogue.kip_380_bounced import late_answer
from kchaos.harness.catalogue.words import held

CONTROLLER, BOUNCING, OTHER = 0, 1, 2
_OLD, _NEW_CONTROLLER, _OWN = "protocol-0.10.2", "new-controller", "own-protocol"
_PROTOCOL_0_10_2 = {
    "inter.broker.protocol.version": "0.10.2",
    "log.message.format.version": "0.10.2",
}


def _cluster(kafka: str, more: Mapping[str, str] | None = None) -> k.ClusterSpec:
    # The controller stands still for longer than others' sessions live.
    patient = {"zookeeper.session.timeout.ms": "40000"}
    return k.ClusterSpec(
        brokers=(
            k.BrokerSpec(id=CONTROLLER, kafka=kafka, properties=patient),
            k.BrokerSpec(id=BOUNCING, kafka=kafka),
            k.BrokerSpec(id=OTHER, kafka=kafka),
        ),
        first_broker=CONTROLLER,
        properties={**k.QUICK, **(more or {})},
    )


_LOOKED = r"Newly added brokers: , deleted brokers: , (bounced brokers: 1, )?all live brokers"
"""The controller has looked at the registrations, and 2.2 has noticed the bounce."""


def _news(case: str) -> tuple[k.Step, ...]:
    """Return steps after which a controller informs broker 1 of all its partitions."""
    goes_on, elect = (k.Heal(name="still"), k.Inject(name="elect", fault=k.MoveController()))
    if case == _NEW_CONTROLLER:
        return (
            k.Tell(text="another broker becomes the controller, and tells broker 1 of u as well"),
            elect,
            goes_on,
        )
    return (
        k.Tell(text="the controller goes on: does it notice? Then a new one tells broker 1 of u"),
        goes_on,
        k.AwaitLog(broker=CONTROLLER, pattern=_LOOKED),
        k.IfPossible(do=k.AwaitDecision(topic="u", partition=0, isr=(OTHER,), timeout_s=3)),
        elect,
    )


def _steps(case: str) -> tuple[k.Step, ...]:
    both = (BOUNCING, OTHER)
    return (
        k.CreateTopic(topic="t", assignment=(both,)),
        k.CreateTopic(topic="u", assignment=((OTHER, BOUNCING),)),
        k.Tell(text="five records of u are committed on brokers 1 and 2"),
        k.Produce(operation="m", topic="u", partition=0, records=5, acks=-1),
        k.AwaitReplicated(topic="u", partition=0, brokers=both, log_end_offset=5),
        k.AwaitHighWatermark(topic="u", partition=0, brokers=both, high_watermark=5),
        k.Tell(text="a LeaderAndIsr for broker 1 names t alone, and is late"),
        k.Inject(
            name="late",
            fault=k.StaleRequest(api="LeaderAndIsr", broker=BOUNCING, partitions=(("t", 0),)),
        ),
        k.Tell(text="the controller stands still while broker 1 bounces"),
        k.Inject(name="still", fault=k.PauseBroker(broker=CONTROLLER)),
        k.Inject(name="1-down", fault=k.KillBroker(broker=BOUNCING)),
        k.Heal(name="1-down"),
        held("fetches", "Fetch", source=BOUNCING, target=OTHER),
        k.Tell(text="the late request is the first that the new process gets"),
        k.Heal(name="late"),
        k.IfPossible(
            do=k.AwaitHighWatermarkForgotten(broker=BOUNCING, topic="u", partition=0, timeout_s=4)
        ),
        *_news(case),
        k.AwaitFollowing(topic="u", partition=0, follower=BOUNCING, leader=OTHER),
        k.AwaitHeld(name="fetches"),
        k.Tell(text="broker 2 dies: is broker 1 elected, and what does it have?"),
        k.Inject(name="2-down", fault=k.KillBroker(broker=OTHER)),
        k.AwaitLeader(),
        k.Heal(name="fetches"),
        k.Heal(name="2-down"),
    )


_OBEYED, _REFUSED = late_answer("LeaderAndIsr", 0), late_answer("LeaderAndIsr", 77)
_FORGOTTEN = {"observed": {"kind": "high-watermark-forgotten", "broker": BOUNCING, "topic": "u"}}
_KEPT = {"observed": {"kind": "not-possible", "name": "AwaitHighWatermarkForgotten"}}
_ACCEPTED = ("stale-request-accepted", (BOUNCING,), -1, -1, "t")

KAFKA_7235 = k.Entry(
    name="KAFKA-7235",
    title="Acknowledged records are lost by a clean election after a late first LeaderAndIsr",
    story=(
        "Broker 1 bounces while the controller stands still, and the first LeaderAndIsr that its "
        "new process gets is an older one that names t alone. The broker then writes its "
        "checkpoint of high watermarks anew, without u. When it hears of u, the high watermark of "
        "u begins at 0. At inter-broker protocol 0.10.2 a follower truncates to its high "
        "watermark: all of u goes on broker 1. Up to 2.1 the controller has missed the bounce, so "
        "broker 1 is still in the ISR; broker 2 dies before broker 1 can fetch, broker 1 is "
        "elected cleanly, and five records that were acknowledged with acks=all are gone on both. "
        "From 0.11 on a follower asks for the end of its leader epoch instead, so that only the "
        "high watermark is lost. 2.2.2 at its own protocol refuses the late request (77). At "
        "protocol 0.10.2 it obeys, since the request says nothing of a generation, and truncates; "
        "but its controller notices the bounce, for which it needs no protocol: broker 1 is out of "
        "the ISR, is not elected, and u waits for broker 2. That lasts no longer than the "
        "controller: a new one knows no registration of before, takes broker 1 for one that never "
        "left, and the records are lost on 2.2.2 as well. Fetches of broker 1 are held at the "
        "link; the late request is made by kchaos, since the controller stands still."
    ),
    source="KAFKA-7235 (fixed in 2.2.0 by KIP-380); measured on real brokers",
    cases={
        _OWN: "at the release's own protocol",
        _OLD: "at inter-broker protocol and message format 0.10.2",
        _NEW_CONTROLLER: "the same, and the controller that stood still is deposed",
    },
    cluster=_cluster,
    case_clusters=dict.fromkeys(
        (_OLD, _NEW_CONTROLLER), lambda kafka: _cluster(kafka, _PROTOCOL_0_10_2)
    ),
    steps=_steps,
    expectations={
        (case, release): k.Expectation(
            safe=False,
            findings=(_ACCEPTED, ("committed-loss", (BOUNCING, OTHER), 0, 4, "u")),
            witness=(_OBEYED, _FORGOTTEN),
        )
        for case, release in (
            (_OLD, "2.1.1"),
            (_NEW_CONTROLLER, "2.1.1"),
            (_NEW_CONTROLLER, "2.2.2"),
        )
    }
    | {
        (_OWN, "2.1.1"): k.Expectation(
            safe=False, findings=(_ACCEPTED,), witness=(_OBEYED, _FORGOTTEN)
        ),
        (_OLD, "2.2.2"): k.Expectation(
            safe=False,
            findings=(_ACCEPTED,),
            witness=(
                _OBEYED,
                _FORGOTTEN,
                {"log": {"broker": CONTROLLER, "pattern": r"bounced brokers: 1\b"}},
            ),
        ),
        (_OWN, "2.2.2"): k.Expectation(safe=True, witness=(_REFUSED, _KEPT)),
    },
)
