"""KIP-279's scenarios under every release, beside what was measured on real brokers."""

import pytest

from kchaos.checkers.model import generation_for, predict
from kchaos.clusters.releases import KNOWN_RELEASES
from kchaos.studies.documents.kip_279_text import BATCH_EDGE, HIGH_WATERMARK_AT_LAST
from kchaos.studies.documents.proposal import with_proposals
from tests.support.model_timelines import kip_279_1, kip_279_3, payloads, ranges, replica
from tests.support.releases import each_release

KIP_101_ONLY = ("0.11.0.3", "1.0.2", "1.1.1")
KIP_279 = KNOWN_RELEASES[KNOWN_RELEASES.index("2.0.0") :]
CASES = [(15, False), (20, False), (25, False), (25, True)]

LEADER = [(0, 10, 1), (11, 20, 1), (21, 30, 3)]


def rounds(prediction):
    return [
        (each.requested_epoch, each.answered_epoch, each.end_offset)
        for each in prediction.rounds
        if each.requested_epoch >= 0
    ]


@pytest.mark.parametrize("release", KIP_101_ONLY)
@pytest.mark.parametrize(("n", "one_record"), CASES)
def test_up_to_1_1_the_leader_answers_21_for_an_epoch_it_does_not_know(release, n, one_record):
    prediction = predict(kip_279_1(release, n, one_record=one_record))
    assert rounds(prediction) == [(2, None, 21)]
    leader = replica(prediction, 0)
    assert ranges(leader) == LEADER
    assert leader.epoch_entries == ((1, 0), (3, 21))
    assert (leader.log_end_offset, leader.high_watermarks[0]) == (31, 31)


@pytest.mark.parametrize("release", KIP_101_ONLY)
def test_n15_kills_the_fetcher_thread(release):
    follower = replica(predict(kip_279_1(release, 15)), 1)
    assert ranges(follower) == [(0, 10, 1), (11, 15, 2)]
    assert follower.epoch_entries == ((1, 0), (2, 11))
    assert (follower.log_end_offset, follower.high_watermarks[0]) == (16, 11)
    assert follower.fetcher == "dead-thread"


@pytest.mark.parametrize("release", KIP_101_ONLY)
def test_n20_diverges_silently(release):
    follower = replica(predict(kip_279_1(release, 20)), 1)
    assert ranges(follower) == [(0, 10, 1), (11, 20, 2), (21, 30, 3)]
    assert follower.epoch_entries == ((1, 0), (2, 11), (3, 21))
    assert (follower.log_end_offset, follower.high_watermarks[0]) == (31, 31)
    assert follower.fetcher == "fetching"


@pytest.mark.parametrize("release", KIP_101_ONLY)
def test_n25_leaves_a_hole_since_the_log_ends_at_the_target_not_at_the_batch(release):
    follower = replica(predict(kip_279_1(release, 25)), 1)
    assert ranges(follower) == [(0, 10, 1), (21, 30, 3)]
    assert follower.epoch_entries == ((1, 0), (2, 11), (3, 21))
    assert follower.log_end_offset == 31


@pytest.mark.parametrize("release", KIP_101_ONLY)
def test_n25_in_one_record_batches_diverges_since_21_is_a_batch_edge(release):
    follower = replica(predict(kip_279_1(release, 25, one_record=True)), 1)
    assert ranges(follower) == [
        (0, 10, 1),
        *((offset, offset, 2) for offset in range(11, 21)),
        (21, 30, 3),
    ]
    assert follower.log_end_offset == 31


@pytest.mark.parametrize("release", each_release(KIP_279))
@pytest.mark.parametrize(("n", "one_record"), CASES)
def test_from_2_0_the_follower_truncates_to_the_common_epoch(release, n, one_record):
    prediction = predict(kip_279_1(release, n, one_record=one_record))
    leader, follower = replica(prediction, 0), replica(prediction, 1)
    assert rounds(prediction) == [(2, 1, 21)]
    assert ranges(leader) == LEADER
    assert follower.batches == leader.batches
    assert follower.epoch_entries == leader.epoch_entries == ((1, 0), (3, 21))
    assert (follower.log_end_offset, follower.high_watermarks[0]) == (31, 31)
    assert [
        (cut.target_offset, cut.log_end_offset_before, cut.high_watermark)
        for cut in prediction.truncations
        if cut.broker == 1
    ] == [(11, n + 1, n + 1 if release in ("2.8.2", "3.0.2", "3.3.2") else 11)]


def test_0_10_2_lost_the_tail_of_epoch_1_when_A_became_a_follower():
    prediction = predict(kip_279_1("0.10.2.2", 20))
    assert replica(prediction, 0).log_end_offset == 21
    assert replica(prediction, 0).batches == replica(prediction, 1).batches


@pytest.mark.parametrize("n", [15, 20, 25])
def test_a_2_0_1_binary_that_speaks_protocol_1_1_still_has_the_bug(n):
    old = predict(kip_279_1("1.1.1", n))
    mixed = predict(kip_279_1("2.0.1", n, inter_broker_protocol="1.1"))
    assert replica(mixed, 1).batches == replica(old, 1).batches
    assert rounds(mixed) == [(2, None, 21)]


def test_the_document_believes_that_n25_refetches_from_11():
    text = with_proposals(generation_for("1.1.1"), BATCH_EDGE)
    prediction = predict(kip_279_1("1.1.1", 25), generations={0: text, 1: text, 2: text})
    assert replica(prediction, 1).batches == replica(prediction, 0).batches
    assert prediction.generations[1] == "1.1.1 with KIP-279's text: log ends at a batch edge"


@pytest.mark.parametrize("release", KIP_101_ONLY)
def test_three_unclean_elections_diverge_at_0_up_to_1_1(release):
    prediction = predict(kip_279_3(release))
    a, b = replica(prediction, 0), replica(prediction, 1)
    assert rounds(prediction) == [(5, None, 1)]
    assert ranges(a) == [(0, 0, 1), (1, 1, 7)]
    assert ranges(b) == [(0, 0, 3), (1, 1, 7)]
    assert a.epoch_entries == ((1, 0), (7, 1))
    assert b.epoch_entries == ((3, 0), (7, 1))
    assert payloads(a)[0] != payloads(b)[0]
    assert payloads(a)[1] == payloads(b)[1]


def test_three_unclean_elections_still_diverge_at_0_on_2_0_0():
    prediction = predict(kip_279_3("2.0.0"))
    a, b = replica(prediction, 0), replica(prediction, 1)
    assert rounds(prediction) == [(5, 3, 1), (1, -1, -1)]
    assert (ranges(a)[0], ranges(b)[0]) == ((0, 0, 1), (0, 0, 3))
    assert (a.log_end_offset, b.log_end_offset) == (2, 2)


def test_the_document_falls_back_to_the_high_watermark_where_2_0_0_does_not():
    text = with_proposals(generation_for("2.0.0"), HIGH_WATERMARK_AT_LAST)
    prediction = predict(kip_279_3("2.0.0"), generations={0: text, 1: text, 2: text})
    assert replica(prediction, 0).batches == replica(prediction, 1).batches
    assert [cut.target_offset for cut in prediction.truncations] == [1, 0]


@pytest.mark.parametrize("release", each_release(KIP_279[KIP_279.index("2.0.1") :]))
def test_three_unclean_elections_converge_from_2_0_1_in_two_rounds(release):
    prediction = predict(kip_279_3(release))
    a, b = replica(prediction, 0), replica(prediction, 1)
    assert rounds(prediction) == [(5, 3, 1), (1, 1, 0)]
    assert a.batches == b.batches
    assert ranges(b) == [(0, 0, 3), (1, 1, 7)]
    assert a.epoch_entries == b.epoch_entries == ((3, 0), (7, 1))
    assert prediction.disallowed == ()


def test_three_unclean_elections_diverge_at_1_with_a_common_epoch_up_to_1_1():
    prediction = predict(kip_279_3("1.1.1", common=True))
    a, b = replica(prediction, 0), replica(prediction, 1)
    assert rounds(prediction) == [(5, None, 2)]
    assert ranges(a) == [(0, 0, 0), (1, 1, 1), (2, 2, 7)]
    assert ranges(b) == [(0, 0, 0), (1, 1, 3), (2, 2, 7)]


def test_2_0_1_with_protocol_1_1_diverges_at_1_with_a_common_epoch():
    prediction = predict(kip_279_3("2.0.1", common=True, inter_broker_protocol="1.1"))
    a, b = replica(prediction, 0), replica(prediction, 1)
    assert [ranges(each)[1] for each in (a, b)] == [(1, 1, 1), (1, 1, 3)]
    assert rounds(prediction) == [(5, None, 2)]


@pytest.mark.parametrize("release", each_release(KIP_279))
def test_three_unclean_elections_converge_with_a_common_epoch(release):
    prediction = predict(kip_279_3(release, common=True))
    a, b = replica(prediction, 0), replica(prediction, 1)
    assert rounds(prediction) == [(5, 3, 2), (1, 0, 1)]
    assert a.batches == b.batches
    assert ranges(b) == [(0, 0, 0), (1, 1, 3), (2, 2, 7)]
    assert a.epoch_entries == ((0, 0), (3, 1), (7, 2))
    assert (a.log_end_offset, a.high_watermarks[0]) == (3, 3)


@pytest.mark.parametrize(
    ("a", "b", "converges"), [("2.0.0", "2.0.1", True), ("2.0.1", "2.0.0", False)]
)
def test_in_a_mixed_cluster_the_leaders_release_answers(a, b, converges):
    generations = {0: generation_for(a), 1: generation_for(b)}
    prediction = predict(kip_279_3("2.0.0"), generations=generations)
    same = replica(prediction, 0).batches == replica(prediction, 1).batches
    assert same == converges
    assert rounds(prediction)[-1] == ((1, 1, 0) if converges else (1, -1, -1))


@pytest.mark.parametrize("n", [15, 20, 25])
def test_in_a_mixed_cluster_the_followers_protocol_asks(n):
    generations = {
        0: generation_for("2.1.1", inter_broker_protocol="1.1"),
        1: generation_for("2.0.1", inter_broker_protocol="1.1"),
    }
    prediction = predict(kip_279_1("2.0.1", n), generations=generations)
    assert rounds(prediction) == [(2, None, 21)]
    assert replica(prediction, 1).batches != replica(prediction, 0).batches
