"""Supported upgrades: every pair of known releases has an answer with its source."""

from itertools import pairwise

import pytest

from kchaos.clusters.releases import KNOWN_RELEASES, LINES, release_of
from kchaos.harness.errors import UsageError
from kchaos.harness.upgrades.notes import LEVELS, level_texts
from kchaos.harness.upgrades.pairs import (
    NOTES,
    documented,
    led_from,
    mode_of,
    require_migration,
    require_playable,
    why_unsupported,
)


def why(older: str, newer: str, *, back: bool = False, one_roll: bool = False) -> str:
    return why_unsupported(release_of(older), release_of(newer), back=back, one_roll=one_roll)


def test_every_line_with_zookeeper_but_the_first_has_notes_that_lead_from_the_line_before():
    lines = [line.line for line in LINES if "zookeeper" in line.modes]
    assert list(NOTES) == lines[1:]
    assert [NOTES[newer].through for newer in lines[1:]] == [older for older, _ in pairwise(lines)]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("0.10.2.2", "0.11.0.3"),
        ("1.1.1", "2.0.1"),
        ("2.1.1", "2.2.2"),
        ("2.3.1", "2.8.2"),
        ("2.8.2", "3.9.1"),
        ("2.0.0", "2.0.1"),
    ],
)
def test_what_the_notes_lead_to_is_supported(older: str, newer: str):
    assert why(older, newer) == ""


def test_zookeeper_3_8_keeps_the_oldest_and_the_newest_apart():
    said = why("2.3.1", "3.6.2")
    assert "too far apart" in said
    assert "KIP-902" in said
    assert why("2.3.1", "3.5.2") == ""
    assert why("2.4.1", "3.6.2") == ""


def test_one_roll_for_binaries_and_protocol_skips_the_protocol():
    said = why("2.1.1", "2.2.2", one_roll=True)
    assert "the inter-broker protocol is skipped" in said
    assert "docs/upgrade.html at 2.2.2" in said


def test_there_is_a_way_back_only_where_the_notes_say_so():
    assert why("2.8.2", "3.9.1", back=True) == ""
    assert "say nothing of a way back" in why("1.1.1", "2.0.1", back=True)


def test_nobody_goes_back_once_the_protocol_was_raised():
    said = why("3.9.1", "2.8.2")
    assert "no way back once the brokers speak protocol 3.9" in said
    assert "--from 2.8.2 --to 3.9.1 --back" in said
    assert "no notes say that one may go back" in why("2.0.1", "2.0.0")


def test_a_reason_has_its_source():
    for older in KNOWN_RELEASES:
        for newer in KNOWN_RELEASES:
            said = why(older, newer)
            assert not said or "notes" in said, (older, newer, said)


def test_what_has_no_zookeeper_is_not_played():
    with pytest.raises(UsageError, match="has to go to KRaft first"):
        require_playable(release_of("3.9.1"), release_of("4.0.0"))
    with pytest.raises(UsageError, match="Say --mode kraft if it has KRaft"):
        require_playable(release_of("4.0.0"), release_of("4.1.0"))


def test_the_source_says_from_where_one_comes():
    assert led_from(release_of("2.8.2")).endswith("lead from 0.8 through 2.7 to 2.8")
    assert led_from(release_of("3.9.1")).endswith("lead from 2.4 through 3.8 to 3.9")
    assert led_from(release_of("0.10.2.2")) == ""


def test_with_kraft_the_pair_decides_the_mode_unless_both_releases_have_both():
    old, both, new = (release_of(text) for text in ("2.8.2", "3.9.1", "4.1.2"))
    assert mode_of(both, new, None) == mode_of(both, both, "kraft") == "kraft"
    assert mode_of(old, both, None) == mode_of(both, both, None) == "zookeeper"


@pytest.mark.parametrize(("older", "newer"), [("2.8.2", "4.0.2"), ("3.2.3", "3.9.1")])
def test_before_3_3_a_cluster_needs_a_hop_to_kraft(older: str, newer: str):
    with pytest.raises(UsageError, match=r"from 3\.3 on.*goes to 3\.9 first.*upgrade notes of 4"):
        require_playable(release_of(older), release_of(newer), "kraft")


@pytest.mark.parametrize(
    ("older", "newer", "changed"),
    [("4.0.2", "3.9.1", "23"), ("4.4.0", "4.2.1", "30, 32, 33"), ("3.7.2", "3.6.2", "15, 17")],
)
def test_no_metadata_version_goes_below_a_change_of_metadata(older: str, newer: str, changed: str):
    said = why_unsupported(release_of(older), release_of(newer), mode="kraft")
    assert f"metadata changed at {changed} (MetadataVersion.didMetadataChange" in said
    assert not why_unsupported(release_of(newer), release_of(older), mode="kraft")
    both = release_of(newer), release_of(older)
    assert why_unsupported(*both, mode="kraft", back=True, finalize=True) == said
    assert not why_unsupported(*both, mode="kraft", back=True)


def test_a_metadata_version_goes_down_where_metadata_did_not_change():
    for older, newer in (("4.2.1", "4.1.2"), ("4.1.2", "4.0.2"), ("3.9.1", "3.7.2")):
        assert not why_unsupported(release_of(older), release_of(newer), mode="kraft")


def test_each_feature_that_a_release_has_says_what_it_changes():
    features = {name for line in LINES for name in line.feature_levels}
    assert features == {*LEVELS}
    texts = level_texts(release_of("4.0.2"), release_of("4.1.2"))
    assert [text.partition(":")[0] for text in texts] == [
        "metadata.version 25 to 27",
        "eligible.leader.replicas.version 0 to 1",
    ]
    assert not level_texts(release_of("2.8.2"), release_of("3.9.1"))


@pytest.mark.parametrize(
    ("older", "newer", "why"),
    [
        ("3.3.2", "3.3.2", "Kafka documents it from 3.5 on"),
        ("3.4.1", "3.4.1", "as a preview, whose log never says"),
        ("4.1.2", "4.1.2", "no cluster with ZooKeeper runs 4.1.2"),
        ("3.8.1", "3.9.1", "software is not to be upgraded at the same time"),
    ],
)
def test_a_migration_is_refused_where_kafka_has_none(older: str, newer: str, why: str):
    with pytest.raises(UsageError, match=why):
        require_migration(release_of(older), release_of(newer))


def test_every_line_with_a_migration_names_its_documentation():
    for release in ("3.5.2", "3.6.2", "3.7.1", "3.8.1", "3.9.1"):
        require_migration(release_of(release), release_of(release))
        has_early_access = release_of(release).number < (3, 8)
        said = documented(release_of(release))
        assert ("early access" in said) is has_early_access
        assert "docs/ops.html at " in said
