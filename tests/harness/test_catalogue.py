"""Every case of the catalogue, once on each side of the border that it is about.

`kchaos measure` plays the other releases.
"""

import itertools
from pathlib import Path

import pytest

from kchaos.checkers.model.releases.versions import parse_version
from kchaos.harness.catalogue import CATALOGUE, entry_named, scenario_of
from kchaos.harness.commands.reproduce import judged
from kchaos.harness.errors import UsageError
from kchaos.harness.run.runner import RunOptions, play
from kchaos.harness.run.scenario import Scenario

CELLS = [
    pytest.param(entry.name, case, release, id=f"{entry.name}-{case}-{release}")
    for entry in CATALOGUE.values()
    for case, release in entry.expectations
]
# What another cell shows as well, and slower: `kchaos measure` plays these, as what is long.
ALSO_SHOWN_BY_OTHERS = {
    ("KAFKA-6361", "n15", "1.1.1"),
    ("KAFKA-6361", "n15", "2.0.1"),
    ("KAFKA-6361", "n15", "2.8.2"),
    ("KAFKA-6361", "n25", "1.1.1"),
    ("KAFKA-6361", "n25", "2.0.1"),
    ("KAFKA-6361", "n25", "2.8.2"),
    ("KAFKA-7235", "protocol-0.10.2", "2.2.2"),
    ("KAFKA-7897", "follower-restarts", "2.1.1"),
    ("KAFKA-12315", "moved", "3.9.1"),
    ("KIP-101-1", "read", "0.11.0.3"),
    ("KAFKA-7601-four-replicas", "follower-killed", "2.0.1"),
    ("KAFKA-7601-four-replicas", "follower-killed", "2.3.1"),
    ("KAFKA-7601-four-replicas", "follower-stopped", "2.2.1"),
    ("KIP-380-epoch-ahead", "registered-and-not-told", "2.4.1"),
    ("KIP-380-stale-update-metadata", "leader-taken-for-dead", "2.2.2"),
    ("KIP-380-upgrade-window", "roll-skipped-old-controller", "2.2.2"),
    ("KIP-380-upgrade-window", "two-rolls", "2.2.2"),
    ("KIP-279-3", "no-common-epoch", "2.0.1"),
    ("KIP-380-upgrade-window", "epoch-unknown", "2.2.2"),
    ("KIP-501-long-hang", "inside-the-log-read", "2.0.1"),
    ("KIP-501-long-hang", "inside-the-log-read", "2.8.2"),
    ("KIP-501-slow-reads", "held-before-the-lock", "2.8.2"),
    ("KIP-279-compaction", "kept", "1.1.1"),
    ("KIP-279-compaction", "kept", "2.8.2"),
    ("KIP-279-compaction", "rebuilt", "1.1.1"),
    ("KIP-279-compaction", "rebuilt", "2.8.2"),
    ("KIP-279-compaction", "rebuilt", "3.9.1"),
    ("KIP-279-compaction", "not-rebuilt", "2.0.1"),
    ("KIP-279-compaction", "not-rebuilt", "3.9.1"),
    ("KIP-380-missed-bounce", "clean", "2.2.2"),
    ("KIP-380-missed-bounce", "moved", "2.2.2"),
    ("KIP-380-missed-bounce", "paused", "2.2.2"),
    ("KIP-380-stale-controlled-shutdown", "asked-itself", "2.1.1"),
    ("KIP-380-stale-controlled-shutdown", "live-broker", "2.2.2"),
    ("KIP-380-stale-leader-and-isr", "forgets-high-watermarks", "2.2.2"),
    ("KIP-380-stale-leader-and-isr", "leads-again", "2.2.2"),
    ("KIP-380-stale-stop-replica", "stopped", "2.2.2"),
    ("KIP-405-2", "out-of-sync-follower", "3.6.2"),
    ("KIP-405-3", "never-uploaded", "3.6.2"),
    ("KIP-405-4", "never-uploaded", "3.6.2"),
    ("KIP-405-5", "never-uploaded", "3.6.2"),
    ("KIP-405-control", "hard-failures", "3.9.1"),
    ("KIP-405-upload-fails", "fails-and-heals", "3.6.2"),
    ("KIP-405-half-uploaded", "leader-dies", "3.6.2"),
}


def at_borders(name: str, case: str) -> set[str]:
    """Return the releases of a case whose neighbours end otherwise: the last red, the first green.

    Where all of them end alike it is the newest one that is played here at all. A case whose border
    another case of its entry shows is played nowhere here.
    """
    expectations = entry_named(name).expectations
    releases = sorted((one for played, one in expectations if played == case), key=parse_version)
    ends = [expectations[case, release].safe for release in releases]
    borders = {
        release
        for (before, after), release in itertools.chain(
            zip(itertools.pairwise(ends), releases, strict=False),
            zip(itertools.pairwise(ends), releases[1:], strict=False),
        )
        if before != after
    }
    played = [one for one in releases if (name, case, one) not in ALSO_SHOWN_BY_OTHERS]
    return borders.intersection(played) if borders else set(played[-1:])


QUICK = [
    cell
    for cell in CELLS
    if cell.values not in ALSO_SHOWN_BY_OTHERS
    and cell.values[1] not in entry_named(str(cell.values[0])).measured_only
    and cell.values[2] in at_borders(str(cell.values[0]), str(cell.values[1]))
]


@pytest.mark.cluster
@pytest.mark.parametrize(("name", "case", "release"), QUICK)
def test_an_entry_gives_what_it_says_and_conforms(
    name: str, case: str, release: str, tmp_path: Path
) -> None:
    said: list[str] = []
    scenario = scenario_of(entry_named(name), case, release)
    run = play(scenario, options=RunOptions(runs_directory=tmp_path), say=said.append)
    one = judged(run, said.append)
    shown = "\n".join(
        [str(one.results.unknown), one.results.reason, *map(str, one.results.findings)]
    )
    # What replicas of KRaft clusters should hold is not predicted.
    assert one.results.conforms is (None if scenario.cluster.is_kraft else True), shown
    assert one.results.safe is scenario.expectation["safe"], shown  # type: ignore[index]
    assert one.results.expected is True, shown
    assert one.results.expectation_from == "scenario"
    assert all(witness.found for witness in one.results.witness)
    assert said, "nothing was told while it happened"


@pytest.mark.parametrize(("name", "case", "release"), CELLS)
def test_a_scenario_survives_being_written_and_read(name: str, case: str, release: str) -> None:
    scenario = scenario_of(entry_named(name), case, release)
    assert Scenario.from_json(scenario.to_json()) == scenario


def test_an_unknown_entry_is_refused_with_those_that_may_have_been_meant() -> None:
    with pytest.raises(UsageError, match=r"did you mean KAFKA-6361\b.* kchaos list shows them all"):
        entry_named("KAFKA-636")


def test_an_unknown_case_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="n15, n20, n25, one-record"):
        scenario_of(entry_named("kafka-6361"), "n16", "1.1.1")


@pytest.mark.parametrize(
    ("entry", "case", "release", "why"),
    [
        ("KAFKA-12315", "twice", "2.0.1", "nearest release that can show it is 2.1.1"),
        ("KIP-380-upgrade-window", "first-roll", "2.1.1", "nearest release that can show it is 2"),
        ("KIP-380-upgrade-window", "two-rolls", "2.8.2", "from 2.1.1 to 2.2.2: play it on 2.2.2"),
        ("KIP-380-missed-bounce", "killed", "0.10.2.2", "case killed is 0.11.0.3"),
        ("KAFKA-7601-mixed-default", "rolled-to-3.0", "2.8.2", "no protocol 3.0; .* is 3.9.1"),
        ("KAFKA-7601-mixed-default", "default-protocol", "3.9.1", "at its own protocol; .* 2.8.2"),
    ],
)
def test_a_release_that_cannot_show_a_case_is_refused_with_the_nearest_that_can(
    entry: str, case: str, release: str, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        scenario_of(entry_named(entry), case, release)
