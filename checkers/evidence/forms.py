"""The types of what evidence holds as plain JSON: a step's fields, a message's.

These values are read by name where they are needed. A reader need not ask for the type of each,
since it is checked here when the file is read. A field that is not named here is only shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from kchaos.checkers.json_form import check_json

_Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    fault: str
    broker: int | None = None
    topic: str | None = None
    partition: int | None = None
    configuration: _Pairs | None = None
    properties: _Pairs = ()
    message_format: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    step: str
    do: "_Step | None" = None
    fault: _Fault | None = None
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    operation: str | None = None
    acks: int | None = None
    codec: str | None = None
    keys: str | None = None
    records: int | None = None
    configuration: _Pairs | None = None
    assignment: tuple[tuple[int, ...], ...] | None = None
    replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Diverging:
    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _MessagePartition:
    topic: str = ""
    partition: int = -1
    adding_replicas: tuple[int, ...] = ()
    base_offset: int | None = None
    batch_count: int = -1
    current_leader: Any = None
    controller_epoch: int = -1
    coordinator_epoch: int = -1
    current_leader_epoch: int | None = None
    delete_partition: bool = False
    directory: str = ""
    diverging_epoch: _Diverging | None = None
    end_offset: int = -1
    error_code: int = -1
    fetch_offset: int = -1
    first_leader_epoch: int | None = None
    high_watermark: int = -1
    is_new: bool | None = None
    isr: tuple[int, ...] = ()
    last_fetched_epoch: int | None = None
    last_leader_epoch: int | None = None
    last_offset: int | None = None
    last_stable_offset: int = -1
    leader: int = -1
    leader_epoch: int | None = None
    leader_recovery_state: int = -1
    log_start_offset: int | None = None
    new_isr: tuple[int, ...] = ()
    new_isr_with_epochs: tuple[Any, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    offset: int = -1
    offsets: tuple[int, ...] = ()
    partition_epoch: int = -1
    producer_epoch: int = -1
    producer_id: int = -1
    records_size_bytes: int = -1
    removing_replicas: tuple[int, ...] = ()
    replicas: tuple[int, ...] = ()
    rest: tuple[tuple[int, int, int | None], ...] = ()
    timestamp: int = -1
    topic_id: str = ""
    transaction_result: bool = False
    transaction_version: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Message:
    partitions: tuple[_MessagePartition, ...] = ()
    forgotten: tuple[_MessagePartition, ...] = ()
    broker_epoch: int = -1
    broker_id: int = -1
    controller_epoch: int = -1
    controller_id: int = -1
    current_metadata_offset: int = -1
    delete_partitions: bool = False
    error_code: int = -1
    is_kraft_controller: bool = False
    live_brokers: tuple[Any, ...] = ()
    replica_id: int = -1
    session_epoch: int = -1
    session_id: int = -1
    type: int = -1


MESSAGE_FIELDS = frozenset(field.name for field in fields(_Message))
"""Fields of a message as a whole."""
MESSAGE_PARTITION_FIELDS = frozenset(field.name for field in fields(_MessagePartition))
"""Fields of a message about one partition."""


def check_step(step: Mapping[str, Any]) -> None:
    """Raise ShapeError unless a step of scenario.json has its fields in their types."""
    check_json(_Step, step)


def check_message(detail: Mapping[str, Any]) -> None:
    """Raise ShapeError unless the body of a message has its fields in their types."""
    check_json(_Message, detail)
