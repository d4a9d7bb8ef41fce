"""KIP-101's scenarios under every release: HW truncation loses and diverges, epochs do not."""

import pytest

from kchaos.checkers.model import predict
from kchaos.checkers.model.values.prediction import EpochRound, PredictedProduce, Truncation
from kchaos.clusters.releases import KNOWN_RELEASES
from tests.support.model_timelines import kip_101_1, kip_101_2, payloads, ranges, replica
from tests.support.releases import each_release

WITH_EPOCHS = KNOWN_RELEASES[1:]


def round_of(
    follower: int,
    leader: int,
    requested: int,
    answered: int | None,
    end: int,
    *,
    by_fetch: bool = False,
) -> EpochRound:
    return EpochRound(
        follower=follower,
        leader=leader,
        topic="t",
        partition=0,
        requested_epoch=requested,
        answered_epoch=answered,
        end_offset=end,
        by_fetch=by_fetch,
    )


def test_0_10_2_loses_an_acknowledged_record_after_two_quick_elections():
    prediction = predict(kip_101_1("0.10.2.2"))
    assert replica(prediction, 2, "A follows B").log_end_offset == 1
    for broker in (1, 2):
        assert ranges(replica(prediction, broker)) == [(0, 0, -1), (1, 1, -1)]
        assert replica(prediction, broker).high_watermarks[0] == 2
    assert prediction.truncations == (
        Truncation(
            broker=2,
            topic="t",
            partition=0,
            target_offset=1,
            log_end_offset_before=2,
            high_watermark=1,
        ),
        Truncation(
            broker=1,
            topic="t",
            partition=0,
            target_offset=1,
            log_end_offset_before=2,
            high_watermark=1,
        ),
    )
    assert prediction.produces == (
        PredictedProduce(operation="m1", acknowledged=True, base_offset=0),
        PredictedProduce(operation="m2", acknowledged=True, base_offset=1),
        PredictedProduce(operation="m3", acknowledged=True, base_offset=1),
    )


@pytest.mark.parametrize("release", each_release(WITH_EPOCHS))
def test_a_follower_keeps_acknowledged_records_above_its_high_watermark(release):
    prediction = predict(kip_101_1(release))
    waiting = replica(prediction, 2, "A follows B")
    assert (waiting.log_end_offset, waiting.high_watermarks[0]) == (2, 1)
    for broker in (1, 2):
        held = replica(prediction, broker)
        assert ranges(held) == [(0, 0, 0), (1, 1, 0), (2, 2, 2)]
        assert held.epoch_entries == ((0, 0), (2, 2))
        assert (held.log_end_offset, held.high_watermarks[0]) == (3, 3)
    assert prediction.truncations == ()
    assert prediction.disallowed == ()
    assert prediction.produces[1:] == (
        PredictedProduce(operation="m2", acknowledged=True, base_offset=1),
        PredictedProduce(operation="m3", acknowledged=True, base_offset=2),
    )


@pytest.mark.parametrize(
    ("release", "rounds"),
    [
        ("0.11.0.3", ((1, 0, -1, None, -1), (2, 0, -1, None, -1), (1, 2, 0, None, 2))),
        ("1.1.1", ((1, 0, -1, None, -1), (2, 0, -1, None, -1), (1, 2, 0, None, 2))),
        ("2.0.0", ((1, 0, -1, -1, -1), (2, 0, -1, -1, -1), (1, 2, 0, 0, 2))),
        ("2.0.1", ((1, 0, -1, -1, -1), (2, 0, -1, -1, -1), (1, 2, 1, 0, 2))),
        ("2.1.0", ((1, 2, 1, 0, 2),)),
        ("2.7.2", ((1, 2, 1, 0, 2),)),
    ],
)
def test_followers_ask_for_the_end_of_their_last_epoch(release, rounds):
    assert predict(kip_101_1(release)).rounds == tuple(round_of(*each) for each in rounds)


@pytest.mark.parametrize("release", ["2.8.2", "3.9.1"])
def test_from_2_8_the_fetch_response_tells_the_diverging_epoch(release):
    assert predict(kip_101_1(release)).rounds == (round_of(1, 2, 1, 0, 2, by_fetch=True),)


def test_0_10_2_keeps_different_records_after_a_power_loss_of_both():
    prediction = predict(kip_101_2("0.10.2.2"))
    ahead, leader = replica(prediction, 0), replica(prediction, 1)
    assert ranges(ahead) == ranges(leader) == [(0, 0, -1), (1, 1, -1)]
    assert payloads(ahead)[0] == payloads(leader)[0]
    assert payloads(ahead)[1] != payloads(leader)[1]
    assert ahead.fetcher == "fetching"
    assert prediction.truncations == ()


@pytest.mark.parametrize("release", each_release(WITH_EPOCHS))
def test_epochs_heal_a_power_loss_of_both(release):
    prediction = predict(kip_101_2(release))
    ahead, leader = replica(prediction, 0), replica(prediction, 1)
    assert ahead.batches == leader.batches
    assert ranges(leader) == [(0, 0, 0), (1, 1, 1)]
    assert ahead.epoch_entries == leader.epoch_entries == ((0, 0), (1, 1))
    assert (ahead.log_end_offset, ahead.high_watermarks[0]) == (2, 2)
    assert [
        (cut.broker, cut.target_offset, cut.log_end_offset_before) for cut in prediction.truncations
    ] == [(0, 1, 2)]
    last = prediction.rounds[-1]
    assert (last.requested_epoch, last.end_offset, last.by_fetch) == (
        0,
        1,
        release in ("2.8.2", "3.0.2", "3.3.2", "3.6.2", "3.9.1"),
    )
