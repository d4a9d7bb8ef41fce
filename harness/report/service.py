"""Availability in words: partitions, consumers and faults, as the judgement measured them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kchaos.harness.report.loading import Loaded

NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTable:
    """One table: its columns, and its rows as texts."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def service_tables(loaded: Loaded) -> Sequence[ServiceTable]:
    """Return the tables of partitions, consumers and faults that have rows."""
    return tuple(table for table in _tables(loaded) if table.rows)


def not_measured(loaded: Loaded) -> Sequence[str]:
    """Return the measurements that could not be made, and why."""
    availability = None if loaded.results is None else loaded.results.availability
    return () if availability is None else availability.not_measured


def _tables(loaded: Loaded) -> Iterator[ServiceTable]:
    availability = None if loaded.results is None else loaded.results.availability
    if availability is None:
        return
    yield ServiceTable(
        title="Partitions, in seconds",
        columns=(
            "partition",
            "measured",
            "without leader",
            "under min ISR",
            "without acknowledged write",
        ),
        rows=tuple(
            (
                f"{each.topic}-{each.partition}",
                f"{each.measured_s:.1f}",
                f"{each.without_leader_s:.1f}",
                f"{each.under_min_isr_s:.1f}",
                "nobody wrote" if each.writes == 0 else _told(each.without_acknowledged_write_s),
            )
            for each in availability.partitions
        ),
    )
    yield ServiceTable(
        title="Consumers",
        columns=("consumer", "records", "longest stall in s", "of"),
        rows=tuple(
            (
                each.consumer,
                str(each.records),
                _told(each.longest_stall_s),
                f"{each.topic}-{each.partition}" if each.topic else "",
            )
            for each in availability.consumers
        ),
    )
    yield ServiceTable(
        title="Faults",
        columns=("fault", "service", "together with"),
        rows=tuple(
            (
                f"{each.fault} {each.name}",
                "not interrupted"
                if each.service_back_s == 0
                else "not back"
                if each.service_back_s is None
                else f"back after {each.service_back_s:.1f} s",
                ", ".join(each.together_with),
            )
            for each in availability.faults
        ),
    )


def _told(seconds: float | None) -> str:
    return NOT_MEASURED if seconds is None else f"{seconds:.1f}"
