"""A fetch loop, as the links see it."""

from dataclasses import replace
from typing import Any, cast

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.rules.fetch_loops import ANSWERS
from kchaos.clusters.links import ApiKey, LinkRecord
from kchaos.harness.gates.fetching import fetch_loop
from kchaos.harness.play.play import Play
from tests.support.stand_ins import StandInCluster, link_record

ABOUT = TopicPartition("t", 0)


def answers(*error_codes: int) -> list[LinkRecord]:
    """Answers of broker 0 to broker 1, ten a second."""
    return [
        link_record(
            ApiKey.FETCH,
            1,
            0,
            sequence=index + 1,
            monotonic_s=index / 10,
            wall_time_s=index / 10,
            correlation_id=index,
            direction="response",
            detail={"partitions": [{"topic": "t", "partition": 0, "error_code": code}]},
        )
        for index, code in enumerate(error_codes)
    ]


def loop(records: list[LinkRecord] | None) -> str:
    cluster = StandInCluster(linked=records is not None, records=records or ())
    play = Play(cluster=cast(Any, cluster), run=cast(Any, None), say=print)
    return fetch_loop(play, 1, 0, ABOUT)


def test_a_follower_that_is_out_of_range_again_and_again_is_in_a_loop():
    said = loop(answers(*[0] * 5, *[1] * ANSWERS))
    assert said == (
        f"its last {ANSWERS} fetches from broker 0, 10 a second, were all answered with "
        "OFFSET_OUT_OF_RANGE"
    )


def test_a_follower_that_was_answered_once_is_in_no_loop():
    assert loop(answers(*[1] * (ANSWERS - 1))) == ""
    assert loop(answers(*[1] * 50, 0, *[1] * (ANSWERS - 1))) == ""


def test_answers_of_others_and_about_other_partitions_do_not_count():
    refused = answers(*[1] * ANSWERS)
    assert loop([replace(refusal, target=2) for refusal in refused]) == ""
    assert loop([replace(refusal, source=2) for refusal in refused]) == ""
    other = {"partitions": [{"topic": "u", "partition": 0, "error_code": 1}]}
    assert loop([replace(refusal, detail=other) for refusal in refused]) == ""
    assert loop([replace(refusal, detail=None) for refusal in refused]) == ""


def test_without_links_nobody_can_tell():
    assert loop(None) == ""
