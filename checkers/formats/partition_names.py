"""Names of the directories in which a broker keeps its live partitions."""

import re

# Kafka's Topic.validate: nothing else can be a topic, so none is a path.
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}")
_LARGEST_PARTITION = (1 << 31) - 1


def topic_partition(name: str) -> tuple[str, int] | None:
    """Return topic and partition from a directory's name; None unless it is a live partition's."""
    # A suffix such as -delete, -future or -stray leaves no number at the end.
    topic, dash, number = name.rpartition("-")
    if not dash or not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        return None
    if not _PARTITION.fullmatch(number) or int(number) > _LARGEST_PARTITION:
        return None
    return topic, int(number)
