"""Every setting that a run's brokers and topics were given, wherever that is written.

That is scenario.json for brokers, at first and when they are rolled, and ZooKeeper for topics, and
for brokers that somebody changed while they ran.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from kchaos.checkers.acts import StartBroker
from kchaos.checkers.errors import ModelError
from kchaos.checkers.evidence.about import number_in
from kchaos.checkers.evidence.metadata import EVERY_BROKER, MIN_ISR
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model.releases.rules.kip_537 import LAG, default_lag_s
from kchaos.checkers.model.releases.versions import parse_version
from kchaos.checkers.model.values.events import TopicConfigured

_LEAST_LAG_S = 10.0
"""The shortest default of replica.lag.time.max.ms that a release has, in seconds."""
_FETCH_TIMEOUTS = ("replica.socket.timeout.ms", "request.timeout.ms")
"""Up to 1.0 a follower takes the latter (kafka.server.ReplicaFetcherBlockingSend, 0.11.0)."""
_DEFAULT_FETCH_TIMEOUT_MS = 30_000
_MOST_IN_ANSWER_BYTES = {
    "replica.fetch.response.max.bytes": 10 * 1024 * 1024,
    "fetch.max.bytes": 55 * 1024 * 1024,
}
"""Settings that bound the bytes of an answer to a Fetch, with their defaults."""
_LARGEST_BATCH_BYTES = {"message.max.bytes": 1024 * 1024 + 12, "max.message.bytes": 0}
"""Settings of brokers and of topics that bound the bytes of a batch, with their defaults."""
_TIERED = ("remote.storage.enable", "true")


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSetting:
    """One setting.

    Attributes:
        owner: Whose it is: "every broker", "broker 1", "topic t".
        is_tiered: Whether it is of a topic whose log is tiered.
        while_it_ran: Whether a broker was given it while it ran.
    """

    owner: str
    name: str
    value: str
    is_tiered: bool = False
    while_it_ran: bool = False


def given_settings(evidence: RunEvidence) -> Iterator[GivenSetting]:
    """Yield every setting, also one that was later reverted.

    Raises:
        ScenarioDataError: A znode of a configuration has another shape.
    """
    cluster = evidence.scenario.cluster
    yield from _of("every broker", cluster.properties)
    for broker in cluster.brokers:
        yield from _of(f"broker {broker.id}", broker.properties)
    for step in (step.get("do") or step for step in evidence.scenario.steps):
        fault = step.get("fault") or {}
        if fault.get("fault") == "RollBroker":
            yield from _of(f"broker {fault.get('broker')}", dict(fault.get("properties") or ()))
    for broker_name, settings in evidence.broker_configurations:
        owner = "every broker" if broker_name == EVERY_BROKER else f"broker {broker_name}"
        for given in _of(owner, dict(settings)):
            yield replace(given, while_it_ran=not _is_from_the_start(evidence, broker_name, given))
    for timed in evidence.events:
        if isinstance(timed.event, TopicConfigured):
            written = timed.event.configuration
            yield from _of(f"topic {timed.event.topic}", dict(written), _TIERED in written)


def _is_from_the_start(evidence: RunEvidence, broker_name: str, given: GivenSetting) -> bool:
    """Return whether a KRaft controller gives all brokers a setting when it makes the cluster."""
    if not evidence.is_kraft or (broker_name, given.name) != (EVERY_BROKER, MIN_ISR):
        return False
    return len(set(evidence.metadata_logs.min_isrs_of_all)) == 1


def _of(owner: str, settings: Mapping[str, str], is_tiered: bool = False) -> Iterator[GivenSetting]:
    for name, value in settings.items():
        yield GivenSetting(owner=owner, name=name, value=value, is_tiered=is_tiered)


def shortest_lag_s(evidence: RunEvidence) -> float:
    """Return the shortest replica.lag.time.max.ms of all brokers, in seconds.

    Raises:
        ScenarioDataError: One is no whole number.
    """
    cluster = evidence.scenario.cluster
    own = [number_in(cluster.properties_of(broker), LAG) for broker in cluster.brokers]
    stated = [value / 1000 for value in own if value is not None]
    releases = {
        timed.event.release for timed in evidence.events if isinstance(timed.event, StartBroker)
    }
    are_all_stated = own and len(stated) == len(own)
    defaults = () if are_all_stated else map(_default_lag_s, releases)
    return min([*stated, *defaults], default=_LEAST_LAG_S)


def shortest_fetch_timeout_s(evidence: RunEvidence) -> float:
    """Return the shortest time after which a follower gives up a request, in seconds.

    Raises:
        ScenarioDataError: One is no whole number.
    """
    cluster = evidence.scenario.cluster
    stated = [
        number_in(cluster.properties_of(broker), name)
        for broker in cluster.brokers
        for name in _FETCH_TIMEOUTS
    ]
    given = [value for value in stated if value is not None]
    return min([*given, _DEFAULT_FETCH_TIMEOUT_MS]) / 1000


def room_in_answers_bytes(evidence: RunEvidence) -> float:
    """Return the bytes of records up to which an answer to a follower's Fetch has room for more.

    A leader adds the next batch where it fits (ReplicaManager.readFromLocalLog, 1.1.1, 2.8.2 and
    3.8.0). A leader that converts a batch to another format may make it larger.

    Raises:
        ScenarioDataError: One of the settings is no whole number.
    """
    given = [(setting.name, setting.value) for setting in given_settings(evidence)]

    def stated(names: Mapping[str, int]) -> Iterator[int]:
        yield from names.values()
        yield from (number_in({name: value}, name) or 0 for name, value in given if name in names)

    return min(stated(_MOST_IN_ANSWER_BYTES)) - 2 * max(stated(_LARGEST_BATCH_BYTES))


def _default_lag_s(release: str) -> float:
    try:
        return default_lag_s(parse_version(release))
    except ModelError:
        return _LEAST_LAG_S  # The model says what is wrong with it.
