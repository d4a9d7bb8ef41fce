"""KIP-380, compatibility: until brokers have been rolled twice nobody names a generation."""

from collections.abc import Mapping

import kchaos as k
from kchaos.clusters.releases import release_of
from kchaos.harness.catalogue.kip_380_bounced import (
    BOUNCED,
    BOUNCING,
    CONTROLLER,
    OTHER,
    bounced_cluster,
    late_answer,
    topic_with_a_record,
)
from kchaos.harness.catalogue.words import at_link

_FIRST, _SECOND, _UNKNOWN = "first-roll", "second-roll", "epoch-unknown"
_TWO_ROLLS, _SKIPPED, _REVERSE = "two-rolls", "roll-skipped", "roll-skipped-old-controller"
_BEFORE, _AFTER = "2.1.1", "2.2.2"
_AT_2_1 = (("inter.broker.protocol.version", "2.1"),)
_AT_2_2 = (("inter.broker.protocol.version", "2.2"),)
_FIXED = (_TWO_ROLLS, _SKIPPED, _REVERSE)


def _cluster(kafka: str, protocol: str = "2.2") -> k.ClusterSpec:
    return bounced_cluster(kafka, {"inter.broker.protocol.version": protocol})


def _all_before(_kafka: str) -> k.ClusterSpec:
    return k.ClusterSpec(
        brokers=k.brokers_of(_BEFORE, (BOUNCING, OTHER)), first_broker=OTHER, properties=BOUNCED
    )


def _new_beside_old(_kafka: str) -> k.ClusterSpec:
    """Return broker 0 on the new release, and broker 1 on the old one as the first controller."""
    return k.ClusterSpec(
        brokers=(
            k.BrokerSpec(id=CONTROLLER, kafka=_AFTER),
            k.BrokerSpec(id=BOUNCING, kafka=_BEFORE),
        ),
        first_broker=BOUNCING,
        properties=BOUNCED,
    )


def _old_controller(_kafka: str) -> k.ClusterSpec:
    """Return broker 1 on the new release and its protocol, and the others on the old one."""
    own = {
        **dict(_AT_2_2),
        "controlled.shutdown.enable": "true",
        "controlled.shutdown.retry.backoff.ms": "200",
    }
    return k.ClusterSpec(
        brokers=(
            k.BrokerSpec(id=CONTROLLER, kafka=_BEFORE),
            k.BrokerSpec(id=BOUNCING, kafka=_AFTER, properties=own),
            k.BrokerSpec(id=OTHER, kafka=_BEFORE),
        ),
        first_broker=CONTROLLER,
        properties=BOUNCED,
    )


def _topic() -> tuple[k.Step, ...]:
    return topic_with_a_record((OTHER, BOUNCING))


def _late(fault: k.StaleRequest) -> tuple[k.Step, ...]:
    """Bounce broker 1, and send it a request to its earlier generation once it is in sync."""
    return (
        k.Tell(text="a StopReplica for broker 1 is made, and is late"),
        k.Inject(name="late", fault=fault),
        k.Inject(name="bounce", fault=k.FastBounce(broker=BOUNCING)),
        k.AwaitState(topic="t", partition=0, leader=OTHER, isr=(OTHER, BOUNCING)),
        k.AwaitFollowing(topic="t", partition=0, follower=BOUNCING, leader=OTHER),
        k.AwaitReplicated(topic="t", partition=0, brokers=(OTHER, BOUNCING), log_end_offset=1),
        k.Tell(text="broker 1 has bounced and follows; now the request arrives"),
        k.Heal(name="late"),
        k.Produce(operation="m2", topic="t", partition=0, records=1, acks=1),
    )


_STOP = k.StaleRequest(api="StopReplica", broker=BOUNCING, partitions=(("t", 0),))
_WITHOUT = k.StaleRequest(
    api="StopReplica", broker=BOUNCING, partitions=(("t", 0),), version=1, epoch="unknown"
)


def _rolls() -> tuple[k.Step, ...]:
    """Roll as the document says: new binaries at the old protocol, then the new protocol."""
    first = [
        k.Inject(
            name=f"binary-{broker}",
            fault=k.RollBroker(broker=broker, kafka=_AFTER, properties=_AT_2_1),
        )
        for broker in (BOUNCING, OTHER)
    ]
    second = [
        k.Inject(name=f"protocol-{broker}", fault=k.RollBroker(broker=broker, properties=_AT_2_2))
        for broker in (BOUNCING, OTHER)
    ]
    return (
        k.Tell(text="the first roll: 2.2.2 at protocol 2.1"),
        *first,
        k.Tell(text="the second roll: protocol 2.2"),
        *second,
        k.AwaitState(topic="t", partition=0, isr=(OTHER, BOUNCING)),
    )


def _skipped() -> tuple[k.Step, ...]:
    return (
        *topic_with_a_record((BOUNCING,)),
        k.Tell(text="broker 0 goes to protocol 2.2 at once, and becomes the controller"),
        k.Inject(name="protocol", fault=k.RollBroker(broker=CONTROLLER, properties=_AT_2_2)),
        k.Inject(name="1-down", fault=k.KillBroker(broker=BOUNCING)),
        k.Tell(text="broker 1, still on 2.1.1, returns: does it understand its controller?"),
        k.Heal(name="1-down"),
        k.AwaitMessage(
            api="UpdateMetadata",
            source=CONTROLLER,
            target=BOUNCING,
            fates=("passed", "abandoned"),
            says=(("controller_id", CONTROLLER),),
            count=2,
        ),
    )


def _reverse() -> tuple[k.Step, ...]:
    return (
        *topic_with_a_record((BOUNCING, OTHER)),
        k.AwaitReplicated(topic="t", partition=0, brokers=(BOUNCING, OTHER), log_end_offset=1),
        k.Tell(text="broker 1, at protocol 2.2, asks a 2.1.1 controller to shut it down"),
        k.Inject(name="1-stops", fault=k.StopBroker(broker=BOUNCING)),
        k.AwaitState(topic="t", partition=0, leader=OTHER, isr=(OTHER,)),
        k.Heal(name="1-stops"),
    )


def _steps(case: str) -> tuple[k.Step, ...]:
    match case:
        case "two-rolls":
            rolled = _late(_STOP)
            return (*_topic(), *_rolls(), *rolled[:3], *rolled[4:])
        case "roll-skipped":
            return _skipped()
        case "roll-skipped-old-controller":
            return _reverse()
        case "epoch-unknown":
            return (*_topic(), *_late(_WITHOUT))
        case _:
            return (*_topic(), *_late(_STOP))


def _cannot_show(case: str, release: str) -> str:
    if release_of(release) < release_of("2.2.0"):
        return (
            f"{release} refuses no request for its generation, at no protocol, so that nothing "
            f"could pass a fence: the nearest release that can show it is {_AFTER}; "
            "KIP-380-stale-stop-replica is what happens before"
        )
    if case in _FIXED and release != _AFTER:
        return f"the case {case} goes from {_BEFORE} to {_AFTER}: run it on {_AFTER}"
    return ""


_HARM = (
    ("stale-request-accepted", (BOUNCING,), -1, -1),
    ("replication-stopped", (BOUNCING,), -1, -1),
)
_OBEYED, _REFUSED = late_answer("StopReplica", 0), late_answer("StopReplica", 77)


def _sent(api: str, version: int, source: int, target: int) -> Mapping[str, object]:
    return at_link(api, "request", source, target, api_version=version)


KIP_380_UPGRADE_WINDOW = k.Entry(
    name="KIP-380-upgrade-window",
    title="Requests that name no generation pass the fence",
    story=(
        "The document says to roll a cluster twice: new binaries at the old inter-broker protocol, "
        "then the new protocol. Between the two the fence is there and nothing is fenced: at "
        "protocol 2.1 a 2.2.2 controller sends what a 2.1 controller sends, without a broker "
        "epoch, and a 2.2.2 broker obeys what says nothing (KafkaApis.isBrokerEpochStale). The "
        "same holds for a request with epoch -1 at protocol 2.2. Whoever skips the first roll is "
        "worse off: a 2.1.1 broker cannot read UpdateMetadata v5 and closes the connection. The "
        "controller repeats the request without end (RequestSendThread), and never sends what "
        "comes behind it. So the broker hears nothing. The other way round, a 2.1.1 controller "
        "does not know ControlledShutdown v2. A broker at protocol 2.2 cannot be shut down by it "
        "in a controlled way: the broker gives up after its retries and stops. Late requests are "
        "made by kchaos; which version they have follows from the protocol of the sender."
    ),
    source="KIP-380, compatibility, deprecation, and migration plan; measured on real brokers",
    cases={
        _FIRST: "after the first roll, 2.2.2 at protocol 2.1",
        _SECOND: "after the second roll, 2.2.2 at protocol 2.2",
        _UNKNOWN: "a request with epoch -1 at protocol 2.2",
        _TWO_ROLLS: "2.1.1, rolled twice as the document says",
        _SKIPPED: "a 2.1.1 broker with a controller at protocol 2.2",
        _REVERSE: "a broker at protocol 2.2 with a 2.1.1 controller",
    },
    cluster=_cluster,
    case_clusters={
        _FIRST: lambda kafka: _cluster(kafka, "2.1"),
        _TWO_ROLLS: _all_before,
        _SKIPPED: _new_beside_old,
        _REVERSE: _old_controller,
    },
    steps=_steps,
    cannot_show=_cannot_show,
    expectations={
        (case, _AFTER): k.Expectation(safe=False, findings=_HARM, witness=(_OBEYED,))
        for case in (_FIRST, _UNKNOWN)
    }
    | {
        (case, _AFTER): k.Expectation(safe=True, witness=(_REFUSED,))
        for case in (_SECOND, _TWO_ROLLS)
    }
    | {
        (_SKIPPED, _AFTER): k.Expectation(
            safe=False,
            findings=(
                ("generation-not-initialised", (BOUNCING,), -1, -1),
                ("offline-partition", (), -1, -1),
            ),
            witness=(_sent("UpdateMetadata", 5, CONTROLLER, BOUNCING),),
        ),
        (_REVERSE, _AFTER): k.Expectation(
            safe=True,
            witness=(
                _sent("ControlledShutdown", 2, BOUNCING, CONTROLLER),
                {"log": {"broker": BOUNCING, "pattern": r"Retrying controlled shutdown after"}},
            ),
        ),
    },
)
