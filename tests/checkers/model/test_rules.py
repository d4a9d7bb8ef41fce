"""Rules together, release by release; each alone is in `test_each_rule`."""

from dataclasses import replace

import pytest

from kchaos.checkers.acts import CutLink, StartBroker
from kchaos.checkers.model import generation_for, predict
from kchaos.checkers.model.releases.every_rule import RANGES, RULES
from kchaos.checkers.model.releases.versions import parse_version
from kchaos.checkers.model.values.events import TopicConfigured, TopicCreated
from kchaos.clusters.releases import KNOWN_RELEASES, release_of
from tests.support.model_timelines import replica, state, write
from tests.support.rule_timelines import pair, shorter_leader


def test_a_release_follows_the_rules_that_its_source_has() -> None:
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
