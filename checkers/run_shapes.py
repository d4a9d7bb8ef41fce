"""The shapes of what a run's JSON files hold: checked once, where they are read.

What is read later may then be taken for granted, and damage is told with the file and the field.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from checkers.errors import RunDirectoryError
from checkers.findings import KINDS
from checkers.run_directory import RunDirectory

_Kind = type | tuple[type, ...]
_SNAPSHOT: Mapping[str, _Kind] = {
    "label": str,
    "time": (int, float),
    "is_final": bool,
    "brokers": dict,
    "states": dict,
}
_STATE: Mapping[str, _Kind] = {"leader": int, "leader_epoch": int, "isr": list}
_SETTLE: Mapping[str, _Kind] = {"state": str, "reasons": list}
_REASON: Mapping[str, _Kind] = {"kind": str, "broker": int}


def read_snapshot(run: RunDirectory, label: str) -> dict[str, Any]:
    """The content of one snapshot.json.

    Raises:
        RunDirectoryError: It lacks something that judging needs.
    """
    name = f"snapshots/{label}/snapshot.json"
    snapshot = run.read(name)
    place = str(run.path / name)
    _check(snapshot, _SNAPSHOT, place)
    if snapshot["label"] != label:
        raise RunDirectoryError(f"{place} is labelled {snapshot['label']!r}")
    for broker, seen in snapshot["brokers"].items():
        if not broker.isdecimal() or not isinstance(seen, dict):
            raise RunDirectoryError(f"{place}: brokers has {broker!r}, which is no broker's entry")
    for partition, state in snapshot["states"].items():
        _check(state, _STATE, f"{place}: states {partition!r}")
        if not partition.rpartition("-")[2].isdecimal():
            raise RunDirectoryError(f"{place}: states has {partition!r}, which is no partition")
    return snapshot


def read_outcome(run: RunDirectory) -> dict[str, Any]:
    """The content of outcome.json; nothing for a run that never wrote it.

    Raises:
        RunDirectoryError: It cannot be read, or its settle record lacks what judging needs.
    """
    if not (run.path / "outcome.json").exists():
        return {}
    outcome = run.read("outcome.json")
    settle = outcome.get("settle")
    if settle is not None:
        place = f"{run.path / 'outcome.json'}: settle"
        _check(settle, _SETTLE, place)
        for reason in settle["reasons"]:
            _check(reason, _REASON, f"{place}: reasons")
            if reason["kind"] not in KINDS:
                raise RunDirectoryError(f"{place}: no finding is named {reason['kind']!r}")
        if not isinstance(settle.get("last_seen"), dict | None):
            raise RunDirectoryError(f"{place}: last_seen is no object")
    return outcome


def is_linked(run: RunDirectory) -> bool:
    """Whether brokers spoke through links: scenario.json asked for them, and they could be had.

    Raises:
        RunDirectoryError: There is no readable scenario.json, or its cluster is no object.
    """
    if run.read("run.json").get("unlinked"):
        return False
    cluster = run.read("scenario.json").get("cluster") or {}
    if not isinstance(cluster, dict):
        raise RunDirectoryError(f"{run.path / 'scenario.json'}: cluster is no object")
    return bool(cluster.get("linked"))


def _check(value: Any, shape: Mapping[str, _Kind], place: str) -> None:
    if not isinstance(value, dict):
        raise RunDirectoryError(f"{place} is no object")
    wrong = list(_wrong(value, shape))
    if wrong:
        raise RunDirectoryError(f"{place}: {', '.join(wrong)} missing, or of another type")


def _wrong(value: Mapping[str, Any], shape: Mapping[str, _Kind]) -> Iterator[str]:
    for name, kind in shape.items():
        if not isinstance(value.get(name), kind):
            yield name
