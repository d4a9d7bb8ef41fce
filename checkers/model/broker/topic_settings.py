"""A topic's own settings: ZooKeeper has them, and each broker as it last took them over.

Read from kafka.server.TopicConfigHandler, kafka.server.DynamicConfigManager and
kafka.log.Log.updateConfig, 1.1.1, 2.1.1, 2.8.2 and 3.8.0.
"""

from dataclasses import replace

from kchaos.checkers.acts import AdoptTopicConfiguration, TopicPartition
from kchaos.checkers.errors import ModelError
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import TopicConfigured


def configured(world: World, event: TopicConfigured) -> None:
    """Note the topic's own configuration; a running broker goes on with what it has of it."""
    known = world.get(("topic configuration", event.topic))
    world.put(("topic configuration", event.topic), event.configuration)
    if known is None:
        return
    for broker_id in world.broker_ids():
        component = ("adopted", broker_id, event.topic)
        if world.running(broker_id) is not None and world.get(component) is None:
            world.put(component, known)


def is_throttled(world: World, broker_id: int, partition: TopicPartition, side: str) -> bool:
    """Return whether a broker may have a replica in its list of throttled ones (KIP-73).

    What a topic was made with no running broker hears of; so ZooKeeper's list counts, and its own.
    Whether its quota is used up is a matter of time, and nobody tells.

    Args:
        world: The transition.
        broker_id: Whose list.
        partition: Which one.
        side: "leader" or "follower".
    """
    written = dict(world.get(("topic configuration", partition.topic)) or ())
    name = f"{side}.replication.throttled.replicas"
    for configuration in (written, world.topic_configuration(broker_id, partition.topic)):
        replicas = [text.strip() for text in configuration.get(name, "").split(",")]
        if "*" in replicas or f"{partition.partition}:{broker_id}" in replicas:
            return True
    return False


def adopt(world: World, event: AdoptTopicConfiguration) -> None:
    """Let a broker take over a topic's configuration (TopicConfigHandler, Log.updateConfig).

    A log whose message format has changed begins with the epochs that a start would load; up to
    2.1.0 with those that it has, which is the same.
    """
    broker = world.running(event.broker)
    if broker is None:
        raise ModelError(f"broker {event.broker} does not run and can adopt nothing")
    partitions = [
        partition for partition in world.partitions(event.broker) if partition.topic == event.topic
    ]
    before = {
        partition: world.generation(broker, partition).versions.magic for partition in partitions
    }
    is_newest = event.configuration == world.get(("topic configuration", event.topic))
    component = ("adopted", event.broker, event.topic)
    world.put(component, None if is_newest else event.configuration)
    for partition in partitions:
        generation = world.generation(broker, partition)
        if generation.versions.magic == before[partition]:
            continue
        replica = world.known_replica(event.broker, partition)
        entries = generation.loaded_entries(replica.entries)
        world.put_replica(event.broker, partition, replace(replica, entries=entries))
