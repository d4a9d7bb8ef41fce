"""KIP-516: topics have ids, and a broker refuses a LeaderAndIsr about another topic of that name.

An id lies in partition.metadata beside the segments. In 2.8 a broker compares it once its process
has the log of the partition, with the second LeaderAndIsr at the earliest: of the first one it
takes over a folder of any topic of that name, and a log that it makes has no id until the second
(kafka.cluster.Partition.checkOrSetTopicId, 2.8.0 and 2.8.2). From 3.0 on it compares the id that
lies on its disk, and a log has its id from the beginning (Partition.topicId and
LogManager.getOrCreateLog, 3.0.2, 3.1.2 and 3.8.0). It compares before it looks at the leader epoch
(ReplicaManager.becomeLeaderOrFollower).
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.values.replica import Replica


def refuse_other_id(replica: Replica, told: str) -> bool:
    """Refuse another id than that of the replica, if both have one."""
    return bool(told) and replica.topic_id not in ("", told)


KIP_516 = Rule(
    name="KIP-516",
    since=("2.8.0",),
    until=("4.2.0",),
    source="kafka.server.ReplicaManager, 2.8.2",
    meaning=(
        "A broker refuses a LeaderAndIsr with another topic id than that of its log, with "
        "INCONSISTENT_TOPIC_ID. In 2.8 it does not with the first one since its start. Before, it "
        "takes the folder of a deleted topic for that of the new one."
    ),
    change=lambda known: replace(
        known,
        refuses_topic_id=lambda replica, told: replica.is_hosted and refuse_other_id(replica, told),
        takes_topic_id=lambda replica, told: (
            replica.topic_id or (told if replica.is_hosted else "")
        ),
    ),
)

IDS_TOLD = Rule(
    name="topic ids in requests",
    since=("2.8.0",),
    protocol="2.8-IV1",
    is_of_zookeeper=True,
    source="kafka.controller.ControllerChannelManager, 2.8.2",
    meaning="A controller's LeaderAndIsr and UpdateMetadata name the topic's id (KIP-516).",
    change=lambda known: replace(known, tells_topic_id=True),
)

KAFKA_12426 = Rule(
    name="KAFKA-12426",
    since=("3.0.0",),
    source="kafka.cluster.Partition, 3.0.2",
    meaning=(
        "A broker compares topic ids with partition.metadata on its disk, with the first "
        "LeaderAndIsr too, and a log has its topic's id from the beginning."
    ),
    change=lambda known: replace(
        known,
        refuses_topic_id=refuse_other_id,
        takes_topic_id=lambda replica, told: replica.topic_id or told,
    ),
    after=("KIP-516",),
)

REFUSED_OFFLINE = Rule(
    name="refused replica offline",
    since=("3.0.0",),
    until=("3.1.0",),
    source="kafka.server.ReplicaManager, 3.0.2",
    meaning=(
        "A replica is offline once its first LeaderAndIsr was refused for another topic id: its "
        "broker takes every partition of a request offline that has no log by then."
    ),
    change=lambda known: replace(known, loses_refused_replica=True),
)

KAFKA_13111 = Rule(
    name="KAFKA-13111",
    since=("3.1.0",),
    protocol="3.1-IV0",
    source="kafka.server.ReplicaManager, 3.1.2",
    meaning=(
        "A Fetch names topics by their ids. A leader whose metadata cache does not have the id "
        "answers UNKNOWN_TOPIC_ID, and one whose log has another id INCONSISTENT_TOPIC_ID; the "
        "follower asks again."
    ),
    change=lambda known: replace(known, sends_topic_id=True),
)
