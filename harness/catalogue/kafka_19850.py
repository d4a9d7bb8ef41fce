"""KAFKA-19850: a controller that was removed from the voters joins them again by itself."""

from typing import Any

import kchaos as k
from kchaos.clusters.releases import release_of
from kchaos.harness.catalogue.settings import QUICK_KRAFT
from kchaos.harness.catalogue.words import at_link

BOTH = (0, 1)
REMOVED = 102
_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_JOINS, _STAYS = "joins-by-itself", "joins-when-asked"
_JOINS_S = 10.0


def _cluster(kafka: str) -> k.ClusterSpec:
    return k.ClusterSpec(
        brokers=k.brokers_of(kafka, BOTH),
        mode="kraft",
        controllers=3,
        features={"kraft.version": 1},
        properties=QUICK_KRAFT,
    )


def _cannot_show(case: str, release: str) -> str:
    first = "4.2.0" if case == _JOINS else "3.9.1"
    if release_of(release) < release_of(first):
        return f"{release} has no such voters, or no such setting: the nearest is {first}"
    return ""


def _steps(case: str) -> tuple[k.Step, ...]:
    joins = (("controller.quorum.auto.join.enable", "true"),)
    has_setting = (
        k.Tell(text="controller 102 is restarted with the setting"),
        k.Inject(name="joins", fault=k.RollBroker(broker=REMOVED, properties=joins)),
    )
    again = k.AwaitLog(
        broker=0, pattern=r"Latest set of voters .*102=", count=2, timeout_s=_JOINS_S
    )
    return (
        k.CreateTopic(topic="t", assignment=(BOTH,)),
        k.Produce(operation="both", records=3, acks=-1, **_T0),
        k.AwaitHighWatermark(brokers=BOTH, high_watermark=3, **_T0),
        *(has_setting if case == _JOINS else ()),
        k.Tell(text="controller 102 is removed from the voters; its process goes on"),
        k.Inject(name="removed", fault=k.RemoveController(controller=REMOVED)),
        k.IfPossible(do=again),
        k.Produce(operation="after", records=3, acks=-1, **_T0),
    )


_BACK = k.Expectation(safe=True, witness=(at_link("AddRaftVoter", "response", REMOVED),))
_AWAY = k.Expectation(
    safe=True, witness=({"observed": {"kind": "not-possible", "name": "AwaitLog"}},)
)

KAFKA_19850 = k.Entry(
    name="KAFKA-19850",
    title="A controller that was removed from the voters joins them again by itself",
    story=(
        "A controller has controller.quorum.auto.join.enable, which came with 4.2. An "
        "administrator removes it from the voters and leaves its process as it is. Within "
        "seconds it asks to be added, as each observer with this setting does again and again, "
        "and votes as before. So who is to be taken away has to be stopped before it is removed, "
        "or has to lose the setting. The ticket was answered by a note in the documentation. "
        "Without the setting, and up to 4.1, it stays away until somebody adds it."
    ),
    source=(
        "KAFKA-19850; org.apache.kafka.raft.KafkaRaftClient.shouldSendAddOrRemoveVoterRequest, "
        "4.2.1; measured"
    ),
    cases={
        _JOINS: "the controller has the setting, and runs when it is removed",
        _STAYS: "the controller does not have it",
    },
    cluster=_cluster,
    steps=_steps,
    cannot_show=_cannot_show,
    expectations={
        **{(_JOINS, release): _BACK for release in ("4.2.1", "4.4.0")},
        (_STAYS, "4.1.2"): _AWAY,
        (_STAYS, "4.4.0"): _AWAY,
    },
)
