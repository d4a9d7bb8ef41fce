"""KIP-966: the last replica in sync loses its tail, and with it what two others still have."""

from typing import Any

import kchaos as k
from kchaos.clusters.releases import release_of
from kchaos.harness.catalogue.settings import QUICK_KRAFT

LAST, B, C = 0, 1, 2
ALL = (LAST, B, C)
FEATURE = "eligible.leader.replicas.version"
_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_WITHOUT, _WITH = "without-eligible-replicas", "with-eligible-replicas"


def has_feature(kafka: str) -> bool:
    """Return whether a release knows eligible leader replicas; a path or an image counts as one."""
    try:
        return FEATURE in release_of(kafka).feature_levels
    except k.ReleaseError:
        return True


def _without(kafka: str) -> k.ClusterSpec:
    features = {FEATURE: 0} if has_feature(kafka) else {}
    return k.ClusterSpec(
        brokers=k.brokers_of(kafka, ALL), mode="kraft", features=features, properties=QUICK_KRAFT
    )


def cluster_with_feature(kafka: str) -> k.ClusterSpec:
    """Return three brokers and eligible leader replicas."""
    return k.ClusterSpec(
        brokers=k.brokers_of(kafka, ALL),
        mode="kraft",
        features={FEATURE: 1},
        properties=QUICK_KRAFT,
    )


def acknowledged_by_all() -> tuple[k.Step, ...]:
    """Return the steps after which all three brokers hold ten records of acks=all."""
    return (
        k.CreateTopic(topic="t", assignment=(ALL,), configuration=(("min.insync.replicas", "2"),)),
        k.Produce(operation="first", records=5, acks=-1, **_T0),
        k.Produce(operation="last", records=5, acks=-1, **_T0),
        k.AwaitHighWatermark(brokers=ALL, high_watermark=10, **_T0),
    )


def _steps(case: str) -> tuple[k.Step, ...]:
    return (
        *acknowledged_by_all(),
        k.Tell(text="B and C end in order, one after the other; their disks are whole"),
        k.Inject(name="B-down", fault=k.StopBroker(broker=B)),
        k.Inject(name="C-down", fault=k.StopBroker(broker=C)),
        k.AwaitState(leader=LAST, isr=(LAST,), **_T0),
        k.Tell(text="the last one loses power, and what it had not flushed of the ten records"),
        k.Inject(name="last-down", fault=k.KillBroker(broker=LAST)),
        k.Inject(name="power", fault=k.LoseTail(broker=LAST, log_end_offset=5, **_T0)),
        *(_led_by_who_lost() if case == _WITHOUT else _led_by_who_kept()),
    )


def _led_by_who_lost() -> tuple[k.Step, ...]:
    """Return steps by which the last in-sync replica leads alone, and the others follow it."""
    return (
        k.AwaitState(leader=-1, isr=(LAST,), **_T0),
        k.Heal(name="last-down"),
        k.AwaitState(leader=LAST, isr=(LAST,), **_T0),
        k.Heal(name="B-down"),
        k.Heal(name="C-down"),
        k.AwaitState(leader=LAST, isr=ALL, **_T0),
        k.AwaitReplicated(brokers=ALL, log_end_offset=5, **_T0),
    )


def _led_by_who_kept() -> tuple[k.Step, ...]:
    """Return steps by which an unclean shutdown removes the last replica from both sets."""
    return (
        k.AwaitState(leader=-1, isr=(), **_T0),
        k.Heal(name="last-down"),
        k.AwaitState(leader=-1, isr=(), **_T0),
        k.Heal(name="C-down"),
        k.AwaitState(leader=C, **_T0),
        k.Heal(name="B-down"),
        k.AwaitState(leader=C, isr=ALL, **_T0),
        k.AwaitReplicated(brokers=ALL, log_end_offset=10, **_T0),
    )


def _cannot_show(case: str, release: str) -> str:
    if case == _WITH and not has_feature(release):
        return f"{release} has no eligible leader replicas: they came with 4.0"
    return ""


def ends_at(log_end_offset: int) -> dict[str, Any]:
    """Return the witness that all three replicas end there once all are back."""
    ends = {str(broker): log_end_offset for broker in ALL}
    return {"observed": {"kind": "log-end", "topic": "t", "partition": 0, "ends": ends}}


_LOST = k.Expectation(
    safe=False, findings=(("last-replica-loss", ALL, 5, 9),), witness=(ends_at(5),)
)
_KEPT = k.Expectation(safe=True, witness=(ends_at(10),))

KIP_966_LAST_REPLICA = k.Entry(
    name="KIP-966-last-replica",
    title="The last replica in sync loses its tail, and two whole copies follow it",
    story=(
        "Three brokers acknowledge ten records with acks=all and min.insync.replicas=2. Two are "
        "stopped in order, so that the third is alone in the ISR. It loses power and five records "
        "that were not flushed. Without eligible leader replicas it is the only one that may lead: "
        "back, it does, and the two others cut the five records, which they still had. One unclean "
        "end has cost what two whole copies held. KIP-966 calls this the last replica standing, "
        "and promises that min.insync.replicas - 1 unclean ends cost nothing. With eligible leader "
        "replicas (default of clusters made by 4.1 and later) the ISR is empty and the two are "
        "eligible. The third has to wait for one of them. A cluster that was upgraded to 4.1 is "
        "without them until the feature is switched on."
    ),
    source=(
        "KIP-966, motivation; org.apache.kafka.controller.PartitionChangeBuilder, 4.1.0: "
        "maybePopulateTargetElr"
    ),
    cases={
        _WITHOUT: "only who is in sync may lead",
        _WITH: "who left the ISR below min.insync.replicas may lead too",
    },
    cluster=_without,
    case_clusters={_WITH: cluster_with_feature},
    steps=_steps,
    cannot_show=_cannot_show,
    expectations={
        **{(_WITHOUT, release): _LOST for release in ("3.9.1", "4.0.2", "4.1.2")},
        **{(_WITH, release): _KEPT for release in ("4.1.2", "4.4.0")},
    },
    default_releases=("3.9.1", "4.0.2", "4.1.2"),
)
