"""KIP-380: a live broker is shut down because its earlier generation asked for it."""

from collections.abc import Mapping
from typing import Any

import kchaos as k
from kchaos.clusters.agent.points import CONTROLLED_SHUTDOWN
from kchaos.harness.catalogue.kip_380_bounced import (
    BOUNCING,
    CONTROLLER,
    OTHER,
    bounced_cluster,
    late_answer,
    topic_with_a_record,
)
from kchaos.harness.catalogue.words import at_link

_LIVE, _ASKED, _SESSION = "live-broker", "asked-itself", "session-lost"
_IMPATIENT = {"controlled.shutdown.enable": "true", "controlled.shutdown.max.retries": "1"}
_PATIENT = {
    "controlled.shutdown.enable": "true",
    "controlled.shutdown.retry.backoff.ms": "200",
    # It waits for the controller's answer while that is held.
    "request.timeout.ms": "30000",
    "controller.socket.timeout.ms": "30000",
}


def _steps(case: str) -> tuple[k.Step, ...]:
    return _session_lost() if case == _SESSION else _live_broker(case)


_IN_HAND = k.HoldPoint(name="late", broker=CONTROLLER, point=CONTROLLED_SHUTDOWN)
"""The controller's handler threads stand still with the request, and do nothing yet."""


def _session_lost() -> tuple[k.Step, ...]:
    both = (BOUNCING, OTHER)
    return (
        *topic_with_a_record(both),
        k.Tell(text="broker 1 is stopped; the controller has its request in hand and is slow"),
        k.Inject(name="late", fault=_IN_HAND),
        k.Inject(name="stop", fault=k.StopBroker(broker=BOUNCING, await_end=False)),
        k.AwaitHeld(name="late"),
        k.Tell(
            text="meanwhile its session ends; it registers again, and the controller tells it so"
        ),
        k.Inject(name="session", fault=k.ExpireSession(broker=BOUNCING)),
        k.Heal(name="session"),
        # It hears that it follows t; while it shuts down it begins no fetching.
        k.AwaitMessage(
            api="LeaderAndIsr", source=CONTROLLER, target=BOUNCING, direction="response", count=2
        ),
        k.Tell(text="now the controller looks at the request"),
        k.Heal(name="late"),
        k.Heal(name="stop"),
        k.AwaitState(topic="t", partition=0, leader=OTHER, isr=both),
    )


def _asked_and_back(case: str) -> tuple[k.Step, ...]:
    """Return steps that delay the request, and make broker 1 a new generation."""
    if case == _ASKED:
        return (
            k.Tell(text="broker 1 stops; the controller has its request in hand and is slow"),
            k.Inject(name="late", fault=_IN_HAND),
            k.Inject(name="bounce", fault=k.StopBroker(broker=BOUNCING, await_end=False)),
            k.AwaitHeld(name="late"),
            k.Tell(text="broker 1 gives up asking, stops, starts again, and leads t again"),
            k.Heal(name="bounce"),
        )
    return (
        k.Tell(text="broker 1 asks the controller to shut it down, and that is late"),
        k.Inject(name="late", fault=k.StaleRequest(api="ControlledShutdown", broker=BOUNCING)),
        k.Tell(text="broker 1 bounces, is in sync again and leads t again"),
        k.Inject(name="bounce", fault=k.FastBounce(broker=BOUNCING)),
    )


def _live_broker(case: str) -> tuple[k.Step, ...]:
    both = (BOUNCING, OTHER)
    return (
        k.CreateTopic(topic="t", assignment=(both,)),
        k.CreateTopic(topic="u", assignment=((OTHER, BOUNCING),)),
        k.Produce(operation="t-m1", topic="t", partition=0, records=1, acks=-1),
        k.Produce(operation="u-m1", topic="u", partition=0, records=1, acks=-1),
        *_asked_and_back(case),
        k.AwaitState(topic="t", partition=0, leader=OTHER, isr=both),
        k.AwaitState(topic="u", partition=0, leader=OTHER, isr=both),
        k.Inject(name="prefer", fault=k.PreferredElection(topic="t", partition=0)),
        k.AwaitState(topic="t", partition=0, leader=BOUNCING, isr=both),
        k.AwaitFollowing(topic="t", partition=0, follower=OTHER, leader=BOUNCING),
        k.AwaitReplicated(topic="t", partition=0, brokers=both, log_end_offset=1),
        k.AwaitReplicated(topic="u", partition=0, brokers=both, log_end_offset=1),
        k.Tell(text="now what its earlier generation asked for arrives"),
        k.Heal(name="late"),
    )


_STOPPED = ("replication-stopped", (BOUNCING,), -1, -1, "u")
_HARM = (
    ("stale-request-accepted", (CONTROLLER,), -1, -1, "t"),
    ("stale-request-accepted", (CONTROLLER,), -1, -1, "u"),
    _STOPPED,
)


def _log(broker: int, pattern: str) -> Mapping[str, Any]:
    return {"log": {"broker": broker, "pattern": pattern}}


_OBEYED = _log(CONTROLLER, r"Shutting down broker 1")
_REFUSED = _log(CONTROLLER, r"Received controlled shutdown request from an old broker epoch")
_GIVEN_UP = _log(BOUNCING, r"Proceeding to do an unclean shutdown as all the controlled shutdown")

_HELD = {"hit": {"point": CONTROLLED_SHUTDOWN, "broker": CONTROLLER, "fate": "held"}}


def _answered(version: int, error_code: int) -> Mapping[str, Any]:
    """Return the witness of this response of the controller to broker 1."""
    return at_link(
        "ControlledShutdown",
        "response",
        BOUNCING,
        api_version=version,
        detail={"error_code": error_code},
    )


KIP_380_STALE_CONTROLLED_SHUTDOWN = k.Entry(
    name="KIP-380-stale-controlled-shutdown",
    title="A live broker loses its leaderships because its earlier generation asked for it",
    story=(
        "A ControlledShutdown of broker 1 reaches the controller when broker 1 has long bounced. "
        "Up to 2.1 the controller takes every leadership from the live broker 1. It takes broker 1 "
        "out of the ISR of every partition that it follows, and tells it to stop fetching. It "
        "keeps broker 1 among those that are shutting down: what it led it follows now, what it "
        "followed it never fetches again, until the next bounce or the next controller. From 2.2 "
        "on the request carries the czxid of the sender's registration. One that is below what the "
        "controller has seen is refused with STALE_BROKER_EPOCH (77). The request is made by "
        "kchaos at the injection, or by broker 1 itself. In the second case a handler thread of "
        "the controller has it in hand while broker 1 gives up asking, stops and is back. Nobody "
        "gets the controller's answer, as the document says. The links cannot see that a request "
        "waits inside a broker, so that up to 2.1, where it names no epoch, only its harm shows. "
        "The last case is the document's broker that only lost its session while it was shutting "
        "down: the request is in the controller's hand while the session ends and the broker "
        "registers again. 2.2 refuses it with 77, and the broker asks again, with its newer epoch, "
        "and is shut down in order (KafkaServer.doControlledShutdown). 2.1 obeys the first "
        "request, which does no harm here, since the process is the same."
    ),
    source="KIP-380, motivation, second example; measured on real brokers",
    cases={
        _LIVE: "the broker is back, in sync, and leads",
        _ASKED: "the same; the broker itself had asked, and the controller was slow",
        _SESSION: "the broker only lost its session while it was shutting down",
    },
    cluster=bounced_cluster,
    case_clusters={
        _ASKED: lambda kafka: bounced_cluster(kafka, _IMPATIENT),
        _SESSION: lambda kafka: bounced_cluster(kafka, _PATIENT),
    },
    steps=_steps,
    expectations={
        (_LIVE, "2.1.1"): k.Expectation(
            safe=False, findings=_HARM, witness=(late_answer("ControlledShutdown", 0), _OBEYED)
        ),
        (_ASKED, "2.1.1"): k.Expectation(
            safe=False, findings=(_STOPPED,), witness=(_HELD, _GIVEN_UP, _OBEYED)
        ),
        (_ASKED, "2.2.2"): k.Expectation(safe=True, witness=(_HELD, _GIVEN_UP, _REFUSED)),
        (_SESSION, "2.1.1"): k.Expectation(safe=True, witness=(_HELD, _answered(1, 0))),
        (_SESSION, "2.2.2"): k.Expectation(
            safe=True,
            witness=(
                _HELD,
                _answered(2, 77),
                _log(BOUNCING, r"Retrying controlled shutdown after"),
                _answered(2, 0),
                _log(BOUNCING, r"Controlled shutdown succeeded"),
            ),
        ),
        (_LIVE, "2.2.2"): k.Expectation(
            safe=True, witness=(late_answer("ControlledShutdown", 77), _REFUSED)
        ),
    },
)
