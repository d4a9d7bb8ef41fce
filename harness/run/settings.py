"""Settings that a scenario asks for and its brokers would refuse: said before a cluster starts."""

from collections.abc import Mapping
from dataclasses import dataclass

from kchaos.clusters.configuration import mixed_protocol
from kchaos.clusters.releases import Release, release_of
from kchaos.clusters.settings import (
    BROKER_FORMAT,
    TOPIC_FORMAT,
    broker_settings_refused,
    topic_settings_refused,
)
from kchaos.clusters.tiered import tiered_topic_refused, tiering_refused
from kchaos.faults import ConfigureTopic, FormatDowngrade, RollBroker
from kchaos.faults.api import Fault
from kchaos.harness.errors import ScenarioError
from kchaos.harness.run.scenario import Scenario
from kchaos.harness.steps.scenario_steps import CreateTopic, Inject


@dataclass(frozen=True, slots=True, kw_only=True)
class _Broker:
    release: Release
    properties: Mapping[str, str]


def kafkas_of(scenario: Scenario) -> tuple[str, ...]:
    """Every Kafka that its brokers run, at first or later, each once."""
    first = [broker.kafka for broker in scenario.cluster.brokers]
    later = [
        step.fault.kafka
        for step in scenario.steps
        if isinstance(step, Inject) and isinstance(step.fault, RollBroker) and step.fault.kafka
    ]
    return tuple(dict.fromkeys([*first, *later]))


def check_settings(scenario: Scenario, releases: Mapping[str, str]) -> None:
    """Goes through the scenario's settings in the order in which they come.

    Args:
        scenario: What is to be played.
        releases: The release of each Kafka in `kafkas_of`.

    Raises:
        ScenarioError: A broker would not start with its properties, or not take a topic's.
    """
    spec = scenario.cluster
    first = {broker.id: release_of(releases[broker.kafka]) for broker in spec.brokers}
    common = {**mixed_protocol(list(first.values())), **spec.properties}
    brokers = {
        broker.id: _Broker(release=first[broker.id], properties={**common, **broker.properties})
        for broker in spec.brokers
    }
    for broker, one in brokers.items():
        _refuse(f"broker {broker}", broker_settings_refused(one.release, one.properties))
        if spec.tiered:
            _refuse(f"broker {broker}", tiering_refused(one.release, one.properties))
    topics: dict[str, dict[str, str]] = {}
    for index, step in enumerate(scenario.steps):
        if isinstance(step, CreateTopic):
            topics[step.topic] = dict(step.configuration)
            _check_topic(f"step {index} (CreateTopic)", brokers, topics[step.topic])
            refused = tiered_topic_refused(topics[step.topic], is_tiered=spec.tiered)
            _refuse(f"step {index} (CreateTopic)", refused)
        if not isinstance(step, Inject):
            continue
        where = f"step {index} ({type(step.fault).__name__})"
        match _as_change(step.fault):
            case ConfigureTopic() as change:
                _check_topic(where, brokers, dict(change.configuration))
                after = {**topics.get(change.topic, {}), **dict(change.configuration)}
                topics[change.topic] = after
                _refuse(where, tiered_topic_refused(after, is_tiered=spec.tiered))
            case RollBroker() as change:
                _check_broker(where, brokers, change, releases)


def _as_change(fault: Fault) -> Fault:
    if not isinstance(fault, FormatDowngrade):
        return fault
    if fault.broker is not None:
        return RollBroker(broker=fault.broker, properties=((BROKER_FORMAT, fault.message_format),))
    settings = ((TOPIC_FORMAT, fault.message_format),)
    return ConfigureTopic(topic=fault.topic or "", configuration=settings)


def _check_broker(
    where: str, brokers: dict[int, _Broker], change: RollBroker, releases: Mapping[str, str]
) -> None:
    before = brokers.get(change.broker)
    if before is None:
        raise ScenarioError(f"{where}: the cluster has no broker {change.broker}")
    release = release_of(releases[change.kafka]) if change.kafka else before.release
    after = _Broker(release=release, properties={**before.properties, **dict(change.properties)})
    refused = broker_settings_refused(after.release, after.properties)
    _refuse(f"{where}: broker {change.broker}", refused)
    brokers[change.broker] = after


def _check_topic(
    where: str, brokers: Mapping[int, _Broker], configuration: Mapping[str, str]
) -> None:
    for broker, one in brokers.items():
        refused = topic_settings_refused(one.release, one.properties, configuration)
        _refuse(f"{where}: broker {broker}", refused)


def _refuse(where: str, refused: str) -> None:
    if refused:
        raise ScenarioError(f"{where}: {refused}")
