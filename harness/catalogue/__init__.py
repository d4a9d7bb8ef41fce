"""The catalogue: one small file per known bug; a new one is imported and listed here."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from kchaos.clusters.releases import Mode
from kchaos.clusters.spec import ClusterSpec
from kchaos.harness.catalogue.entry import Entry, Expectation
from kchaos.harness.catalogue.kafka_6119 import KAFKA_6119
from kchaos.harness.catalogue.kafka_6361 import KAFKA_6361
from kchaos.harness.catalogue.kafka_7128 import KAFKA_7128
from kchaos.harness.catalogue.kafka_7164 import KAFKA_7164
from kchaos.harness.catalogue.kafka_7235 import KAFKA_7235
from kchaos.harness.catalogue.kafka_7415 import KAFKA_7415
from kchaos.harness.catalogue.kafka_7601_down_conversion import KAFKA_7601_DOWN_CONVERSION
from kchaos.harness.catalogue.kafka_7601_flap import KAFKA_7601_FLAP
from kchaos.harness.catalogue.kafka_7601_four_replicas import KAFKA_7601_FOUR_REPLICAS
from kchaos.harness.catalogue.kafka_7601_jira import KAFKA_7601_JIRA
from kchaos.harness.catalogue.kafka_7601_mixed_default import KAFKA_7601_MIXED_DEFAULT
from kchaos.harness.catalogue.kafka_7601_new_format_again import KAFKA_7601_NEW_FORMAT_AGAIN
from kchaos.harness.catalogue.kafka_7897 import KAFKA_7897
from kchaos.harness.catalogue.kafka_9144 import KAFKA_9144
from kchaos.harness.catalogue.kafka_9491 import KAFKA_9491
from kchaos.harness.catalogue.kafka_10706 import KAFKA_10706
from kchaos.harness.catalogue.kafka_12315 import KAFKA_12315
from kchaos.harness.catalogue.kafka_12686 import KAFKA_12686
from kchaos.harness.catalogue.kafka_14010 import KAFKA_14010
from kchaos.harness.catalogue.kafka_14296 import KAFKA_14296
from kchaos.harness.catalogue.kafka_14616 import KAFKA_14616
from kchaos.harness.catalogue.kafka_15583 import KAFKA_15583
from kchaos.harness.catalogue.kafka_19522 import KAFKA_19522
from kchaos.harness.catalogue.kafka_19996 import KAFKA_19996
from kchaos.harness.catalogue.kip_101_1 import KIP_101_1
from kchaos.harness.catalogue.kip_101_2 import KIP_101_2
from kchaos.harness.catalogue.kip_279_2 import KIP_279_2
from kchaos.harness.catalogue.kip_279_3 import KIP_279_3
from kchaos.harness.catalogue.kip_279_compaction import KIP_279_COMPACTION
from kchaos.harness.catalogue.kip_279_errors import KIP_279_ERRORS
from kchaos.harness.catalogue.kip_279_old_protocol import KIP_279_OLD_PROTOCOL
from kchaos.harness.catalogue.kip_279_untracked import KIP_279_UNTRACKED
from kchaos.harness.catalogue.kip_380_controlled_shutdown import KIP_380_STALE_CONTROLLED_SHUTDOWN
from kchaos.harness.catalogue.kip_380_controller_lost import KIP_380_CONTROLLER_LOST
from kchaos.harness.catalogue.kip_380_epoch_ahead import KIP_380_EPOCH_AHEAD
from kchaos.harness.catalogue.kip_380_leader_and_isr import KIP_380_STALE_LEADER_AND_ISR
from kchaos.harness.catalogue.kip_380_missed_bounce import KIP_380_MISSED_BOUNCE
from kchaos.harness.catalogue.kip_380_stop_replica import KIP_380_STALE_STOP_REPLICA
from kchaos.harness.catalogue.kip_380_update_metadata import KIP_380_STALE_UPDATE_METADATA
from kchaos.harness.catalogue.kip_380_upgrade_window import KIP_380_UPGRADE_WINDOW
from kchaos.harness.catalogue.kip_405_1 import KIP_405_1
from kchaos.harness.catalogue.kip_405_2 import KIP_405_2
from kchaos.harness.catalogue.kip_405_3 import KIP_405_3
from kchaos.harness.catalogue.kip_405_4 import KIP_405_4
from kchaos.harness.catalogue.kip_405_5 import KIP_405_5
from kchaos.harness.catalogue.kip_405_control import KIP_405_CONTROL
from kchaos.harness.catalogue.kip_405_half_uploaded import KIP_405_HALF_UPLOADED
from kchaos.harness.catalogue.kip_405_slow_reads import KIP_405_SLOW_READS
from kchaos.harness.catalogue.kip_405_upload_fails import KIP_405_UPLOAD_FAILS
from kchaos.harness.catalogue.kip_501_below_min_isr_leader import KIP_501_BELOW_MIN_ISR_LEADER
from kchaos.harness.catalogue.kip_501_equal_end import KIP_501_EQUAL_END
from kchaos.harness.catalogue.kip_501_long_hang import KIP_501_LONG_HANG
from kchaos.harness.catalogue.kip_501_min_isr import KIP_501_MIN_ISR
from kchaos.harness.catalogue.kip_501_slow_disk import KIP_501_SLOW_DISK
from kchaos.harness.catalogue.kip_501_slow_follower import KIP_501_SLOW_FOLLOWER
from kchaos.harness.catalogue.kip_501_slow_reads import KIP_501_SLOW_READS
from kchaos.harness.catalogue.kip_890 import KIP_890
from kchaos.harness.catalogue.kip_903 import KIP_903
from kchaos.harness.catalogue.kip_966_last_known_leader import KIP_966_LAST_KNOWN_LEADER
from kchaos.harness.catalogue.kip_966_last_replica import KIP_966_LAST_REPLICA
from kchaos.harness.catalogue.kraft_form import kraft_cluster, kraft_steps
from kchaos.harness.errors import UsageError
from kchaos.harness.run.own_parts import FILES, OwnParts, installed_parts, left_out, parts_of_file
from kchaos.harness.run.scenario import Scenario

CATALOGUE: Mapping[str, Entry] = {
    entry.name: entry
    for entry in (
        KAFKA_6119,
        KAFKA_6361,
        KAFKA_7128,
        KAFKA_7164,
        KAFKA_7235,
        KAFKA_7415,
        KAFKA_7601_DOWN_CONVERSION,
        KAFKA_7601_FLAP,
        KAFKA_7601_FOUR_REPLICAS,
        KAFKA_7601_JIRA,
        KAFKA_7601_MIXED_DEFAULT,
        KAFKA_7601_NEW_FORMAT_AGAIN,
        KAFKA_7897,
        KAFKA_9144,
        KAFKA_9491,
        KAFKA_10706,
        KAFKA_12315,
        KAFKA_12686,
        KAFKA_14010,
        KAFKA_14296,
        KAFKA_14616,
        KAFKA_15583,
        KAFKA_19522,
        KAFKA_19996,
        KIP_101_1,
        KIP_101_2,
        KIP_279_2,
        KIP_279_3,
        KIP_279_COMPACTION,
        KIP_279_ERRORS,
        KIP_279_OLD_PROTOCOL,
        KIP_279_UNTRACKED,
        KIP_380_EPOCH_AHEAD,
        KIP_380_MISSED_BOUNCE,
        KIP_380_STALE_CONTROLLED_SHUTDOWN,
        KIP_380_CONTROLLER_LOST,
        KIP_380_STALE_LEADER_AND_ISR,
        KIP_380_STALE_STOP_REPLICA,
        KIP_380_STALE_UPDATE_METADATA,
        KIP_380_UPGRADE_WINDOW,
        KIP_405_1,
        KIP_405_2,
        KIP_405_3,
        KIP_405_4,
        KIP_405_5,
        KIP_405_CONTROL,
        KIP_405_UPLOAD_FAILS,
        KIP_405_HALF_UPLOADED,
        KIP_405_SLOW_READS,
        KIP_501_SLOW_READS,
        KIP_501_LONG_HANG,
        KIP_501_MIN_ISR,
        KIP_501_EQUAL_END,
        KIP_501_BELOW_MIN_ISR_LEADER,
        KIP_501_SLOW_FOLLOWER,
        KIP_501_SLOW_DISK,
        KIP_890,
        KIP_903,
        KIP_966_LAST_REPLICA,
        KIP_966_LAST_KNOWN_LEADER,
    )
}


_OF_FILE = "::"


def entries_there(own: Iterable[OwnParts] = ()) -> Mapping[str, Entry]:
    """Every entry by its name: of the catalogue, of installed packages, and of these parts.

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
        yield entry


def _entry_of_file(named: str) -> Entry:
    """The entry of a file, `FILE::NAME` where it has several."""
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
    """The entry; upper and lower case are the same.

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
    near = get_close_matches(name.upper(), CATALOGUE, n=3, cutoff=0.7)
    begun = [known for known in CATALOGUE if known.startswith(name.upper())][:3]
    meant = begun or near
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
    """One case of an entry, on a release or a path to a distribution.

    Args:
        release: The nearest release to the distribution at the path `kafka`; "" if `kafka` is one.
        judged_as: The release whose rules the brokers are judged by, None for their own.
        mode: Where the cluster keeps its metadata, in place of what the entry says. What an entry
            that was written for ZooKeeper expects is not expected with KRaft.

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
        asked, steps = kraft_cluster(asked), kraft_steps(steps)
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
    """The same scenario on a mixed cluster; what the model predicts is expected of it.

    Args:
        kafkas: What single brokers run in place of the release of the others, by their ids.

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
