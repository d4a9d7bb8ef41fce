"""KAFKA-18991: a diverging epoch that comes late cuts records that are committed since."""

from typing import Any

import kchaos as k
from kchaos.harness.catalogue.settings import QUICK_KRAFT
from kchaos.harness.catalogue.words import at_link, held, held_from

FIRST, LATE, NEXT = 0, 1, 2
ALL = (FIRST, LATE, NEXT)
_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_CASE = "late-answer"


def _cluster(kafka: str) -> k.ClusterSpec:
    return k.ClusterSpec(
        brokers=k.brokers_of(kafka, ALL),
        mode="kraft",
        # The follower waits for its answer as long as it takes.
        properties={**QUICK_KRAFT, "replica.socket.timeout.ms": "120000"},
    )


def _leads(broker: int, name: str) -> tuple[k.Step, ...]:
    order = (broker, *(other for other in ALL if other != broker))
    return (
        k.ReorderReplicas(replicas=order, by="api", **_T0),
        k.Inject(name=name, fault=k.PreferredElection(**_T0)),
        k.AwaitState(leader=broker, **_T0),
    )


def _steps(_case: str) -> tuple[k.Step, ...]:
    return (
        k.Tell(text="broker 1's thread for broker 0 has another partition, so that it stays"),
        k.CreateTopic(topic="u", assignment=((FIRST, LATE),)),
        k.CreateTopic(topic="t", assignment=((LATE, FIRST, NEXT),)),
        k.Produce(operation="all", records=5, acks=-1, **_T0),
        k.AwaitHighWatermark(brokers=ALL, high_watermark=5, **_T0),
        k.Tell(text="broker 1 appends five records that it alone has"),
        held_from("first", FIRST, LATE, 5),
        held_from("next", NEXT, LATE, 5),
        k.AwaitHeld(name="first"),
        k.AwaitHeld(name="next"),
        k.Produce(operation="lost", records=5, acks=1, broker=LATE, **_T0),
        k.Tell(text="broker 0 leads: its answer, that broker 1 is to truncate to 5, is late"),
        held("asks", "Fetch", source=LATE, target=FIRST, **_T0),
        *_leads(FIRST, "first-leads"),
        k.AwaitHeld(name="asks"),
        held("late", "Fetch", source=LATE, target=FIRST, direction="response", **_T0),
        k.Heal(name="asks"),
        k.AwaitHeld(name="late"),
        k.Tell(text="broker 2 leads: broker 1 truncates, and five records are committed"),
        *_leads(NEXT, "next-leads"),
        k.Heal(name="first"),
        k.Heal(name="next"),
        k.Produce(operation="kept", records=5, acks=-1, **_T0),
        k.AwaitHighWatermark(brokers=ALL, high_watermark=10, **_T0),
        k.Tell(text="broker 0 leads again, and now its answer arrives"),
        *_leads(FIRST, "first-again"),
        k.AwaitMetadataRead(broker=LATE),
        held_from("fetches", LATE, FIRST, 5),
        k.Heal(name="late"),
        k.AwaitHeld(name="fetches"),
        k.Tell(text="broker 1, which is in the ISR, is to lead"),
        *_leads(LATE, "late-leads"),
        k.Heal(name="fetches"),
        k.AwaitState(leader=LATE, isr=ALL, **_T0),
    )


_ANSWERED = at_link(
    "Fetch",
    "response",
    LATE,
    FIRST,
    fate="released",
    partition={"topic": "t", "diverging_epoch": {"epoch": 0, "end_offset": 5}},
)


def _fetched_on(offset: int) -> dict[str, Any]:
    """Return the witness of broker 1's next Fetch, after the answer."""
    return at_link(
        "Fetch",
        "request",
        LATE,
        FIRST,
        fate="held",
        partition={"topic": "t", "fetch_offset": offset},
    )


_RED = k.Expectation(
    safe=False, findings=(("committed-loss", ALL, 5, 9),), witness=(_ANSWERED, _fetched_on(5))
)
_GREEN = k.Expectation(safe=True, witness=(_ANSWERED, _fetched_on(10)))

KAFKA_18991 = k.Entry(
    name="KAFKA-18991",
    title="A late answer with a diverging epoch cuts records that were committed since",
    story=(
        "Broker 1 follows broker 0, and is to truncate to offset 5; the answer that says so is "
        "long on its way. Meanwhile broker 2 leads. Broker 1 truncates to 5 by its answer, and "
        "five records are committed at the offsets that it had to give up. Then broker 0 leads "
        "again, and the answer arrives. Broker 1 stands at the same offset as before, so it takes "
        "the answer, and truncates below its high watermark. It is still in the ISR. If it leads "
        "before it has fetched the five records again, they are lost. From 3.9.1 and 4.0.1 on a "
        "follower drops an answer of another leader epoch."
    ),
    source=(
        "KAFKA-18991 (fixed in 3.9.1 and 4.0.1); kafka.server.AbstractFetcherThread."
        "processFetchRequest, 4.0.0 and 4.0.1; measured"
    ),
    cases={_CASE: "the answer of an earlier epoch comes when its leader leads again"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        **{(_CASE, release): _RED for release in ("3.6.2", "4.0.0")},
        **{(_CASE, release): _GREEN for release in ("3.9.1", "4.0.2", "4.4.0")},
    },
    default_releases=("4.0.0", "4.0.2"),
)
