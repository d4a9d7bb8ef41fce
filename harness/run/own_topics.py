"""Topics as a cluster in production describes them: which of them a test's cluster gets."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kchaos.checkers.settings import is_listed
from kchaos.clusters.releases import Release
from kchaos.clusters.settings import TOPIC_SETTINGS, topic_settings_refused
from kchaos.harness.errors import UsageError
from kchaos.harness.steps.scenario_steps import CreateTopic

MOST_REPLICAS = 3
_TOPIC = re.compile(
    r"^Topic:\s*(?P<name>\S+)\s.*PartitionCount:\s*(?P<partitions>\d+)\s+"
    r"ReplicationFactor:\s*(?P<replicas>\d+)\s+Configs:[ \t]*(?P<configs>\S*)",
    re.MULTILINE,
)
_CONFIGS = re.compile(r"([a-z.]+)=(.*?)(?:,(?=[a-z.]+=)|$)")
_INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTopics:
    """Topics that were read from a file.

    Attributes:
        file: Where it lies.
        topics: How each is made.
        left_out: (topic or setting of one, why) of each that is not.
    """

    file: str
    topics: tuple[CreateTopic, ...]
    left_out: tuple[tuple[str, str], ...]

    @property
    def case(self) -> str:
        """Their part of a case, with the first digits of a digest of them."""
        return f"topics-{hashlib.sha256(repr(self.topics).encode()).hexdigest()[:6]}"

    def texts(self) -> Iterator[str]:
        """Yield what a reader has to know, in sentences."""
        partitions = sum(len(topic.assignment) for topic in self.topics)
        yield f"{len(self.topics)} topics of {self.file}, with {partitions} partitions."
        yield from (f"Left out: {name} ({why})." for name, why in self.left_out)


def topic_on(
    brokers: Sequence[int],
    name: str,
    partitions: int = 0,
    replicas: int = 0,
    *,
    configuration: tuple[tuple[str, str], ...] = (),
) -> CreateTopic:
    """Return a topic whose preferred leaders are the brokers in turn.

    By default (0) it has a partition for each broker, and up to three replicas.

    Raises:
        UsageError: There are fewer brokers than replicas.
    """
    if replicas > len(brokers):
        raise UsageError(f"topic {name}: {replicas} replicas, and {len(brokers)} brokers")
    replicas = replicas or min(MOST_REPLICAS, len(brokers))
    in_turn = [*brokers, *brokers]
    firsts = [number % len(brokers) for number in range(partitions or len(brokers))]
    return CreateTopic(
        topic=name,
        assignment=tuple(tuple(in_turn[first : first + replicas]) for first in firsts),
        configuration=configuration,
    )


def own_topics(file: Path, release: Release, brokers: Sequence[int]) -> OwnTopics:
    """Return the topics that `kafka-topics.sh --describe` has written to a file.

    Kafka makes its internal topics itself.

    Raises:
        UsageError: It cannot be read, describes no topic, or has one of more replicas than brokers.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error
    topics: list[CreateTopic] = []
    left_out: list[tuple[str, str]] = []
    for described in _TOPIC.finditer(text):
        name, taken = described["name"], list[tuple[str, str]]()
        if name in _INTERNAL:
            left_out.append((name, "Kafka makes it itself"))
            continue
        replicas = int(described["replicas"])
        if replicas == 1:
            # Brokers of a test may ask for more in-sync replicas than this topic can have.
            taken.append(("min.insync.replicas", "1"))
        for setting, value in _CONFIGS.findall(described["configs"]):
            if why := _why_left_out(setting, value, release):
                left_out.append((f"{setting} of {name}", why))
            elif setting not in dict(taken):
                taken.append((setting, value))
        topics.append(
            topic_on(
                brokers, name, int(described["partitions"]), replicas, configuration=tuple(taken)
            )
        )
    if not topics:
        raise UsageError(
            f"{file} describes no topic: write the output of kafka-topics.sh --describe to it"
        )
    return OwnTopics(file=str(file), topics=tuple(topics), left_out=tuple(left_out))


def _why_left_out(setting: str, value: str, release: Release) -> str:
    """Return why a topic is made without a setting, or ""."""
    if setting not in TOPIC_SETTINGS:
        return "no topic setting has this name"
    if setting == "remote.storage.enable":
        return "brokers of a test have no remote store"
    if refused := topic_settings_refused(release, {}, {setting: value}):
        return refused
    return "" if is_listed(setting) else "it may load a class, read a file or connect elsewhere"
