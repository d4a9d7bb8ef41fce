"""KIP-380: control requests name the generation of the broker that they are meant for, its czxid.

Jira KAFKA-7235 and KAFKA-1120. Read from kafka.controller.KafkaController (BrokerChange,
doControlledShutdown), kafka.controller.ControllerChannelManager (sendRequestsToBrokers) and
kafka.server.KafkaApis (isBrokerEpochStale), 2.1.1, 2.2.0, 2.2.2 and 2.5.1.

A controller tells the epoch from inter-broker protocol 2.2-IV0 on. A broker looks at it whatever
its own protocol is: without one it obeys, and so a request at an older protocol passes the fence.
After STALE_BROKER_EPOCH the controller goes on with its next request: the callback of a
LeaderAndIsr looks for offline replicas only, and nothing is sent again.

KAFKA-9839 (2.5.1): a broker obeys a request whose broker epoch is ahead of its own.

Before, that threw an IllegalStateException: a broker may hear of its own registration later than
the controller does. Read from kafka.server.KafkaApis.isBrokerEpochStale, 2.5.0 and 2.5.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

STALE = "STALE_BROKER_EPOCH"
UNKNOWN = "UNKNOWN_SERVER_ERROR"


def is_higher(seen_czxid: int, czxid: int) -> bool:
    """Return whether a broker bounced: its registration is later than the one that was seen."""
    return czxid > seen_czxid


def is_for_an_earlier_generation(told: int, own: int) -> bool:
    """Return whether a request was meant for an earlier generation; -1 says nothing about it."""
    return 0 <= told < own


def refuse_other_epochs(told: int, own: int) -> str:
    """Refuse an earlier generation's request, and fail at one that is ahead of the broker's own.

    Up to 2.5.0 the latter throws an IllegalStateException (KAFKA-9839).
    """
    if is_for_an_earlier_generation(told, own):
        return STALE
    return UNKNOWN if told > own else ""


KIP_380 = Rule(
    name="KIP-380",
    since=("2.2.0",),
    is_of_zookeeper=True,
    source="kafka.controller.KafkaController, 2.2.0",
    meaning=(
        "A controller tells a restarted broker from one that never left, by the czxid of its "
        "registration (KAFKA-7235, KAFKA-1120)."
    ),
    change=lambda known: replace(known, sees_bounce=is_higher),
)

BROKER_EPOCHS = Rule(
    name="broker epochs",
    since=("2.2.0",),
    is_of_zookeeper=True,
    source="kafka.server.KafkaApis, 2.2.0",
    meaning=(
        "LeaderAndIsr, UpdateMetadata and StopReplica for an earlier life of the broker are "
        "refused with STALE_BROKER_EPOCH. So is a ControlledShutdown from one (the other half of "
        "KIP-380)."
    ),
    change=lambda known: replace(
        known,
        error_of_broker_epoch=refuse_other_epochs,
        refuses_shutdown=is_for_an_earlier_generation,
    ),
)

EPOCHS_TOLD = Rule(
    name="broker epochs in requests",
    since=("2.2.0",),
    protocol="2.2-IV0",
    is_of_zookeeper=True,
    source="kafka.controller.ControllerChannelManager, 2.2.0",
    meaning=(
        "Control requests, and a broker's ControlledShutdown, say for which life of the broker "
        "they are. Under an older protocol they do not, and nobody refuses them for it."
    ),
    change=lambda known: replace(known, tells_broker_epoch=True),
)


def refuse_earlier_epochs(told: int, own: int) -> str:
    """Refuse an earlier generation's request alone: the broker may not know its own epoch yet."""
    return STALE if is_for_an_earlier_generation(told, own) else ""


KAFKA_9839 = Rule(
    name="KAFKA-9839",
    since=("2.5.1", "2.6.0"),
    is_of_zookeeper=True,
    source="kafka.server.KafkaApis, 2.5.1",
    meaning=(
        "A control request whose broker epoch is ahead of the broker's own is obeyed: the "
        "controller may know of a registration before the broker does. Before that it fails with "
        "an unknown error."
    ),
    change=lambda known: replace(known, error_of_broker_epoch=refuse_earlier_epochs),
)
