"""All decisions of a run, with what else bears on the controllers and leaders that wrote them."""

import math
from collections.abc import Mapping

from kchaos.checkers.acts import (
    AskBrokerToStop,
    FailLogDirectory,
    RestoreLogDirectory,
    StaleRequest,
    StartBroker,
    StopBroker,
    TopicPartition,
)
from kchaos.checkers.errors import ModelError
from kchaos.checkers.evidence.given_settings import shortest_lag_s
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.zookeeper import controller_epochs, wanted_replicas
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.model.controller.knowledge import (
    CLOCKS_S,
    ControllerRelease,
    RecordedDecisions,
)
from kchaos.checkers.model.follow.observations import ControlAnswered
from kchaos.checkers.model.releases.composition import asks_controller_for_isr, generation_of
from kchaos.checkers.model.releases.versions import parse_version
from kchaos.checkers.model.state.world import UNCLEAN
from kchaos.checkers.model.values.events import Decided, Decision


def recorded_decisions(evidence: RunEvidence) -> RecordedDecisions:
    """Return the decisions of a run with ZooKeeper, internal topics included.

    Raises:
        ScenarioDataError: A znode holds no JSON of Kafka's shape, or replica.lag.time.max.ms is no
            whole number.
    """
    return RecordedDecisions(
        decided=tuple(
            Decided(what=timed.event, time=timed.time)
            for timed in evidence.decisions
            if isinstance(timed.event, Decision)
        ),
        epochs=controller_epochs(evidence.znode_changes),
        clean_stops=_clean_stops(evidence),
        offline=_offline(evidence),
        lag_s=shortest_lag_s(evidence),
        has_alter_isr=any(
            asks_controller_for_isr(start) is not False for start in _started(evidence)
        ),
        releases=_releases(evidence),
        wanted=wanted_replicas(evidence.znode_changes),
        deletions=evidence.deletions,
        asked_unclean=evidence.asked_unclean if _takes_unclean_requests(evidence) else frozenset(),
        unclean_of_brokers=_unclean_of_brokers(evidence),
    )


def _clean_stops(evidence: RunEvidence) -> dict[int, tuple[float, ...]]:
    """Return the earliest times at which the controller may have allowed each broker's shutdown."""
    moments: dict[int, tuple[float, ...]] = {}
    for timed in evidence.events:
        event = timed.event
        is_late = isinstance(event, StaleRequest) and event.api == "ControlledShutdown"
        is_asked = isinstance(event, AskBrokerToStop)
        if is_late or is_asked or (isinstance(event, StopBroker) and event.clean):
            assert isinstance(event, StaleRequest | AskBrokerToStop | StopBroker)
            begun = timed.time if timed.began is None else timed.began
            moments[event.broker] = (*moments.get(event.broker, ()), begun - CLOCKS_S)
    return moments


def _offline(
    evidence: RunEvidence,
) -> Mapping[tuple[TopicPartition, int], list[tuple[float, float]]]:
    """Return each replica's longest possible periods with a failed log directory.

    So a controller takes a replica whose broker answers KAFKA_STORAGE_ERROR, until it does not.
    """
    periods: dict[tuple[TopicPartition, int], list[tuple[float, float]]] = {}
    for timed in evidence.events:
        event = timed.event
        if isinstance(event, FailLogDirectory):
            begun = timed.time if timed.began is None else timed.began
            restored = (
                later.time
                for later in evidence.events
                if isinstance(later.event, RestoreLogDirectory)
                and (later.event.broker, later.event.directory) == (event.broker, event.directory)
                and later.time > timed.time
            )
            until = min(restored, default=math.inf)
            for each in event.partitions:
                times = periods.setdefault((TopicPartition(*each), event.broker), [])
                times.append((begun - CLOCKS_S, until))
    refused: dict[tuple[TopicPartition, int], float] = {}
    for message in evidence.links or ():
        if isinstance(answer := message.said, ControlAnswered) and answer.api == "LeaderAndIsr":
            for partition, code in answer.errors.items():
                key = (partition, answer.broker)
                if code == ErrorCode.KAFKA_STORAGE_ERROR:
                    refused.setdefault(key, message.wall_time_s - CLOCKS_S)
                elif key in refused:
                    until = message.wall_time_s + CLOCKS_S
                    periods.setdefault(key, []).append((refused.pop(key), until))
    for key, since in refused.items():
        periods.setdefault(key, []).append((since, math.inf))
    return periods


def _releases(evidence: RunEvidence) -> frozenset[ControllerRelease]:
    """Return the controllers' behaviour, by the releases of all started brokers."""
    releases = set()
    for broker in _started(evidence):
        try:
            generation = generation_of(broker)
        except ModelError:
            continue  # The model says what is wrong with it.
        release = ControllerRelease(
            isr_without=generation.isr_without,
            isr_of_preferred=generation.proposed.isr_of_preferred,
            elects_all_again=generation.elects_all_again,
            removes_offline_at_start=generation.removes_offline_at_start,
        )
        releases.add(release)
    return frozenset(releases)


def _unclean_of_brokers(evidence: RunEvidence) -> frozenset[bool]:
    """Return the brokers' values for topics that have no setting of their own."""
    if any(UNCLEAN in dict(settings) for _, settings in evidence.broker_configurations):
        return frozenset((False, True))
    return frozenset(broker.unclean_leader_election for broker in _started(evidence))


def _started(evidence: RunEvidence) -> list[StartBroker]:
    return [timed.event for timed in evidence.events if isinstance(timed.event, StartBroker)]


def _takes_unclean_requests(evidence: RunEvidence) -> bool:
    """Return whether a broker may be of a release with ElectLeaders version 1 (KIP-460, 2.4.0)."""
    try:
        return any(parse_version(start.release) >= (2, 4) for start in _started(evidence))
    except ModelError:
        return True  # The model says what is wrong with it.
