"""A topic's own settings: ZooKeeper has them, and each broker as it last took them over.

Read from kafka.server.TopicConfigHandler, kafka.server.DynamicConfigManager and
kafka.log.Log.updateConfig, 1.1.1, 2.1.1 and 2.8.2.
"""

from dataclasses import replace

from kchaos.checkers.acts import AdoptTopicConfiguration
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


def adopt(world: World, event: AdoptTopicConfiguration) -> None:
    """Let a broker take over a topic's configuration (TopicConfigHandler, Log.updateConfig).

    A log whose message format has changed begins with the epochs that a start would load; up to
    2.1.0 with those that it has, which is the same.
    """
    broker = world.running(event.broker)
    if broker is None:
        raise ModelError(f"broker {event.broker} does not run and can adopt nothing")
    partitions = [one for one in world.partitions(event.broker) if one.topic == event.topic]
    before = {one: world.generation(broker, one).versions.magic for one in partitions}
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
