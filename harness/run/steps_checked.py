"""Steps that no cluster could take and witnesses that no run could have, refused beforehand."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from kchaos.checkers.evidence.forms import check_step
from kchaos.checkers.json_form import ShapeError
from kchaos.checkers.witness import misspelt_witness
from kchaos.faults.view import refused_by_mode
from kchaos.harness.errors import ScenarioError
from kchaos.harness.play.workload import cannot_run
from kchaos.harness.run.scenario import Scenario, step_to_json
from kchaos.harness.steps.free_clients import StartClients, StartWorkload
from kchaos.harness.steps.if_possible import IfPossible
from kchaos.harness.steps.observing import AwaitLog
from kchaos.harness.steps.scenario_steps import CreateTopic, Heal, Inject, Step, TakeSnapshot

_ONE_BROKER = ("broker", "source", "target", "follower", "leader")
_SEVERAL_BROKERS = ("brokers", "replicas", "isr")


def check_steps(scenario: Scenario) -> None:  # noqa: C901
    """Refuse steps that can only end a run as unknown; `IfPossible` may be impossible.

    Brokers that are named and what clients need are looked at there too: no play makes them
    possible later.

    Raises:
        ScenarioError: A step names a broker that the cluster does not have, heals what does not
            act, injects under a name that still acts, takes a snapshot under a label for the
            second time, starts clients that nothing would see, or a command that is not there,
            or has a field that whoever judges takes for something else;
            or a witness of the expectation has no documented form.
    """
    wanted = (scenario.expectation or {}).get("witness", ())
    for number, witness in enumerate(wanted if isinstance(wanted, list | tuple) else (wanted,)):
        if why := misspelt_witness(witness):
            raise ScenarioError(f"expectation: witness[{number}]: {why}")
    known = sorted(broker.id for broker in scenario.cluster.brokers)
    acting: set[str] = set()
    perhaps: set[str] = set()
    labels: set[str] = set()
    for number, step in enumerate(scenario.steps):
        done = step.do if isinstance(step, IfPossible) else step
        _check_fields(f"step {number} ({type(done).__name__})", done)
        if isinstance(done, StartWorkload) and (why := cannot_run(done.command)):
            raise ScenarioError(f"step {number} (StartWorkload): {why}")
        if isinstance(done, StartClients | StartWorkload) and not scenario.cluster.client_links:
            raise ScenarioError(
                f"step {number} ({type(done).__name__}): what clients are promised is seen by "
                "links in front of brokers: ClusterSpec(client_links=True)"
            )
        place = f"step {number} ({type(done).__name__})"
        # A fault may mean a KRaft controller, and a log may be its own.
        controllers = scenario.cluster.controller_ids if isinstance(done, Inject | AwaitLog) else ()
        nodes = [*known, *controllers]
        for named in _brokers_of(done):
            if named not in nodes:
                raise ScenarioError(
                    f"{place}: the cluster has no broker {named}; it has {_listed(nodes)}"
                )
        if isinstance(step, IfPossible):
            # Its fault may act from then on, or may act no more.
            if isinstance(done, Inject | Heal):
                perhaps.add(done.name)
        elif isinstance(step, Inject):
            if step.name in acting:
                raise ScenarioError(f"{place}: a fault named {step.name!r} acts already: heal it")
            acting |= {step.name} if step.fault.lasting else set()
        elif isinstance(step, Heal):
            if step.name not in acting | perhaps:
                raise ScenarioError(
                    f"{place}: no fault named {step.name!r} acts; those that do: {_listed(acting)}"
                )
            acting.discard(step.name)
        elif isinstance(step, TakeSnapshot):
            if step.label in labels:
                raise ScenarioError(f"{place}: there is a snapshot {step.label!r} already")
            labels.add(step.label)


def _listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, sorted(values, key=str))) or "none"


def _check_fields(place: str, step: Step) -> None:
    """Check the types of the fields that the judge reads of every step."""
    try:
        check_step(step_to_json(step))
    except ShapeError as error:
        raise ScenarioError(
            f"{place}: {error}; kchaos reads a field of that name in every step and fault: give "
            "yours another name, or that type"
        ) from error


def check_modes(scenario: Scenario, releases: Mapping[str, str]) -> None:
    """Refuse faults of ZooKeeper with KRaft, and faults of KRaft with ZooKeeper.

    Args:
        scenario: What is to be played.
        releases: The release of each Kafka that the scenario names.

    Raises:
        ScenarioError: A fault cannot act; the message names its counterpart.
    """
    spec = scenario.cluster
    by_broker = {broker.id: releases[broker.kafka] for broker in spec.brokers}
    for number, step in enumerate(scenario.steps):
        if not isinstance(step, Inject):
            continue
        if why := refused_by_mode(step.fault, spec, by_broker):
            name = type(step.fault).__name__
            raise ScenarioError(f"step {number} (Inject): {name} cannot act: {why}")


def _brokers_of(step: Any) -> Iterator[int]:
    for part in (step, getattr(step, "fault", None)):
        for name in _ONE_BROKER:
            value = getattr(part, name, None)
            # A partition without a leader has leader -1.
            if isinstance(value, int) and (name, value) != ("leader", -1):
                yield value
        for name in _SEVERAL_BROKERS:
            several = getattr(part, name, ())
            yield from several if isinstance(several, tuple) else ()
    if isinstance(step, CreateTopic):
        yield from chain.from_iterable(step.assignment)
