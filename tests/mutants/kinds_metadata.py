"""Changes to the metadata log of a KRaft cluster: decisions of its controllers, and its copies."""

from collections.abc import Callable, Mapping
from typing import Any

from kchaos.checkers.evidence.metadata import METADATA
from kchaos.checkers.formats.metadata_records import MetadataRecord
from tests.mutants.kinds import add, kind
from tests.mutants.run_copy import NotApplicableError, RunCopy
from tests.mutants.segment_edits import split
from tests.support.metadata_logs import FIRST_SEGMENT, logs_in, rewritten

Fields = Mapping[str, Any]
_CHANGE, _MADE = "PartitionChangeRecord", "PartitionRecord"


def _copies(run: RunCopy) -> list[str]:
    names = run.names(f"{METADATA}/node-*/{FIRST_SEGMENT}")
    if not names:
        raise NotApplicableError("there is no metadata log")
    return names


def _records(run: RunCopy) -> list[tuple[int, MetadataRecord]]:
    _copies(run)
    entries = logs_in(run.path).entries
    return [
        (each.offset, each.record) for each in entries if isinstance(each.record, MetadataRecord)
    ]


def _rewrite(run: RunCopy, offset: int, fields: Fields, names: list[str]) -> str:
    definitions = logs_in(run.path).definitions
    for name in names:
        run.write(name, rewritten(run.content(name), definitions, offset, fields))
    return f"offset {offset}"


def _record(name: str, kinds: tuple[str, ...], change: Callable[[Fields], Fields]) -> None:
    """Change a drawn record of such a kind in every copy; one that the change makes another."""

    def mutate(run: RunCopy) -> str:
        changed = {
            offset: change(record.fields)
            for offset, record in _records(run)
            if record.name in kinds
        }
        fields_of = {offset: record.fields for offset, record in _records(run)}
        offset = run.pick(
            [at for at, fields in changed.items() if {**fields_of[at], **fields} != fields_of[at]],
            kinds[0],
        )
        return _rewrite(run, offset, changed[offset], _copies(run))

    add(f"metadata: {name}", mutate)


def _other(fields: Fields) -> Fields:
    own = fields["Leader"]
    return {"Leader": next(broker for broker in (0, 1, 2) if broker != own)} if own >= 0 else {}


def _isr(change: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Callable[[Fields], Fields]:
    return lambda fields: {} if fields["Isr"] is None else {"Isr": change(fields["Isr"])}


_record("another leader", (_CHANGE, _MADE), _other)
_record("an ISR of one", (_CHANGE, _MADE), _isr(lambda isr: isr[:1]))
_record("an ISR of all", (_CHANGE,), _isr(lambda isr: tuple(sorted({*isr, 0, 1, 2}))))
_record("an unclean election", (_CHANGE,), lambda _: {"LeaderRecoveryState": 1})
_record(
    "an eligible replica",
    (_CHANGE,),
    lambda fields: {"EligibleLeaderReplicas": (0,)} if "EligibleLeaderReplicas" in fields else {},
)
_record(
    "another broker epoch",
    ("RegisterBrokerRecord",),
    lambda fields: {"BrokerEpoch": fields["BrokerEpoch"] - 1},
)
_record(
    "another process registers", ("RegisterBrokerRecord",), lambda _: {"IncarnationId": "A" * 22}
)
_record(
    "fenced in place of unfenced",
    ("BrokerRegistrationChangeRecord",),
    lambda fields: {"Fenced": -fields["Fenced"]},
)
_record("another topic's id", ("TopicRecord",), lambda _: {"TopicId": "B" * 22})
_record(
    "another feature level",
    ("FeatureLevelRecord",),
    lambda fields: {"FeatureLevel": fields["FeatureLevel"] - 1},
)


@kind("metadata: one broker's copy has another ISR")
def _one_copy(run: RunCopy) -> str:
    offset, _ = run.pick(
        [each for each in _records(run) if each[1].name == _CHANGE and each[1].fields["Isr"]],
        _CHANGE,
    )
    return _rewrite(run, offset, {"Isr": (0,)}, [run.pick(_copies(run), "copy")])


def _without(name: str, places: Callable[[int], range]) -> None:
    """Leave a drawn batch out of every copy."""

    def mutate(run: RunCopy) -> str:
        shared = min(len(split(run.content(name))) for name in _copies(run))
        at = run.pick(places(shared), "batch")
        for name in _copies(run):
            batches = split(run.content(name))
            run.write(name, b"".join([*batches[:at], *batches[at + 1 :]]))
        return f"batch {at}"

    add(f"metadata: {name}", mutate)


_without("a batch is gone", lambda count: range(1, count - 1))
_without("the first batch is gone", lambda _: range(1))


@kind("metadata: the second half is gone")
def _half(run: RunCopy) -> str:
    for name in _copies(run):
        batches = split(run.content(name))
        run.write(name, b"".join(batches[: len(batches) // 2]))
    return METADATA


@kind("metadata: one copy is gone")
def _gone(run: RunCopy) -> str:
    return run.remove(run.pick(_copies(run), "copy").rpartition("/")[0])


@kind("metadata: a copy of another cluster")
def _of_another(run: RunCopy) -> str:
    name = run.pick(run.names(f"{METADATA}/node-*/meta.properties"), "meta.properties")
    lines = run.content(name).decode().splitlines()
    kept = [line for line in lines if not line.startswith("cluster.id")]
    return run.write(name, "\n".join([*kept, f"cluster.id={'C' * 22}", ""]).encode())


@kind("metadata: a byte of a batch")
def _byte(run: RunCopy) -> str:
    for name in _copies(run):
        content = bytearray(run.content(name))
        content[len(content) // 2] ^= 1
        run.write(name, bytes(content))
    return METADATA


add("metadata: no definitions", lambda run: run.remove(f"{METADATA}/definitions"))
add("metadata: none at all", lambda run: run.remove(METADATA))


@kind("metadata: one copy is behind", harmless=True)
def _behind(run: RunCopy) -> str:
    brokers = [
        name for name in _copies(run) if name.split("/")[1] in ("node-0", "node-1", "node-2")
    ]
    name = run.pick(brokers, "copy of a broker")
    return run.write(name, b"".join(split(run.content(name))[:-1]))
