"""KIP-380: a controller tells a broker that came back from one that never left, by its czxid.

Jira KAFKA-7235 and KAFKA-1120. Read from kafka.controller.KafkaController (BrokerChange), 2.1.1 and
2.2.0. A broker refuses control requests to an earlier generation of itself (STALE_BROKER_EPOCH;
kafka.server.KafkaApis.isBrokerEpochStale, 2.2.0), from inter-broker protocol 2.2-IV0 on.
"""

from dataclasses import replace

from checkers.model.generation import Rule


def is_another_registration(seen_czxid: int, czxid: int) -> bool:
    """Tell whether the broker registered again since the controller last looked."""
    return seen_czxid != czxid


def is_for_an_earlier_life(told: int, own: int) -> bool:
    """Tell whether a request was meant for an earlier life; -1 says nothing about it."""
    return 0 <= told < own


KIP_380 = Rule(
    name="KIP-380",
    source="kafka.controller.KafkaController",
    change=lambda known: replace(known, sees_bounce=is_another_registration),
)

BROKER_EPOCHS = Rule(
    name="broker epochs",
    source="kafka.server.KafkaApis",
    protocol=(2, 2, 0, 0),
    change=lambda known: replace(known, refuses_broker_epoch=is_for_an_earlier_life),
)
