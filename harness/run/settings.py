"""A scenario's settings: those that its brokers would refuse, and those that need somebody's trust.

Both are said before a cluster starts.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kchaos.checkers.settings import is_listed
from kchaos.clusters.api import Cluster
from kchaos.clusters.releases import Release, release_of
from kchaos.clusters.settings import (
    BROKER_FORMAT,
    TOPIC_FORMAT,
    broker_settings_refused,
    topic_settings_refused,
    unread_protocol,
)
from kchaos.clusters.start.broker_settings import misspelt, unknown_setting
from kchaos.clusters.start.configuration import mixed_protocol
from kchaos.clusters.start.spec_checks import mode_refused
from kchaos.clusters.start.tiered import tiered_topic_refused, tiering_refused
from kchaos.faults import ConfigureTopic, FormatDowngrade, RollBroker
from kchaos.faults.api import Fault
from kchaos.harness.errors import ScenarioError, UsageError
from kchaos.harness.run.scenario import Scenario, read_scenario
from kchaos.harness.steps.free_clients import StartWorkload
from kchaos.harness.steps.if_possible import IfPossible
from kchaos.harness.steps.scenario_steps import CreateTopic, Inject, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class _Broker:
    release: Release
    properties: Mapping[str, str]


def require_trust(scenario: Scenario, file: Path) -> None:
    """Refuse settings that may do more on this machine than set a number, a time or a mode.

    Raises:
        UsageError: There are some, or commands that are to be run; the message names each, with
            its place in the file.
    """
    others = [
        f"{place}: {name}" for place, name in _named_settings(scenario) if not is_listed(name)
    ]
    if commands := [*_commands(scenario)]:
        raise UsageError(
            f"{file} runs commands on this machine: {'; '.join(commands)}. Look at them; --trust "
            "runs it all the same"
        )
    if others:
        raise UsageError(
            f"{file} has settings that may load classes, read files or connect elsewhere: "
            f"{'; '.join(others)}. Look at them; --trust runs it all the same"
        )


def trusted_scenario(file: Path, *, trust: bool) -> Scenario:
    """Return the scenario in a file, if nothing in it needs trust that it does not have.

    With `trust` it may run commands and code, and have any settings.

    Raises:
        ScenarioError, UsageError: It is none, or needs trust.
    """
    scenario = read_scenario(file, trusted=trust)
    if not trust:
        require_trust(scenario, file)
    return scenario


def _commands(scenario: Scenario) -> Iterator[str]:
    """Yield the place of each step that runs a command, and the command."""
    for number, step in enumerate(scenario.steps):
        done = step.do if isinstance(step, IfPossible) else step
        if isinstance(done, StartWorkload):
            yield f"step {number}: {shlex.join(done.command)}"


def _named_settings(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield the place and the name of each setting of a broker or a topic."""
    yield from (("cluster", name) for name in scenario.cluster.properties)
    for broker in scenario.cluster.brokers:
        yield from ((f"broker {broker.id}", name) for name in broker.properties)
    for number, step in enumerate(scenario.steps):
        done = step.do if isinstance(step, IfPossible) else step
        settings: tuple[tuple[str, str], ...] = ()
        if isinstance(done, CreateTopic):
            settings = done.configuration
        elif isinstance(done, Inject) and isinstance(done.fault, ConfigureTopic):
            settings = done.fault.configuration
        elif isinstance(done, Inject) and isinstance(done.fault, RollBroker):
            settings = done.fault.properties
        yield from ((f"step {number}", name) for name, _ in settings)


def named_kafkas(scenario: Scenario) -> tuple[str, ...]:
    """Return every Kafka of a broker, ZooKeeper or a step, each once, even if one may fail."""
    steps = [step.do if isinstance(step, IfPossible) else step for step in scenario.steps]
    return tuple(dict.fromkeys([*sorted(scenario.cluster.kafkas), *_rolled_to(steps)]))


def kafkas_of(scenario: Scenario) -> tuple[str, ...]:
    """Return every Kafka that the brokers run, at first or later, each once."""
    first = [broker.kafka for broker in scenario.cluster.brokers]
    return tuple(dict.fromkeys([*first, *_rolled_to(scenario.steps)]))


def _rolled_to(steps: Iterable[Step]) -> Iterator[str]:
    for step in steps:
        if isinstance(step, Inject) and isinstance(step.fault, RollBroker) and step.fault.kafka:
            yield step.fault.kafka


def check_settings(scenario: Scenario, releases: Mapping[str, str]) -> tuple[str, ...]:
    """Check the scenario's settings in order.

    Returns what is played all the same: brokers that others cannot read once a step rolled one.

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
    # They start on the newest release, with the settings of all brokers.
    newest = _Broker(release=max(first.values()), properties=common)
    controllers = dict.fromkeys(spec.controller_ids, newest)
    if why_not := mode_refused(spec, first) or misspelt(spec, first):
        raise ScenarioError(why_not)
    for broker, started in brokers.items():
        _refuse(f"broker {broker}", broker_settings_refused(started.release, started.properties))
        if spec.tiered:
            _refuse(f"broker {broker}", tiering_refused(started.release, started.properties))
    topics: dict[str, dict[str, str]] = {}
    unread: dict[str, str] = {}
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
                nodes = brokers if change.broker in brokers else controllers
                _check_broker(where, nodes, change, releases)
                told = {id_: (now.release, now.properties) for id_, now in brokers.items()}
                if not spec.is_kraft and (why := unread_protocol(told)):
                    unread.setdefault(why, f"from {where} on: {why}")
    return tuple(unread.values())


def unread_now(cluster: Cluster) -> str:
    """Return which live broker speaks a protocol that another one cannot read, or "".

    A scenario's steps are known before it starts (`check_settings`), those of a live run are not.
    """
    brokers = {
        broker.id: (release_of(broker.release), broker.properties)
        for broker in cluster.brokers.values()
    }
    return "" if cluster.spec.is_kraft else unread_protocol(brokers)


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
    for name, _ in change.properties if not change.kafka or change.kafka == release.text else ():
        _refuse(f"{where}: broker {change.broker}", unknown_setting([release], name))
    brokers[change.broker] = after


def _check_topic(
    where: str, brokers: Mapping[int, _Broker], configuration: Mapping[str, str]
) -> None:
    for broker, spec in brokers.items():
        refused = topic_settings_refused(spec.release, spec.properties, configuration)
        _refuse(f"{where}: broker {broker}", refused)


def _refuse(where: str, refused: str) -> None:
    if refused:
        raise ScenarioError(f"{where}: {refused}")
