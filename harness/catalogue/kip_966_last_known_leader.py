"""KIP-966: when no replica is eligible any more, the last known leader is elected uncleanly."""

from typing import Any

import kchaos as k
from kchaos.harness.catalogue.kip_966_last_replica import (
    ALL,
    LAST,
    B,
    C,
    acknowledged_by_all,
    cluster_with_feature,
    ends_at,
    has_feature,
)

_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_KILLED = "three-killed"


def _steps(_case: str) -> tuple[k.Step, ...]:
    return (
        *acknowledged_by_all(),
        k.Tell(text="all three are killed, one after the other; only the last disk lost a tail"),
        k.Inject(name="B-down", fault=k.KillBroker(broker=B)),
        k.Inject(name="C-down", fault=k.KillBroker(broker=C)),
        k.AwaitState(leader=LAST, isr=(LAST,), **_T0),
        k.Inject(name="last-down", fault=k.KillBroker(broker=LAST)),
        k.Inject(name="power", fault=k.LoseTail(broker=LAST, log_end_offset=5, **_T0)),
        k.AwaitState(leader=-1, isr=(), **_T0),
        k.Heal(name="last-down"),
        k.Heal(name="B-down"),
        k.AwaitState(leader=-1, isr=(), **_T0),
        k.Tell(text="with the third nobody is eligible: the last known leader is believed"),
        k.Heal(name="C-down"),
        k.AwaitState(leader=LAST, isr=ALL, **_T0),
        k.AwaitReplicated(brokers=ALL, log_end_offset=5, **_T0),
    )


def _cannot_show(_case: str, release: str) -> str:
    if not has_feature(release):
        return f"{release} has no eligible leader replicas: they came with 4.0"
    return ""


_BELIEVED = k.Expectation(safe=True, witness=(ends_at(5),))

KIP_966_LAST_KNOWN_LEADER = k.Entry(
    name="KIP-966-last-known-leader",
    title="Three unclean deaths: an unclean election although the setting forbids one",
    story=(
        "As KIP-966-last-replica with eligible leader replicas, but the two followers are killed "
        "as well. Each tells so when it is back, by the broker epoch that it last had, and is "
        "eligible no more. With the last of them nobody is, and the controller elects the last "
        "known leader, whose tail is gone: both others cut five acknowledged records that they "
        "still had. unclean.leader.election.enable is false throughout, and does not govern this "
        "election. KIP-966 promises to survive min.insync.replicas - 1 unclean shutdowns, which is "
        "one here. So this is permitted-loss, and not what the name of the setting suggests."
    ),
    source=(
        "KIP-966; org.apache.kafka.controller.PartitionChangeBuilder.canElectLastKnownLeader, the "
        "same in 4.1.0, 4.2.0 and 4.3.0"
    ),
    cases={_KILLED: "all replicas end uncleanly, the leader last"},
    cluster=cluster_with_feature,
    steps=_steps,
    cannot_show=_cannot_show,
    expectations={(_KILLED, release): _BELIEVED for release in ("4.1.2", "4.4.0")},
)
