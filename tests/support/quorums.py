"""Leaders of KRaft quorums that are to decide about t-0, which brokers 0, 1 and 2 hold."""

from dataclasses import replace
from typing import Any

from kchaos.checkers.formats.metadata_image import BrokerImage, MetadataImage, PartitionImage
from kchaos.checkers.model.controller.quorum import Place, Quorum
from kchaos.checkers.model.releases.generation import Generation

PLACE: Place = ("topic id", 0)
NEWEST = {"metadata.version": 30}
ELIGIBLE = NEWEST | {"eligible.leader.replicas.version": 1}
UNCLEAN = {"unclean.leader.election.enable": "true"}
_LED_BY_0 = PartitionImage(
    replicas=(0, 1, 2),
    isr=(0, 1, 2),
    leader=0,
    leader_epoch=3,
    partition_epoch=7,
    controller_epoch=1,
    directories=("D0", "D1", "D2"),
)


def quorum(
    generation: Generation,
    *,
    fenced: tuple[int, ...] = (),
    features: dict[str, int] = NEWEST,
    topic: dict[str, str] | None = None,
    properties: dict[str, str] | None = None,
    **partition: Any,
) -> Quorum:
    """A leader of the quorum; broker 0 leads the partition, and all are in sync.

    Args:
        generation: What it does.
        fenced: The brokers that are fenced.
        features: The levels of the cluster.
        topic: The topic's own settings.
        properties: The controller's own settings.
        partition: Fields of the partition that are otherwise.
    """
    brokers = {
        broker: BrokerImage(
            epoch=10 + broker,
            is_fenced=broker in fenced,
            is_shutting_down=False,
            said={"IncarnationId": f"process {broker}"},
            directories=(f"D{broker}",),
        )
        for broker in (0, 1, 2, 3)
    }
    image = MetadataImage(
        features=features,
        brokers=brokers,
        names={PLACE[0]: "t"},
        topic_ids={"t": PLACE[0]},
        partitions={PLACE: replace(_LED_BY_0, **partition)},
        settings={(2, "t"): topic or {}},
        quorum_leader=100,
    )
    return Quorum(image=image, generation=generation, properties=properties or {})
