"""KIP-380: a broker takes its partitions of its earlier generation."""

from collections.abc import Mapping
from typing import Any

import kchaos as k
from kchaos.harness.catalogue.kip_380_bounced import (
    BOUNCING,
    CONTROLLER,
    OTHER,
    bounced_cluster,
    late_answer,
)
from kchaos.harness.catalogue.words import held

_LEADS, _FORGETS, _SENT = "leads-again", "forgets-high-watermarks", "sent-by-controller"
_NEVER_TIMES_OUT = {"controller.socket.timeout.ms": "120000"}
"""A held request is sent again because its receiver has gone, and for no other reason."""


def _topic(topic: str, both: tuple[int, int] = (BOUNCING, OTHER)) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic=topic, assignment=(both,)),
        k.Produce(operation=f"{topic}-m1", topic=topic, partition=0, records=1, acks=-1),
        k.AwaitReplicated(topic=topic, partition=0, brokers=both, log_end_offset=1),
        k.AwaitHighWatermark(topic=topic, partition=0, brokers=both, high_watermark=1),
    )


def _steps(case: str) -> tuple[k.Step, ...]:
    return _sent_by_controller() if case == _SENT else _made_anew(case)


def _sent_by_controller() -> tuple[k.Step, ...]:
    """Hold a request that the controller repeats to its receiver's next process."""
    held = k.HoldRequests(name="late", api="LeaderAndIsr", source=CONTROLLER, target=BOUNCING)
    return (
        *_topic("t", (OTHER, BOUNCING)),
        *_topic("u", (CONTROLLER, BOUNCING)),
        k.Tell(text="broker 1 comes to lead t, whose preferred leader is broker 2"),
        k.Inject(name="session", fault=k.ExpireSession(broker=OTHER)),
        k.Heal(name="session"),
        k.AwaitState(topic="t", partition=0, leader=BOUNCING, isr=(BOUNCING, OTHER)),
        k.Tell(text="broker 2 is elected; the request that tells broker 1 of t is held"),
        k.Inject(name="late", fault=held),
        k.Inject(name="prefer", fault=k.PreferredElection(topic="t", partition=0)),
        k.AwaitHeld(name="late"),
        k.Tell(text="broker 1 bounces, and its controller is slow to notice"),
        k.Inject(name="slow", fault=k.HoldController(broker=CONTROLLER)),
        k.Inject(name="bounce", fault=k.FastBounce(broker=BOUNCING)),
        k.AwaitHeld(name="slow"),
        k.AwaitMessage(
            api="LeaderAndIsr", source=CONTROLLER, target=BOUNCING, fates=("held",), count=2
        ),
        k.Tell(text="the controller has sent it again, to the new process: now it arrives"),
        k.Heal(name="late"),
        *_does_u_stay(),
        k.Tell(text="the controller goes on, and another one tells broker 1 of everything"),
        k.Heal(name="slow"),
        k.Inject(name="move", fault=k.MoveController()),
        k.AwaitFollowing(topic="u", partition=0, follower=BOUNCING, leader=CONTROLLER),
    )


def _does_u_stay() -> tuple[k.Step, ...]:
    return (
        k.Tell(text="does the checkpoint still have u?"),
        k.IfPossible(
            do=k.AwaitHighWatermarkForgotten(broker=BOUNCING, topic="u", partition=0, timeout_s=4)
        ),
    )


def _made_anew(case: str) -> tuple[k.Step, ...]:
    is_zombie = case == _LEADS
    after = _does_u_stay()
    if is_zombie:
        after = (
            k.Tell(text="does broker 1 take a write as leader?"),
            k.Produce(
                operation="zombie",
                topic="t",
                partition=0,
                records=1,
                acks=1,
                broker=BOUNCING,
                accept_error=True,
                timeout_s=3,
            ),
        )
    return (
        *_topic("t"),
        *(() if is_zombie else _topic("u")),
        k.Tell(text="a LeaderAndIsr says that broker 1 leads t, and is late"),
        k.Inject(
            name="late",
            fault=k.StaleRequest(api="LeaderAndIsr", broker=BOUNCING, partitions=(("t", 0),)),
        ),
        k.Tell(text="broker 1 bounces, broker 2 leads; the news of that are slow"),
        held("news", "LeaderAndIsr", source=CONTROLLER, target=BOUNCING),
        k.Inject(name="bounce", fault=k.FastBounce(broker=BOUNCING)),
        k.AwaitState(topic="t", partition=0, leader=OTHER, isr=(OTHER,)),
        k.AwaitHeld(name="news"),
        k.Tell(text="the request to the earlier generation arrives first"),
        k.Heal(name="late"),
        *after,
        k.Heal(name="news"),
        k.AwaitFollowing(topic="t", partition=0, follower=BOUNCING, leader=OTHER),
    )


_OBEYED, _REFUSED = late_answer("LeaderAndIsr", 0), late_answer("LeaderAndIsr", 77)
_FORGOTTEN = {"observed": {"kind": "high-watermark-forgotten", "broker": BOUNCING, "topic": "u"}}
_KEPT = {"observed": {"kind": "not-possible", "name": "AwaitHighWatermarkForgotten"}}
_ACCEPTED = ("stale-request-accepted", (BOUNCING,), -1, -1)

_TOLD = {"api": "LeaderAndIsr", "source": CONTROLLER, "target": BOUNCING}
_GIVEN_UP = {"link": {**_TOLD, "direction": "request", "fate": "abandoned"}}


def _answered(error_code: int) -> Mapping[str, Any]:
    """Return the witness of this response of broker 1 to the controller."""
    return {"link": {**_TOLD, "direction": "response", "detail": {"error_code": error_code}}}


KIP_380_STALE_LEADER_AND_ISR = k.Entry(
    name="KIP-380-stale-leader-and-isr",
    title="A bounced broker takes its partitions from a LeaderAndIsr of before",
    story=(
        "Broker 1 led t and bounced; broker 2 leads t now. Before the controller informs broker "
        "1, an older LeaderAndIsr arrives that was made for its earlier generation. The leader "
        "epoch fences nothing: a process that has just started knows none. Up to 2.1 broker 1 "
        "leads t again in the old epoch and takes writes that are gone as soon as it hears of "
        "broker 2; and since every first LeaderAndIsr starts the thread that writes the checkpoint "
        "of high watermarks, the file is written anew with t alone: the high watermark of u is "
        "forgotten (KAFKA-7235). From 2.2 on the request carries the czxid of the broker's "
        "registration and is refused with STALE_BROKER_EPOCH (77). Such a request harms only "
        "before the new one arrives: the controller's own is held at the link meanwhile. In two "
        "cases the late one is made by kchaos at the injection. A controller that notices the "
        "bounce drops what it had still to send (ControllerChannelManager.removeBroker). In the "
        "third the controller itself sends it: a link holds its request while the receiver is "
        "killed, which ends the connection. Its RequestSendThread repeats the request until "
        "somebody answers or the bounce is noticed. The new process answers, since the thread that "
        "would notice stands still. Up to 2.1 it obeys; from 2.2 on it refuses, and the controller "
        "does not send it once more."
    ),
    source="KIP-380, motivation, third example; measured on real brokers",
    cases={
        _LEADS: "it says that the bounced broker leads",
        _FORGETS: "it names one of two partitions",
        _SENT: "the same, and the controller itself sends it",
    },
    cluster=bounced_cluster,
    case_clusters={_SENT: lambda kafka: bounced_cluster(kafka, _NEVER_TIMES_OUT)},
    steps=_steps,
    expectations={
        (_LEADS, "2.1.1"): k.Expectation(safe=False, findings=(_ACCEPTED,), witness=(_OBEYED,)),
        (_LEADS, "2.2.2"): k.Expectation(safe=True, witness=(_REFUSED,)),
        (_FORGETS, "2.1.1"): k.Expectation(
            safe=False, findings=(_ACCEPTED,), witness=(_OBEYED, _FORGOTTEN)
        ),
        (_FORGETS, "2.2.2"): k.Expectation(safe=True, witness=(_REFUSED, _KEPT)),
        (_SENT, "2.1.1"): k.Expectation(
            safe=False, findings=((*_ACCEPTED, "t"),), witness=(_GIVEN_UP, _answered(0), _FORGOTTEN)
        ),
        (_SENT, "2.2.2"): k.Expectation(safe=True, witness=(_GIVEN_UP, _answered(77), _KEPT)),
    },
)
