"""Literal evidence for the tests of the rules."""

from collections.abc import Sequence
from typing import Any

from kchaos.checkers.evidence.clients import ClientLine
from kchaos.checkers.evidence.history import Operation, record_payload
from kchaos.checkers.evidence.partition import BatchEvidence, PartitionEvidence, ReplicaEvidence
from kchaos.checkers.findings import Finding
from kchaos.checkers.segments.batch import join_payload_digests

Shown = tuple[str, tuple[int, ...], int, int]


def payload(values: Sequence[str]) -> str:
    return join_payload_digests((record_payload(value), 1) for value in values)


def batch(
    base_offset: int, leader_epoch: int, *values: str, magic: int = 2, crc: int | None = None
) -> BatchEvidence:
    """A batch on disk; its checksum follows from its content unless it is given."""
    content = payload(values)
    return BatchEvidence(
        base_offset=base_offset,
        last_offset=base_offset + len(values) - 1,
        leader_epoch=leader_epoch,
        magic=magic,
        payload=content,
        codec="none",
        crc=int(content, 16) % (1 << 32) + magic if crc is None else crc,
        file="00000000000000000000.log",
        position=100 * base_offset,
        size_bytes=100 * len(values),
        record_count=len(values),
    )


def replica(broker: int, *batches: BatchEvidence, **fields: Any) -> ReplicaEvidence:
    return ReplicaEvidence(broker=broker, batches=batches, **fields)


def evidence(*replicas: ReplicaEvidence, **fields: Any) -> PartitionEvidence:
    """The last snapshot of t-0: broker 0 leads in epoch 3, all replicas are in sync."""
    usual: dict[str, Any] = {
        "run": "run",
        "topic": "t",
        "partition": 0,
        "snapshot": "final",
        "snapshot_time": 1000.0,
        "is_final": True,
        "leader": 0,
        "leader_epoch": 3,
        "isr": tuple(each.broker for each in replicas),
        "replicas": replicas,
    }
    return PartitionEvidence(**{**usual, **fields})


def acknowledged(
    operation: str, base_offset: int, *values: str, acks: int = -1, **fields: Any
) -> Operation:
    """A produce that was acknowledged at 800 s, when 0 and 1 were in sync."""
    usual: dict[str, Any] = {
        "operation": operation,
        "function": "produce",
        "broker": 0,
        "topic": "t",
        "partition": 0,
        "acks": acks,
        "outcome": "ok",
        "promised": acks == -1,
        "payloads": tuple(record_payload(value) for value in values),
        "base_offset": base_offset,
        "invoked_at": 799.0,
        "ended_at": 800.0,
        "isr_when_ended": (0, 1),
    }
    return Operation(**{**usual, **fields})


def shown(findings: Any) -> list[Shown]:
    """What an expectation compares."""
    collected: list[Finding] = list(findings)
    return [(each.kind, each.brokers, each.first_offset, each.last_offset) for each in collected]


def client_line(api: str, direction: Any, /, **changed: Any) -> ClientLine:
    """What a link saw of a client that calls itself mine, but for what is changed."""
    fields: dict[str, Any] = {
        **{"sequence": 1, "link_sequence": 1, "time": 100.0, "connection": 1, "broker": 0},
        **{"api": api, "direction": direction, "api_version": 3, "correlation_id": 1},
        **{"client_id": "mine", "address": "127.0.0.1:4711"},
    }
    return ClientLine(**fields | changed)
