"""Cross-check of acts: the scenario's steps beside ZooKeeper's log and the ends of processes."""

from collections.abc import Iterator, Mapping
from typing import Any

from kchaos.checkers.acts import StartBroker, StopBroker
from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.about import SCENARIO, number_in
from kchaos.checkers.evidence.observed import OBSERVATIONS
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model.values.events import TopicCreated
from kchaos.checkers.observations import Act, BrokerGone

_KILLED = -9
"""Exit code of a process that SIGKILL ended."""
_STOPPED = 143
"""Exit code of a JVM that SIGTERM ended."""


def acts_disagreements(evidence: RunEvidence) -> Iterator[str]:
    """Yield where the cluster's own records contradict the steps of the scenario.

    **Verifies**: that each process ended by the signal that its act sends; that ZooKeeper's log, or
    the metadata log, gives topics the replicas and settings that some step gave them.
    **Does not verify**: acts themselves, which kchaos alone writes down.
    """
    if not evidence.files.has(OBSERVATIONS):
        yield f"{OBSERVATIONS} is missing"
    yield from _ended_otherwise(evidence)
    yield from _assignments(evidence)
    yield from _topic_settings(evidence)


def _ended_otherwise(evidence: RunEvidence) -> Iterator[str]:
    """A process that was asked to stop does not end by SIGKILL, nor a killed one by SIGTERM."""
    stops: dict[tuple[int, int], bool] = {}
    for line in evidence.observed:
        match line.what:
            case Act(act=StopBroker() as act):
                stops[line.step, act.broker] = act.clean
            case BrokerGone(broker=broker, exit_code=exit_code):
                clean = stops.pop((line.step, broker), None)
                if clean is not None and exit_code == (_KILLED if clean else _STOPPED):
                    how = "asked to stop" if clean else "killed"
                    yield f"{line.read_at}: broker {broker} was {how}, and ended with {exit_code}"


def _of(step: Mapping[str, Any], field: str) -> Any:
    if field not in step:
        raise ScenarioDataError(f"{SCENARIO} has a step {step.get('step')} without {field!r}")
    return step[field]


def _topic_settings(evidence: RunEvidence) -> Iterator[str]:
    """A topic's own settings are those with which it was made, or that a step gave it later."""
    steps = evidence.scenario.steps
    made = {_of(step, "topic"): step for step in steps if step.get("step") == "CreateTopic"}
    for topic, settings in evidence.configurations.items():
        wanted = made[topic].get("configuration") if topic in made else None
        if wanted is None:
            continue
        given = {name: {str(value)} for name, value in wanted}
        for name, value in _configured(evidence, topic):
            given.setdefault(name, set()).add(value)
        created = {name for name, _ in wanted}
        if not created <= set(settings) or any(
            value not in given.get(name, ()) for name, value in settings.items()
        ):
            yield f"topic {topic} has the settings {dict(settings)}; {SCENARIO} gave it {wanted}"


def _configured(evidence: RunEvidence, topic: str) -> Iterator[tuple[str, str]]:
    """Settings of a topic that some step may have changed."""
    for step in (step.get("do") or step for step in evidence.scenario.steps):
        fault = step.get("fault")
        if not isinstance(fault, dict) or fault.get("topic") != topic:
            continue
        for name, value in fault.get("configuration") or ():
            yield name, str(value)
        if fault.get("message_format"):
            yield "message.format.version", str(fault["message_format"])
        if fault.get("side"):
            yield f"{fault['side']}.replication.throttled.replicas", "*"


def _assignments(evidence: RunEvidence) -> Iterator[str]:
    """A topic has the replicas that some step gave it.

    A controller writes both while a reassignment goes on: KafkaController.onPartitionReassignment,
    0.10.2.2 to 3.9.1.
    """
    steps = [step.get("do") or step for step in evidence.scenario.steps]
    given: dict[tuple[str, int], list[tuple[int, ...]]] = {}
    for step in steps:
        if step.get("step") == "CreateTopic":
            for number, replicas in enumerate(step.get("assignment") or ()):
                given.setdefault((_of(step, "topic"), number), []).append(tuple(replicas))
    topics = {topic for topic, _ in given}
    for step in steps:
        if step.get("step") in ("ReorderReplicas", "Reassign"):
            partition = (_of(step, "topic"), _of(step, "partition"))
            given.setdefault(partition, []).append(tuple(_of(step, "replicas")))
    former: dict[tuple[str, int], tuple[int, ...]] = {}
    for timed in evidence.events:
        event = timed.event
        if not isinstance(event, TopicCreated) or event.topic not in topics:
            continue
        for number, replicas in enumerate(event.assignment):
            partition = (event.topic, number)
            wanted = given.get(partition, ())
            # While a reassignment goes on, the former replicas stay beside the new ones.
            both = [{*former.get(partition, ()), *each} for each in wanted]
            if replicas not in wanted and {*replicas} not in both:
                yield f"zxid {timed.zxid} gives {event.topic}-{number} {list(replicas)}, as no step"
            former[partition] = replicas


def settings_of(start: StartBroker) -> tuple[object, ...]:
    """The settings with which a broker was started, as `settings_in` has them."""
    return (
        start.inter_broker_protocol,
        start.message_format,
        start.unclean_leader_election,
        start.min_insync_replicas,
        start.replica_fetchers,
    )


def settings_in(properties: Mapping[str, Any]) -> tuple[object, ...]:
    """Those of a broker's properties that a start in actions.jsonl names."""
    return (
        properties.get("inter.broker.protocol.version"),
        properties.get("log.message.format.version"),
        properties.get("unclean.leader.election.enable") == "true",
        1 if (least := number_in(properties, "min.insync.replicas")) is None else least,
        1 if (count := number_in(properties, "num.replica.fetchers")) is None else count,
    )
