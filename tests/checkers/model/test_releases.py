"""Releases: first releases by line, ranges that end, backports, and how well each is known."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import kchaos.checkers.model.releases
from kchaos.checkers.acts import CutLink, StartBroker
from kchaos.checkers.errors import ModelError
from kchaos.checkers.model import generation_for, predict
from kchaos.checkers.model.releases.composition import asks_controller_for_isr
from kchaos.checkers.model.releases.every_rule import RANGES, RULES
from kchaos.checkers.model.releases.status import Status, status
from kchaos.checkers.model.releases.versions import (
    LOOKED_UP,
    RELEASED,
    ReleaseRange,
    Since,
    line_of,
    parse_version,
    runs,
)
from kchaos.checkers.model.values.events import TopicConfigured, TopicCreated
from kchaos.clusters.releases import KNOWN_RELEASES, release_of
from tests.support.model_timelines import replica, state, write
from tests.support.rule_timelines import pair, shorter_leader


@pytest.mark.parametrize(
    ("release", "included"),
    [
        ("3.3.2", False),
        ("3.4.0", False),
        ("3.4.1", True),
        ("3.5.0", True),
        ("3.9.1", True),
        ("4.0.0", True),
    ],
)
def test_a_line_counts_from_its_own_first_release_and_later_lines_from_their_start(
    release: str, included: bool
):
    assert Since("3.4.1", "3.5.0").includes(parse_version(release)) is included


def test_a_line_between_the_named_ones_that_is_not_named_never_has_it():
    since = Since("2.7.2", "3.0.0")
    assert [since.includes(parse_version(release)) for release in ("2.7.2", "2.8.2", "3.0.0")] == [
        True,
        False,
        True,
    ]


def test_lines_before_1_0_have_three_numbers():
    since = Since("0.11.0.3", "1.0.2")
    assert line_of((0, 11, 0, 3)) == (0, 11, 0)
    assert not since.includes((0, 10, 2, 9))
    assert not since.includes((0, 11, 0, 2))
    assert since.includes((0, 11, 0, 3))


@pytest.mark.parametrize("wrong", [(), ("3.5.0", "3.4.1"), ("3.4.0", "3.4.1"), ("3.x",)])
def test_first_releases_are_one_of_each_line_and_in_order(wrong: tuple[str, ...]):
    with pytest.raises(ModelError):
        Since(*wrong)


def test_equal_first_releases_are_equal_values():
    assert Since("3.4.1", "3.5.0") == Since("3.4.1", "3.5.0")
    assert len({Since("3.4.1"), Since("3.4.1"), Since("3.4.0")}) == 2


def test_a_range_ends_before_the_first_release_without_it_in_each_line():
    ended = ReleaseRange(Since("1.0.0"), until=Since("1.0.2", "1.1.1", "2.0.0"))
    assert ended.released() == ("1.0.0", "1.0.1", "1.1.0")
    assert str(ended) == "1.0.0 to 1.0.1, 1.1.0"


def test_releases_are_said_as_runs():
    assert runs(()) == "none"
    assert runs(("0.11.0.3", *LOOKED_UP[LOOKED_UP.index("1.0.2") :])) == "0.11.0.3, 1.0.2 on"
    later = LOOKED_UP[LOOKED_UP.index("4.0.1") :]
    assert runs(("3.9.1", "3.9.2", *later)) == "3.9.1 to 3.9.2, 4.0.1 on"


def test_every_release_can_be_read_and_they_are_in_order():
    versions = [parse_version(release) for release in RELEASED]
    assert versions == sorted(set(versions))
    assert len(versions) == 64


@pytest.mark.parametrize("wrong", ["", "1", "1.1.x", "1.2.3.4.5", "trunk"])
def test_what_is_no_release_is_refused_with_what_to_write(wrong: str):
    with pytest.raises(ModelError, match=r"write it like 1\.1\.1"):
        parse_version(wrong)


def test_what_the_rules_declare_is_what_was_found_in_every_release():
    file = Path(kchaos.checkers.model.releases.__file__).with_name("compared.json")
    document = json.loads(file.read_text(encoding="utf-8"))
    assert {name: str(range_) for name, range_ in RANGES.items()} == document["found"]
    assert tuple(document["read_at"]) == LOOKED_UP


def test_every_released_version_has_one_way_to_begin_as_a_new_leader():
    names = ("unknown high watermark of a new leader", "KAFKA-3978", "high watermark in the log")
    ways = {
        release: [name for name in names if RANGES[name].includes(parse_version(release))]
        for release in RELEASED
    }
    assert {release: way for release, way in ways.items() if len(way) != 1} == {}


def test_a_release_is_known_as_compared_and_as_played_apart_from_each_other():
    assert status("1.1.1") == Status(read_at="tag", played=True)
    assert status("2.3.0") == Status(read_at="tag", played=False)
    assert status("3.9.1") == Status(read_at="source jar", played=True)
    assert status("1.1.2") == Status(read_at=None, played=False)
    assert not status("1.1.2").compared


@pytest.mark.parametrize(
    ("release", "protocol", "asks"),
    [
        ("2.6.3", None, False),
        ("2.7.0", None, True),
        ("2.7.2", "2.7-IV1", False),
        ("2.7.2", "2.7-IV2", True),
        ("2.8.2", "2.6", False),
        ("3.9.1", None, True),
        ("of my own", None, None),
        ("2.8.2", "newest", None),
    ],
)
def test_a_leader_asks_the_controller_for_an_isr_from_protocol_2_7_iv2_on(
    release: str, protocol: str | None, asks: bool | None
):
    started = StartBroker(broker=0, release=release, inter_broker_protocol=protocol)
    assert asks_controller_for_isr(started) is asks


# -- Rules together, release by release; each alone is in `test_each_rule` --


def test_a_release_follows_the_rules_that_its_source_has():
    """Each release speaks its own protocol, so only rules for old formats are left out."""
    modes = [(release, mode) for release in KNOWN_RELEASES for mode in release_of(release).modes]
    for release, mode in modes:
        version = parse_version(release)
        wanted = {
            rule.name
            for rule in RULES
            if RANGES[rule.name].includes(version)
            and rule.mode in (None, mode)
            and not rule.is_for_old_formats
        }
        assert {*generation_for(release, mode=mode).rules} == wanted, (release, mode)


@pytest.mark.parametrize(
    ("on_brokers", "of_topic", "exits"),
    [
        (False, None, True),
        (True, None, False),
        (False, "true", False),
        (False, " True ", False),
        (True, "false", True),
    ],
)
def test_the_topics_word_about_unclean_elections_counts_before_the_brokers(
    on_brokers, of_topic, exits
):
    of_topic = () if of_topic is None else (("unclean.leader.election.enable", of_topic),)
    timeline = [
        replace(each, unclean_leader_election=on_brokers) if isinstance(each, StartBroker) else each
        for each in shorter_leader("1.1.1")
    ]
    created = next(i for i, each in enumerate(timeline) if isinstance(each, TopicCreated))
    timeline.insert(created, TopicConfigured(topic="t", configuration=of_topic))
    follower = replica(predict(timeline), 1)
    assert (follower.is_running, follower.log_end_offset) == ((False, 2) if exits else (True, 1))


def test_the_topics_own_min_insync_replicas_counts_before_the_brokers():
    timeline = [
        *pair("2.8.2", min_insync_replicas=2),
        TopicConfigured(topic="t", configuration=(("min.insync.replicas", "1"),)),
        CutLink(source=0, target=1),
        state(0, 0, (0,)),
        write("alone", 0, acks=-1),
    ]
    (outcome,) = predict(timeline).produces
    assert (outcome.acknowledged, outcome.base_offset) == (True, 0)
