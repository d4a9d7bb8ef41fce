"""KIP-380: a controller tells a broker that came back from one that never left, by its czxid.

Jira KAFKA-7235 and KAFKA-1120. Only this part is modelled. Read from
kafka.controller.KafkaController (BrokerChange), 2.1.1 and 2.2.0.
"""

from checkers.model.generation import Rule

KIP_380 = Rule(
    name="KIP-380",
    changes={"sees_bounces": True},
)
