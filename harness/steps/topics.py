"""A step that deletes a topic, so that another one may be made under its name."""

from dataclasses import dataclass

from kchaos.checkers import observations
from kchaos.clusters.system.waiting import await_until
from kchaos.harness.gates import gates
from kchaos.harness.gates.gates import GATE_S
from kchaos.harness.play.play import Play


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """A topic is deleted, as `kafka-topics --delete` does it.

    A controller deletes it only when every replica lives; with KRaft it does so in any case, and
    brokers that do not run hear of it later. What a broker has of it is renamed to
    `TOPIC-PARTITION.ID-delete`, and removed some time later.

    Attributes:
        is_awaited: Whether the step ends when nothing of the topic is left, and not when the
            request is accepted.
    """

    topic: str
    is_awaited: bool = True
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Delete the topic; wait until cluster metadata and disks have nothing of that name.

        Unless it is not awaited. With KRaft: the disks of brokers that run.

        Raises:
            MetadataRefused: It is asked for already.
        """
        metadata = play.cluster.metadata
        replicas = metadata.assignment(self.topic)
        metadata.delete_topic(self.topic)
        if not self.is_awaited:
            return

        def left() -> list[str]:
            folders = (
                play.observer.partition_directory(broker, self.topic, partition)
                for partition, brokers in replicas.items()
                for broker in brokers
                if play.cluster.brokers[broker].is_running or not play.cluster.is_kraft
            )
            is_known = self.topic in metadata.topics() or metadata.is_deleting(self.topic)
            known = [f"the topic {self.topic}"] if is_known else []
            return known + [str(folder) for folder in folders if folder.exists()]

        await_until(
            lambda: not left(),
            timeout_s=self.timeout_s,
            waiting_for=f"nothing to be left of {self.topic}",
            last_seen=left,
            remedy="see the controller's lines in brokers/N/server.log; a replica that does not "
            "live keeps its topic from being deleted",
            abort=gates.no_exit(play),
        )
        play.observed(observations.TopicDeleted(topic=self.topic))
