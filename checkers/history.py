"""What clients and links recorded: operations, and questions for leader epochs.

`history.jsonl` has a line when an operation is invoked and one when it ends: "ok", "fail" (it had
no effect) or "info" (nobody knows). Beside the documented fields a read's "ok" line has "records",
the values that it got, and "base_offset", the offset of the first; "promised" there means that
they lay below the leader's high watermark, as every record that a consumer gets does. "probe" is
true in the lines of a write with which settling tries whether the partition works.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from checkers.errors import ScenarioDataError
from checkers.model.prediction import EpochRound
from checkers.run_directory import RunDirectory
from checkers.segments.batch import Record, payload_digest

FETCH = 1
OFFSET_FOR_LEADER_EPOCH = 23
ARRIVED = ("passed", "released", "delayed")
LINK_LOG = "links.jsonl"
_PROBE_PREFIX = "settle-"
"""How settling names its writes; older histories mark them by nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of one client on one partition.

    Attributes:
        function: "produce" or "read".
        acks: 0, 1 or -1 (all); 1 for a read, where it means nothing.
        outcome: "ok", "fail", "info", or "pending" if nothing came before the run ended.
        promised: Whether Kafka promised to keep its records.
        payloads: `payload_digest` of each record alone, in order.
        base_offset: Offset of the first record, or -1.
        error: What came back instead, or "".
        error_code: Kafka's number of the error, or 0.
        invoked_at: Seconds since the epoch.
        ended_at: Likewise, or None.
        isr_when_ended: The ISR in ZooKeeper when it ended.
        is_probe: Whether settling wrote it to see if the partition still works: the scenario did
            not ask for it.
    """

    operation: str
    function: str
    broker: int
    topic: str
    partition: int
    acks: int
    outcome: str
    promised: bool
    payloads: tuple[str, ...]
    base_offset: int = -1
    error: str = ""
    error_code: int = 0
    invoked_at: float = 0.0
    ended_at: float | None = None
    isr_when_ended: tuple[int, ...] = ()
    is_probe: bool = False

    @property
    def last_offset(self) -> int:
        """Offset of the last record, inclusive; -1 without a base offset."""
        return -1 if self.base_offset < 0 else self.base_offset + len(self.payloads) - 1


def operations(run: RunDirectory) -> tuple[Operation, ...]:
    """The operations of history.jsonl, in the order in which they were invoked.

    Raises:
        ScenarioDataError: A line lacks a field, or ends what was never invoked.
    """
    found: dict[str, Operation] = {}
    for number, line in enumerate(run.read_lines("history.jsonl"), start=1):
        try:
            name = line["operation"]
            _check_numbers(line)
            if line["type"] == "invoke":
                found[name] = _invoked(line)
            else:
                found[name] = _ended(found[name], line)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ScenarioDataError(
                f"{run.path / 'history.jsonl'}:{number} is no line of an operation that was "
                f"invoked before: {error!r}"
            ) from error
    return tuple(found.values())


def round_in_words(one: EpochRound) -> str:
    """A question for a leader epoch and its answer, for people."""
    asked = f"broker {one.follower} asked broker {one.leader} for epoch {one.requested_epoch}"
    if one.by_fetch:
        asked += " in a Fetch"
    epoch = "" if one.answered_epoch is None else f"epoch {one.answered_epoch} and "
    return f"{asked}, answered with {epoch}end offset {one.end_offset}"


def record_payload(value: str | None) -> str:
    """`payload_digest` of one record with a null key and this value."""
    content = None if value is None else value.encode()
    return payload_digest([Record(offset=0, timestamp=-1, key=None, value=content)])


def _check_numbers(line: Mapping[str, Any]) -> None:
    for name in ("broker", "partition", "acks", "base_offset", "error_code"):
        if not isinstance(line.get(name), int | None):
            raise TypeError(f"{name} is no whole number: {line[name]!r}")


def _invoked(line: Mapping[str, Any]) -> Operation:
    return Operation(
        operation=line["operation"],
        function=line["function"],
        broker=line["broker"],
        topic=line["topic"],
        partition=line["partition"],
        acks=line.get("acks", 1),
        outcome="pending",
        promised=False,
        payloads=tuple(record_payload(value) for value in line.get("records") or ()),
        invoked_at=line["time"],
        is_probe=bool(line.get("probe", line["operation"].startswith(_PROBE_PREFIX))),
    )


def _ended(operation: Operation, line: Mapping[str, Any]) -> Operation:
    records = line.get("records")
    return replace(
        operation,
        outcome=line["type"],
        promised=bool(line.get("promised", False)),
        payloads=(
            operation.payloads
            if records is None
            else tuple(record_payload(value) for value in records)
        ),
        base_offset=-1 if line.get("base_offset") is None else line["base_offset"],
        error=line.get("error") or "",
        error_code=line.get("error_code") or 0,
        ended_at=line["time"],
    )


def epoch_rounds(run: RunDirectory) -> tuple[EpochRound, ...] | None:
    """Every answered question for a leader epoch that reached a follower, in that order.

    These are the answers without error to OffsetForLeaderEpoch (KIP-101), and the diverging epochs
    in Fetch responses (KIP-595, used between brokers from 2.7 on). A message that was held counts
    when it was released; an answer whose asker had hung up (`abandoned`) never. None without
    links.jsonl.

    Raises:
        ScenarioDataError: A message lacks a documented field.

    **Does not verify**: requests whose version the links could not read, and those of a sender
    that they could not tell (a consumer's, for instance).
    """
    if not (run.path / LINK_LOG).is_file():
        return None
    try:
        return tuple(_rounds(link_records(run)))
    except (AttributeError, KeyError, TypeError) as error:
        raise ScenarioDataError(
            f"{run.path / 'links.jsonl'} has a message without the documented fields: {error!r}"
        ) from error


def link_records(run: RunDirectory) -> Iterator[dict[str, Any]]:
    """The lines of links.jsonl, one message each, in the order in which they passed."""
    yield from run.read_lines(LINK_LOG)


def _rounds(records: Iterator[dict[str, Any]]) -> Iterator[EpochRound]:
    asked: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    # A fetch session (KIP-227) leaves out a partition about which nothing has changed.
    fetched: dict[tuple[int, int], dict[tuple[str, int], Mapping[str, Any]]] = {}
    for record in records:
        if record["api_key"] not in (FETCH, OFFSET_FOR_LEADER_EPOCH):
            continue
        if record["fate"] not in ARRIVED or record["detail"] is None:
            continue
        exchange = (record["connection"], record["correlation_id"])
        partitions = record["detail"].get("partitions", ())
        if record["source"] is None or record["target"] is None:
            continue
        if record["direction"] == "request" and record["api_key"] == FETCH:
            known = fetched.setdefault((record["source"], record["target"]), {})
            known.update({(entry["topic"], entry["partition"]): entry for entry in partitions})
            asked[exchange] = list(known.values())
        elif record["direction"] == "request":
            asked[exchange] = list(partitions)
        else:
            yield from _answers(record, asked.pop(exchange, []), partitions)


def _answers(
    record: Mapping[str, Any],
    asked: Sequence[Mapping[str, Any]],
    answered: Sequence[Mapping[str, Any]],
) -> Iterator[EpochRound]:
    by_fetch = record["api_key"] == FETCH
    questions = {(entry.get("topic"), entry["partition"]): entry for entry in asked}
    for answer in answered:
        name = answer.get("topic"), answer["partition"]
        given = answer.get("diverging_epoch") if by_fetch else answer
        if answer.get("error_code") or not given or name[0] is None:
            continue
        if by_fetch and given["end_offset"] < 0:
            continue  # The schema's default: nothing diverges.
        question = questions.get(name, {})
        requested = question.get("last_fetched_epoch" if by_fetch else "leader_epoch", -1)
        yield EpochRound(
            follower=record["source"],
            leader=record["target"],
            topic=name[0],
            partition=name[1],
            requested_epoch=-1 if requested is None else requested,
            answered_epoch=given.get("epoch" if by_fetch else "leader_epoch"),
            end_offset=given["end_offset"],
            by_fetch=by_fetch,
        )
