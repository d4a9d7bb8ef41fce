"""KAFKA-12686: the answer to a leader's wish of the epoch before removes its next wish."""

from typing import Any

import kchaos as k
from kchaos.clusters.releases import release_of
from kchaos.harness.catalogue.settings import quick_cluster, why_not_asked
from kchaos.harness.catalogue.words import at_link, held

CONTROLLER, LEADER, FOLLOWER, OTHER = 0, 1, 2, 3
_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_CASE = "next-epoch"
_FENCED_LEADER_EPOCH = 74
_ENQUEUED = r"Enqueued ISR change to state .*isr=List\(1, 2\)"
_NOT_ENQUEUED = r"Failed to enqueue ISR change state .*isr=List\(1, 2\)"


def _steps(_case: str) -> tuple[k.Step, ...]:
    replicas = (LEADER, FOLLOWER, OTHER)
    return (
        k.CreateTopic(topic="t", assignment=(replicas,)),
        k.Produce(operation="first", records=1, acks=-1, **_T0),
        k.AwaitHighWatermark(brokers=replicas, high_watermark=1, **_T0),
        k.SetLogLevel(broker=LEADER, logger="kafka.cluster.Partition", level="DEBUG"),
        k.Inject(name="down", fault=k.KillBroker(broker=FOLLOWER)),
        k.AwaitState(leader=LEADER, isr=(LEADER, OTHER), **_T0),
        k.Tell(text="broker 2 is back; its leader asks to take it into the ISR, and that is late"),
        held("late", "AlterPartition", source=LEADER, target=CONTROLLER),
        k.Heal(name="down"),
        k.AwaitHeld(name="late"),
        k.Tell(text="broker 3 is killed: broker 1 leads on in the next epoch, and asks again"),
        k.Inject(name="other-down", fault=k.KillBroker(broker=OTHER)),
        k.AwaitState(leader=LEADER, isr=(LEADER,), **_T0),
        k.AwaitLog(broker=LEADER, pattern=f"{_ENQUEUED}|{_NOT_ENQUEUED}"),
        k.Tell(text="only now the controller hears the wish of the epoch before"),
        k.Heal(name="late"),
        k.AwaitMessage(
            api="AlterPartition",
            source=LEADER,
            target=CONTROLLER,
            direction="response",
            says=(("error_code", _FENCED_LEADER_EPOCH),),
            **_T0,
        ),
        k.Heal(name="other-down"),
        k.Produce(operation="second", records=1, acks=1, **_T0),
    )


_FENCED = at_link(
    "AlterPartition",
    "response",
    LEADER,
    partition={"topic": "t", "error_code": _FENCED_LEADER_EPOCH},
)


def _cannot_show(case: str, release: str) -> str:
    if release_of(release) < release_of("2.8.0"):
        return f"{release} does not log the wish as the steps await it: the nearest is 2.8.2"
    return why_not_asked(case, release)


KAFKA_12686 = k.Entry(
    name="KAFKA-12686",
    title="The answer to a leader's wish of the epoch before removes its next wish",
    story=(
        "Broker 2 is back and has everything. Its leader asks the controller to take it into the "
        "ISR, and that request is late. Meanwhile broker 3 is killed, and the leader goes on in "
        "the next leader epoch. In 2.7 and 2.8 this clears its first wish from the list of those "
        "that wait, so that it may put in a second one behind the request on its way. When that "
        "request is answered with FENCED_LEADER_EPOCH, whatever the list has for the partition is "
        "removed. That is the second wish, and it was never sent. The leader waits for its answer "
        "and asks for no ISR any more: brokers 2 and 3 stay out of it until there is another "
        "leader epoch. From 3.0.0 on the first wish stays in the list until it is answered. Until "
        "then a second one is refused, and the leader asks again with the next fetch."
    ),
    source=(
        "KAFKA-12686 (fixed in 3.0.0); kafka.server.AlterIsrManager and kafka.cluster.Partition, "
        "2.8.2; found by random runs, measured on real brokers"
    ),
    cases={_CASE: "the leader epoch changes while a wish for another ISR is on its way"},
    cluster=quick_cluster(
        LEADER,
        FOLLOWER,
        OTHER,
        controller=CONTROLLER,
        # The leader is to wait for the answer that is held.
        properties={"controller.socket.timeout.ms": "20000"},
    ),
    steps=_steps,
    cannot_show=_cannot_show,
    expectations={
        (_CASE, "2.8.2"): k.Expectation(
            safe=False,
            findings=(
                ("replication-stopped", (FOLLOWER,), -1, -1),
                ("replication-stopped", (OTHER,), -1, -1),
            ),
            witness=(_FENCED, {"log": {"broker": LEADER, "pattern": _ENQUEUED}}),
        ),
        (_CASE, "3.0.2"): k.Expectation(
            safe=True, witness=(_FENCED, {"log": {"broker": LEADER, "pattern": _NOT_ENQUEUED}})
        ),
    },
)
