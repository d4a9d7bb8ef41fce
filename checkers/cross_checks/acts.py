"""Cross-check of acts: actions.jsonl beside observations.jsonl, scenario and run.json."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from kchaos.checkers.acts import LoseTail, ModelledAct, StartBroker, StopBroker, TopicPartition
from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.about import RUN, SCENARIO, is_release, number_in
from kchaos.checkers.evidence.actions import ACTIONS, TimedEvent
from kchaos.checkers.evidence.observed import OBSERVATIONS, lines_of
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model.values.events import (
    DeleteRecords,
    HighWatermarkObserved,
    PartitionState,
    TopicCreated,
)
from kchaos.checkers.observations import (
    Act,
    AwaitedState,
    BrokerGone,
    HighWatermark,
    HighWatermarkForgotten,
    HighWatermarkKept,
    HighWatermarkNotPinned,
    Observation,
    RecordsDeleted,
    StepBegun,
)

_BEFORE_THE_STEPS = -1
_KILLED = -9
"""Exit code of a process that SIGKILL ended."""
_STOPPED = 143
"""Exit code of a JVM that SIGTERM ended."""
_LEFT = {
    "AwaitFollowing": "state",
    "AwaitHeld": "held",
    "AwaitHighWatermark": "high-watermark",
    "AwaitMessage": "message",
    "AwaitReplicated": "log-end",
    "AwaitState": "state",
    "CreateTopic": "state",
    "Heal": "healed",
    "Inject": "injected",
    "ReorderReplicas": "state",
}
"""Observations that steps leave when they are done."""


def acts_disagreements(evidence: RunEvidence) -> Iterator[str]:
    """Yields what is in one of the files alone, or differs.

    **Verifies**: that acts and high watermarks in checkpoints, one for one, are in actions and in
    observations, with the same fields (what an act only knew afterwards aside), but for acts of a
    step that was not possible or that ended the run; that no process which an act stops ended by
    SIGKILL, nor a killed one by SIGTERM; that each DeleteRecords was answered; that each step left
    its observation, and settling one of each partition; that each broker's first start has the
    release and settings of run.json and scenario.json.
    **Does not verify**: observations of other kinds, which nothing is judged by.
    """
    if not evidence.files.has(OBSERVATIONS):
        yield f"{OBSERVATIONS} is missing"
        return
    actions = [timed for timed in evidence.events if timed.step >= 0 or not _is_start(timed)]
    actions = [timed for timed in actions if timed.zxid >= 0]
    yield from _acts(evidence, actions)
    yield from _high_watermarks(evidence, actions)
    yield from _deleted_records(evidence, actions)
    yield from _ended_otherwise(evidence)
    yield from _other_observations(evidence)
    if evidence.outcome.finished:
        yield from _unobserved(evidence)
        yield from _unseen_in_the_end(evidence)
    yield from _first_starts(evidence)
    yield from _about_the_run(evidence)


def _is_start(timed: TimedEvent) -> bool:
    return isinstance(timed.event, StartBroker)


def _acts(evidence: RunEvidence, actions: list[TimedEvent]) -> Iterator[str]:
    done = _counted(evidence, ((timed.step, timed.event) for timed in actions))
    begun = _counted(
        evidence, ((line.step, begun.act) for line, begun in lines_of(evidence.observed, Act))
    )
    for (step, act), number in (done - begun).items():
        name = type(act).__name__
        yield f"{ACTIONS} has {number} {name} in step {step} that {OBSERVATIONS} has not"
    for (step, act), number in (begun - done).items():
        name = type(act).__name__
        if step not in evidence.undone:
            yield f"{OBSERVATIONS} has {number} {name} in step {step} that {ACTIONS} has not"


def _counted(
    evidence: RunEvidence, happened: Iterable[tuple[int, object]]
) -> Counter[tuple[int, object]]:
    """How often each act is there in each step, without what is known only once it is done."""
    return Counter(
        (step, _as_begun(act))
        for step, act in happened
        if isinstance(act, ModelledAct)
        and not _is_of_controller(evidence, getattr(act, "broker", None))
    )


def _as_begun(act: object) -> object:
    match act:
        case StartBroker():
            return replace(act, placed=())
        case StopBroker():
            return replace(act, checkpointed=None)
        case LoseTail():
            return replace(act, log_end_offset=0)
    return act


def _is_of_controller(evidence: RunEvidence, node: object) -> bool:
    """Tell whether a node is a controller of KRaft, of which the model knows nothing."""
    if not evidence.is_kraft or not isinstance(node, int) or node in evidence.description.brokers:
        return False
    return node in evidence.metadata_logs.copies


def _high_watermarks(evidence: RunEvidence, actions: list[TimedEvent]) -> Iterator[str]:
    acted = Counter(
        (timed.step, e.topic, e.partition, e.broker, e.high_watermark)
        for timed in actions
        if isinstance(e := timed.event, HighWatermarkObserved)
    )
    seen = Counter((line.step, *mark) for line in evidence.observed for mark in _marks(line.what))
    for which, missing_in in ((acted - seen, OBSERVATIONS), (seen - acted, ACTIONS)):
        for step, topic, partition, broker, mark in which:
            yield (
                f"the high watermark {mark} of {topic}-{partition} on broker {broker} that was "
                f"seen in step {step} is not in {missing_in}"
            )


def _marks(what: Observation) -> Iterator[tuple[str, int, int, int]]:
    """Topic, partition, broker and high watermark, as an observation says them."""
    match what:
        case HighWatermark(topic=topic, partition=partition, seen=seen):
            yield from ((topic, partition, broker, mark) for broker, mark in seen.items())
        case HighWatermarkKept(topic=topic, partition=partition, brokers=brokers, value=mark):
            yield from ((topic, partition, broker, mark) for broker in brokers)
        case HighWatermarkForgotten(topic=topic, partition=partition, broker=broker):
            yield topic, partition, broker, 0


def _deleted_records(evidence: RunEvidence, actions: list[TimedEvent]) -> Iterator[str]:
    """Each DeleteRecords was answered, or its step was not possible."""
    asked = Counter((timed.step, *_deletion(timed.event)) for timed in actions)
    answered = Counter((line.step, *_deletion(line.what)) for line in evidence.observed)
    for which, missing_in in ((asked - answered, OBSERVATIONS), (answered - asked, ACTIONS)):
        for step, *deletion in which:
            if deletion and not (missing_in == OBSERVATIONS and step in evidence.undone):
                broker, topic, partition, offset = deletion
                yield (
                    f"the DeleteRecords of {topic}-{partition} before {offset} that broker "
                    f"{broker} was asked for in step {step} is not in {missing_in}"
                )


def _deletion(what: object) -> tuple[int, str, int, int] | tuple[()]:
    """Broker, topic, partition and first offset that is kept, of a DeleteRecords."""
    if isinstance(what, DeleteRecords | RecordsDeleted):
        return what.broker, what.topic, what.partition, what.before_offset
    return ()


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


def _unobserved(evidence: RunEvidence) -> Iterator[str]:
    """Each step is observed when it begins, and many once more when their gate holds."""
    seen: dict[int, set[str]] = {}
    for observation in evidence.observed:
        seen.setdefault(observation.step, set()).add(observation.kind)
    for number, step in enumerate(step.get("do") or step for step in evidence.scenario.steps):
        name = str(step.get("step"))
        wanted = {"step"} | (
            {_LEFT[name]} if name in _LEFT and number not in evidence.undone else set()
        )
        for kind in sorted(wanted - seen.get(number, set())):
            yield f"{OBSERVATIONS} has no {kind} of step {number}, {name}"


def _unseen_in_the_end(evidence: RunEvidence) -> Iterator[str]:
    """Settling that converged looked for each partition's high watermark in checkpoints.

    Where one did not come in time it says so, and then others may be missing too.
    """
    settle, ended = evidence.outcome.settle, len(evidence.scenario.steps)
    last = [observation for observation in evidence.observed if observation.step >= ended]
    in_vain = any(lines_of(last, HighWatermarkNotPinned))
    if settle is None or settle.state != "converged" or in_vain:
        return
    marks = lines_of(last, HighWatermark)
    seen = {TopicPartition(mark.topic, mark.partition).name for _, mark in marks}
    for name in sorted({*(settle.last_seen or {})} - seen):
        yield f"{OBSERVATIONS} has no high-watermark of {name} from after the last step"


def _other_observations(evidence: RunEvidence) -> Iterator[str]:
    steps = evidence.scenario.steps
    states = {
        (e.topic, e.partition, e.leader, e.leader_epoch, e.isr)
        for timed in evidence.decisions
        if isinstance(e := timed.event, PartitionState)
    }
    for line in evidence.observed:
        what = line.what
        broker = getattr(what.act if isinstance(what, Act) else what, "broker", None)
        if (
            isinstance(broker, int)
            and broker not in evidence.description.brokers
            and not _is_of_controller(evidence, broker)
        ):
            yield f"{OBSERVATIONS}: {line.kind} of broker {broker}, which is none of the run's"
        if isinstance(what, StepBegun) and line.step < len(steps):
            step = steps[line.step]
            wanted = (step.get("do") or step).get("step")
            if what.name != wanted:
                yield f"{OBSERVATIONS}: step {line.step} was {what.name}, not {wanted}"
        if isinstance(what, AwaitedState) and what.state is not None:
            state = what.state
            told = (what.topic, what.partition, state.leader, state.leader_epoch, state.isr)
            if told not in states:
                yield (
                    f"{OBSERVATIONS}: a state was seen that never was written: "
                    f"{what.topic}-{what.partition} with leader {state.leader}, leader epoch "
                    f"{state.leader_epoch} and ISR {list(state.isr)}"
                )


def _about_the_run(evidence: RunEvidence) -> Iterator[str]:
    described, scenario = evidence.description, evidence.scenario
    for name in ("entry", "case", "seed"):
        if getattr(described, name) != getattr(scenario, name):
            yield f"{RUN} and {SCENARIO} name another {name}"
    # A cluster that is rolled to another release is one of that release.
    named = {scenario.release, *(broker.release for broker in described.brokers.values())}
    if described.brokers and described.release not in named:
        yield f"{RUN} names release {described.release}, and neither {SCENARIO} nor a broker has it"
    yield from _assignments(evidence)
    yield from _topic_settings(evidence)


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


def _first_starts(evidence: RunEvidence) -> Iterator[str]:
    first: dict[int, StartBroker] = {}
    for timed in evidence.events:
        if isinstance(timed.event, StartBroker) and timed.step == _BEFORE_THE_STEPS:
            first.setdefault(timed.event.broker, timed.event)
    known = evidence.description.brokers
    if set(first) != set(known):
        yield f"{RUN} names brokers {sorted(known)}, and {ACTIONS} starts {sorted(first)} first"
        return
    cluster = evidence.scenario.cluster
    specified = {broker.id: broker for broker in cluster.brokers}
    if set(specified) != set(known):
        yield f"{RUN} names brokers {sorted(known)}, and {SCENARIO} {sorted(map(str, specified))}"
        return
    is_mixed = len({ran.release for ran in known.values()}) > 1
    for broker, start in first.items():
        ran, spec = known[broker], specified[broker]
        own: dict[str, str | None] = {**cluster.properties_of(spec)}
        if is_mixed:  # Then kchaos itself chooses the oldest protocol and format.
            own.setdefault("inter.broker.protocol.version", start.inter_broker_protocol)
            own.setdefault("log.message.format.version", start.message_format)
        if start.release != ran.judged_as:
            yield f"broker {broker} was started as {start.release}; {RUN} says {ran.judged_as}"
        released = {spec.judged_as or spec.kafka, ran.judged_as, ran.release}
        # A path is no release, and a build of one's own is judged by another one's rules.
        if is_release(spec.kafka) and len(released) > 1:
            others = ", ".join(sorted(released))
            yield f"broker {broker} has other releases in {RUN} and {SCENARIO}: {others}"
        if settings_of(start) != settings_in(own):
            yield f"broker {broker} was started with other settings than {SCENARIO} has"


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
