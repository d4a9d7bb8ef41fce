"""KIP-380: a controller tells a broker that came back from one that never left, by its czxid.

Jira KAFKA-7235 and KAFKA-1120. Read from kafka.controller.KafkaController (BrokerChange), 2.1.1 and
2.2.0. A broker refuses control requests to an earlier generation of itself (STALE_BROKER_EPOCH;
kafka.server.KafkaApis.isBrokerEpochStale, 2.2.0), from inter-broker protocol 2.2-IV0 on.
"""

from checkers.model.generation import Rule

KIP_380 = Rule(
    name="KIP-380",
    changes={"sees_bounces": True},
)

BROKER_EPOCHS = Rule(
    name="broker epochs", changes={"checks_broker_epoch": True}, protocol=(2, 2, 0, 0)
)
