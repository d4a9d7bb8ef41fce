"""The catalogue: one small file per known bug, which no list names."""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from kchaos.checkers.acts import Mode
from kchaos.clusters.spec import ClusterSpec
from kchaos.harness.catalogue.entry import Entry, Expectation
from kchaos.harness.catalogue.kraft_form import kraft_cluster, kraft_steps
from kchaos.harness.errors import UsageError
from kchaos.harness.run.own_parts import FILES, OwnParts, installed_parts, left_out, parts_of_file
from kchaos.harness.run.scenario import Scenario


def in_order(unordered: Iterable[Entry]) -> dict[str, Entry]:
    """Return entries by name, tickets in the order of their numbers; each may be there twice.

    Raises:
        ValueError: Two entries have one name.
    """
    entries: dict[str, Entry] = {}
    for entry in unordered:
        if entries.setdefault(entry.name, entry) is not entry:
            raise ValueError(f"two entries are named {entry.name!r}")
    return {name: entries[name] for name in sorted(entries, key=_with_numbers)}


def _with_numbers(name: str) -> list[str | int]:
    return [int(part) if part.isdigit() else part for part in re.split("([0-9]+)", name)]


def _listed() -> Iterator[Entry]:
    """Yield what the modules of this room define; some import entries of each other."""
    for module in iter_modules(__path__):
        values = vars(import_module(f"{__name__}.{module.name}")).values()
        yield from (value for value in values if isinstance(value, Entry))


CATALOGUE: Mapping[str, Entry] = in_order(_listed())

_OF_FILE = "::"


def entries_there(own: Iterable[OwnParts] = ()) -> Mapping[str, Entry]:
    """Return every entry by name: of the catalogue, installed packages and these parts.

    Raises:
        UsageError: An entry is named like another one.
    """
    entries = dict(CATALOGUE)
    for parts in {parts.module: parts for parts in (*installed_parts(), *own)}.values():
        for entry in _entries_of(parts):
            if entry.name in entries:
                raise UsageError(
                    f"{parts.name}: there is an entry {entry.name} already: give yours another name"
                )
            entries[entry.name] = entry
    return entries


def _entries_of(parts: OwnParts) -> Iterator[Entry]:
    ours = {name.lower(): entry for name, entry in CATALOGUE.items()}
    for given, entry in parts.values.items():
        known = ours.get(entry.name.lower()) if isinstance(entry, Entry) else None
        if not isinstance(entry, Entry) or entry is known:
            continue
        if known is not None:
            raise UsageError(
                f"{parts.place_of(given)}: {entry.name} is an entry of kchaos: give yours another "
                "name"
            )
        for field, function in (("cluster", entry.cluster), ("steps", entry.steps)):
            if not _takes_a_text(function):
                raise UsageError(
                    f"{parts.place_of(given)}: {field} of {entry.name} must be a function of "
                    f"{'the Kafka' if field == 'cluster' else 'the case'} alone"
                )
        yield entry


def _takes_a_text(function: Any) -> bool:
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind("")
    except TypeError:
        return False
    return True


def _entry_of_file(named: str) -> Entry:
    """Return the entry in a file, or one of several as `FILE::NAME`."""
    file, _, wanted = named.partition(_OF_FILE)
    parts = parts_of_file(Path(file))
    entries = {entry.name.lower(): entry for entry in _entries_of(parts)}
    if not entries:
        raise UsageError(
            f"{file} has no entry: write BUG = Entry(name=..., cases=..., cluster=..., steps=...) "
            f"into it, or let chaos draw what it has: kchaos chaos --parts {file}"
        )
    if wanted.lower() in entries:
        return entries[wanted.lower()]
    if wanted or len(entries) > 1:
        names = ", ".join(f"{file}{_OF_FILE}{entry.name}" for entry in entries.values())
        raise UsageError(f"{file} has the entries {names}: name one of them so")
    return next(iter(entries.values()))


def entry_named(name: str) -> Entry:
    """Return the entry of this name, in upper or lower case.

    Args:
        name: Of the catalogue, of an entry that an installed package brings, or a file.

    Raises:
        UsageError: There is none, or the file has none.
    """
    if name.partition(_OF_FILE)[0].endswith(FILES):
        return _entry_of_file(name)
    for known, entry in CATALOGUE.items():
        if known.lower() == name.lower():
            return entry
    for known, entry in entries_there().items():
        if known.lower() == name.lower():
            return entry
    # A ticket of another number is no misspelling.
    is_ticket = re.fullmatch(r"(KAFKA|KIP)-\d+", name.upper())
    near = [] if is_ticket else get_close_matches(name.upper(), CATALOGUE, n=3, cutoff=0.7)
    meant = [known for known in CATALOGUE if known.startswith(name.upper())][:3] or near
    hint = f"did you mean {' or '.join(meant)}? " if meant else ""
    raise UsageError(
        f"no bug named {name!r} in the catalogue; {hint}kchaos list shows them all{left_out()}"
    )


def scenario_of(
    entry: Entry,
    case: str,
    kafka: str,
    *,
    release: str = "",
    judged_as: str | None = None,
    mode: Mode | None = None,
) -> Scenario:
    """Return one case of an entry, on a release or a path to a distribution.

    `release` is the nearest release to a distribution at the path `kafka`, else "". `judged_as` is
    the release whose rules apply, None for the brokers' own. `mode` overrides the entry's;
    expectations of an entry written for ZooKeeper do not hold with KRaft.

    Raises:
        ReleaseError: The release has no such mode.
        UsageError: The entry has no such case, or the release cannot show it.
    """
    if case not in entry.cases:
        known = ", ".join(entry.cases)
        raise UsageError(f"{entry.name} has no case {case!r}; known: {known}")
    why_not = entry.cannot_show(case, judged_as or release or kafka)
    if why_not:
        raise UsageError(f"{entry.name} cannot be shown so: {why_not}")
    expectation = entry.expectations.get((case, judged_as or release or kafka))
    cluster = _judged_as(entry.case_clusters.get(case, entry.cluster)(kafka), judged_as)
    steps = entry.steps(case)
    asked = cluster if mode is None else replace(cluster, mode=mode)
    if asked.is_kraft and cluster.mode is None:
        # The entry was written for ZooKeeper.
        asked, steps = kraft_cluster(asked), kraft_steps(steps, judged_as or release or kafka)
        expectation = expectation if mode is None else None
    return Scenario(
        entry=entry.name,
        case=case,
        title=f"{entry.title}: {entry.cases[case]}",
        release=kafka,
        cluster=asked,
        steps=steps,
        expectation=expectation.to_json() if expectation is not None else None,
    )


def with_brokers(scenario: Scenario, kafkas: Mapping[int, str]) -> Scenario:
    """Return the scenario on a mixed cluster, with the model's prediction as its expectation.

    `kafkas` has single brokers' releases by their ids.

    Raises:
        UsageError: The scenario has no such broker.
    """
    ids = [broker.id for broker in scenario.cluster.brokers]
    if unknown := sorted(kafkas.keys() - {*ids}):
        raise UsageError(
            f"{scenario.entry} {scenario.case} has no broker {unknown[0]}; its brokers are "
            f"{', '.join(map(str, ids))}"
        )
    brokers = tuple(
        replace(broker, kafka=kafkas[broker.id], judged_as=None) if broker.id in kafkas else broker
        for broker in scenario.cluster.brokers
    )
    cluster = replace(scenario.cluster, brokers=brokers)
    return replace(scenario, cluster=cluster, expectation=None)


def _judged_as(spec: ClusterSpec, judged_as: str | None) -> ClusterSpec:
    brokers = tuple(replace(broker, judged_as=judged_as) for broker in spec.brokers)
    return replace(spec, brokers=brokers)


__all__ = [
    "CATALOGUE",
    "Entry",
    "Expectation",
    "entries_there",
    "entry_named",
    "scenario_of",
    "with_brokers",
]
