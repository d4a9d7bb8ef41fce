"""KAFKA-9839 (2.5.1): a broker obeys a request whose broker epoch is ahead of its own.

Before, that threw an IllegalStateException: a broker may hear of its own registration later than
the controller does. Read from kafka.server.KafkaApis.isBrokerEpochStale, 2.5.0 and 2.5.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.releases.rules.kip_380 import STALE, is_for_an_earlier_generation


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
