"""Partitions apart: a record of some partitions, as if links had seen no other.

A search over many partitions at once looks at every order of steps that have nothing to do with
each other. What ties partitions together is their order in messages alone: a fetcher asks for all
of a leader's partitions in one Fetch, which that leader reads and counts one by one. So a record
that the model explains is mostly explained partition by partition too.
"""

import gc
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from functools import cache, partial
from itertools import chain
from typing import Any

from kchaos.checkers import acts
from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.children import dying_with_parent
from kchaos.checkers.model.broker.exchange import FETCH
from kchaos.checkers.model.controller.recorded import unexplained
from kchaos.checkers.model.follow.observations import (
    METADATA_LOG,
    ClientAnswered,
    ControlAnswered,
    ControlSent,
    Fate,
    FetchAnswered,
    IsrAnswered,
    IsrAsked,
    Number,
    Observation,
    Record,
    RequestSeen,
    ResponseSeen,
    Seen,
)
from kchaos.checkers.model.follow.search import (
    PATIENCE,
    follow,
    progress,
    suspected,
    watching_search,
)
from kchaos.checkers.model.releases.asked import who_watches
from kchaos.checkers.model.values.events import TopicCreated
from kchaos.checkers.model.values.prediction import Prediction
from kchaos.checkers.model.values.replacing import replace

TOGETHER = 100
"""Of more partitions than these each is followed by itself."""
LONG = 10_000
"""Of a record of more observations than these each partition is followed by itself first."""
IN_CHILDREN = 1_000
"""Where there are more observations than these a partition, child processes follow them."""

_IsLeftOut = Callable[[str | TopicPartition], bool]


def follow_run(record: Record, *, patience: int = PATIENCE) -> Prediction:
    """Return what the model predicts of a run: of many partitions each is followed by itself.

    So it is under load too, where messages tell of several partitions each, and clients have many
    requests in flight. Where that leaves anything unexplained, all are followed together.
    What nothing explains there is a suspect: a fetcher goes on for other partitions, where it would
    have ended without them. Where a search over fewer has not looked at all that there is, each is
    followed by itself too. If each is explained, what the search came to is a suspect as well.

    For the arguments and what it raises see `search.follow`.
    """
    partitions = partitions_of(record)
    if len(partitions) > TOGETHER:
        return _followed_apart(record, partitions, patience)
    if len(record.seen) > LONG and len(partitions) > 1:
        alone = _followed_apart(record, partitions, patience)
        if alone.emptied_by is None:
            return alone
    prediction = follow(record, patience=patience)
    suspect = prediction.emptied_by
    if suspect is None or suspect.is_proved or prediction.limit or len(partitions) < 2:
        return prediction
    alone = _followed_apart(record, partitions, patience // 4)
    states = prediction.states + alone.states
    limit = suspected(suspect, states) if alone.emptied_by is None else ""
    return replace(prediction, limit=limit, states=states)


def partitions_of(record: Record) -> list[TopicPartition]:
    """Return the partitions that a record has, ascending."""
    made = (each.what for each in record.decided if isinstance(each.what, TopicCreated))
    return sorted(
        {
            TopicPartition(created.topic, number)
            for created in made
            for number in range(len(created.assignment))
        }
    )


def _followed_apart(
    record: Record, partitions: Sequence[TopicPartition], patience: int
) -> Prediction:
    tell, of_all = progress(), len(record.seen) + len(record.decided)
    predictions: list[Prediction] = []
    records = apart(replace(record, decisions=None), partitions)
    # What a child asks of the rules nobody watches here.
    is_long = len(record.seen) > IN_CHILDREN * len(partitions) and who_watches() is None
    with watching_search(None), ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        follow_one = partial(_followed_by_child if is_long else follow, patience=patience)
        for prediction in pool.map(follow_one, records) if is_long else map(follow_one, records):
            predictions.append(prediction)
            if tell is not None:
                tell(of_all * len(predictions) // len(partitions), of_all)
    decisions = () if record.decisions is None else tuple(unexplained(record.decisions))
    return replace(joined(predictions), unexplained=decisions)


def _followed_by_child(record: Record, *, patience: int) -> Prediction:
    """Return what a child process comes to, so that another core follows the next partition."""
    child = subprocess.run(
        [sys.executable, "-m", __name__],
        input=pickle.dumps((record, patience)),
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=dying_with_parent(),
        check=True,
    )
    prediction: Prediction = pickle.loads(child.stdout)
    return prediction


def _as_child() -> None:
    gc.disable()
    record, patience = pickle.load(sys.stdin.buffer)
    pickle.dump(follow(record, patience=patience), sys.stdout.buffer)


def joined(predictions: Sequence[Prediction]) -> Prediction:
    """Return one prediction of all partitions, of predictions of each by itself.

    The first observation that nothing explains is a suspect.
    """
    states = sum(each.states for each in predictions)
    named = (each.emptied_by for each in predictions if each.emptied_by is not None)
    suspect = next(named, None)
    labels = dict.fromkeys(chain.from_iterable(each.snapshots for each in predictions))
    remote = dict.fromkeys(chain.from_iterable(each.remote for each in predictions))
    return Prediction(
        snapshots={
            label: tuple(
                sorted(
                    chain.from_iterable(each.snapshots.get(label, ()) for each in predictions),
                    key=lambda replica: (replica.broker, replica.topic, replica.partition),
                )
            )
            for label in labels
        },
        remote={
            label: tuple(chain.from_iterable(each.remote.get(label, ()) for each in predictions))
            for label in remote
        },
        produces=_all(predictions, "produces"),
        rounds=_all(predictions, "rounds"),
        truncations=_all(predictions, "truncations"),
        disallowed=_all(predictions, "disallowed"),
        impossible=_all(predictions, "impossible"),
        reads=_all(predictions, "reads"),
        unavoidable=_all(predictions, "unavoidable"),
        moments=_all(predictions, "moments"),
        generations=dict(chain.from_iterable(each.generations.items() for each in predictions)),
        emptied_by=None if suspect is None else replace(suspect, is_proved=False),
        limit="" if suspect is None else suspected(suspect, states),
        states=states,
        never_rests=any(each.never_rests for each in predictions),
    )


def _all(predictions: Sequence[Prediction], name: str) -> tuple[Any, ...]:
    return tuple(chain.from_iterable(getattr(each, name) for each in predictions))


def apart(record: Record, partitions: Sequence[TopicPartition]) -> Iterator[Record]:
    """Yield a record of each partition by itself; halves are made first, which costs less."""
    if len(partitions) <= 1:
        yield record
        return
    middle = len(partitions) // 2
    for half in (partitions[:middle], partitions[middle:]):
        yield from apart(of_partitions(record, half), half)


def without_topics(record: Record, topics: Container[str]) -> Record:
    """Return a record in which nothing is said of some topics, as nothing is of internal ones."""
    return _without(record, lambda about: _topic(about) in topics)


def of_partitions(record: Record, partitions: Sequence[TopicPartition]) -> Record:
    """Return a record in which nothing is said of other partitions."""
    kept, topics = frozenset(partitions), {partition.topic for partition in partitions}

    def is_left_out(about: str | TopicPartition) -> bool:
        return about not in (topics if isinstance(about, str) else kept)

    return _without_idle(_without(record, is_left_out))


def _without(record: Record, is_left_out: _IsLeftOut) -> Record:
    seen: list[Seen] = []
    gone: set[str] = set()
    for item in record.seen:
        what = item.what
        is_message = isinstance(what, RequestSeen | ResponseSeen | acts.Hold)
        if not is_message and _is_about(what, is_left_out):
            gone.add(getattr(what, "operation", ""))
            continue
        if isinstance(what, Observation | acts.StopBroker):
            rest = _of_others(what, is_left_out)
            item = item if rest is what else replace(item, what=rest)
        is_answer = isinstance(what, ClientAnswered) and what.operation in gone
        if not is_answer and not _says_nothing(item.what):
            seen.append(item)
    return replace(
        record,
        seen=tuple(seen),
        decided=tuple(each for each in record.decided if not _is_about(each.what, is_left_out)),
        deleting=_rest(record.deleting, is_left_out),
        remote_deleted=_rest(record.remote_deleted, is_left_out),
    )


def _topic(about: str | TopicPartition) -> str:
    return about if isinstance(about, str) else about.topic


def _is_about(item: Any, is_left_out: _IsLeftOut) -> bool:
    """Return whether it, or what it has or begins with, is a topic or partition to leave out."""
    if isinstance(item, tuple) and item and not hasattr(item, "topic"):
        return _is_about(item[0], is_left_out)
    if isinstance(item, str | TopicPartition):
        return is_left_out(item)
    partition = getattr(item, "partition", None)
    topic = getattr(item, "topic", None)
    if isinstance(topic, str):
        return is_left_out(topic if partition is None else TopicPartition(topic, partition))
    return isinstance(partition, TopicPartition) and is_left_out(partition)


def _rest(value: Any, is_left_out: _IsLeftOut) -> Any:
    if isinstance(value, dict):
        return {key: each for key, each in value.items() if not _is_about(key, is_left_out)}
    if isinstance(value, tuple | frozenset) and not hasattr(value, "topic"):
        return type(value)(each for each in value if not _is_about(each, is_left_out))
    return value


def _of_others(what: Any, is_left_out: _IsLeftOut) -> Any:
    """Return what was seen without what it says of others; as it is where that is nothing."""
    left: dict[str, Any] = {}
    kind: Any = type(what)
    for name in _names_of_fields(kind):
        value = getattr(what, name)
        if value and isinstance(value, dict | tuple | frozenset):
            rest = _rest(value, is_left_out)
            if len(rest) != len(value):
                left[name] = rest
    if "partitions" in left and isinstance(what, ResponseSeen):
        others = [
            answer
            for partition, answer in what.partitions.items()
            if isinstance(answer, FetchAnswered) and is_left_out(partition)
        ]
        carries = not what.has_room and any(answer.last_offset is not None for answer in others)
        left["answers_others"] = what.answers_others or any(answer.has_news for answer in others)
        left["carries_others"] = what.carries_others or carries
    return replace(what, **left) if left else what


@cache
def _names_of_fields(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.name != "number")


def _says_nothing(what: object) -> bool:
    """Return whether a message is about topics alone that are left out."""
    match what:
        case RequestSeen():
            return what.is_full and not what.partitions
        case ResponseSeen():
            return what.api == "ListOffsets" and not what.partitions
        case IsrAsked():
            return not what.isrs
        case IsrAnswered():
            return not (what.isrs or what.refused or what.failed)
    return False


def _without_idle(record: Record) -> Record:
    """Return a record without what links would not have recorded of its partitions alone.

    That is a Fetch that repeats the one before, with its answer, unless others' records may have
    left no room there; each message of a connection on which no partition is ever asked for; and a
    control request that changes nothing, with its answer.
    """
    fetchers = {
        item.what.number[0]
        for item in record.seen
        if isinstance(item.what, RequestSeen | ResponseSeen) and _names(item.what)
    }
    kept: set[Number] = set()
    last: dict[int, tuple[object, ...]] = {}
    for item in record.seen:
        match item.what:
            case RequestSeen() | ResponseSeen() if item.what.number[0] in fetchers:
                if not _is_idle(item.what):
                    kept.add(item.what.number)
            case ControlSent() as sent:
                state = _controls(sent, last.get(sent.broker, ()))
                if _tells(sent) or state != last.get(sent.broker):
                    kept.add(sent.number)
                last[sent.broker] = state
            case acts.StartBroker():
                last.pop(item.what.broker, None)
    numbered = RequestSeen | ResponseSeen | ControlSent | ControlAnswered
    return replace(
        record,
        seen=tuple(
            item
            for item in record.seen
            if not isinstance(item.what, numbered) or item.what.number in kept
        ),
    )


def _names(what: RequestSeen | ResponseSeen) -> bool:
    return bool(what.partitions) or (isinstance(what, RequestSeen) and bool(what.forgotten))


def _is_idle(what: RequestSeen | ResponseSeen) -> bool:
    if what.api != FETCH or what.fate is not Fate.ARRIVES or _names(what):
        return False
    if isinstance(what, RequestSeen):
        return not what.is_full
    return not (what.error_code or what.carries_others)


def _tells(sent: ControlSent) -> bool:
    is_open = sent.api == "UpdateMetadata" and sent.live is None
    return is_open or bool(
        sent.states or sent.stopped or sent.told or sent.deleted or sent.topic_ids or sent.replicas
    )


def _controls(sent: ControlSent, before: tuple[object, ...]) -> tuple[object, ...]:
    """Return who controls a broker, and what it knows of others, once it has a request."""
    who = (sent.controller, sent.controller_epoch, sent.broker_epoch)
    if sent.api in ("UpdateMetadata", METADATA_LOG):
        return (*who, sent.live, sent.registered, sent.epochs)
    return (*who, *before[3:])


if __name__ == "__main__":
    _as_child()
