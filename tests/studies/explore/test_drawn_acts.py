"""From 2.1.1 on both properties hold within these bounds: 3 brokers, 30 moves, one format."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kchaos.checkers.model import generation_for, predict
from kchaos.studies.explore.move_lists import Setup, play
from kchaos.studies.explore.moves import LISTED_KINDS, ChaosMove
from tests.support.examples import examples

pytestmark = pytest.mark.slow

BROKERS = 3
MOVES = 30

MOVE = st.builds(
    ChaosMove,
    st.sampled_from(LISTED_KINDS),
    st.integers(0, BROKERS - 1),
    st.integers(0, BROKERS - 1),
).filter(lambda move: move.broker != move.other)

NEW = [
    ("2.1.1", ["KAFKA-10706"]),
    ("2.2.2", ["KAFKA-10706"]),
    ("2.4.1", ["KAFKA-10706"]),
    ("2.6.3", []),
    ("2.8.2", []),
    ("3.3.2", []),
    ("3.9.1", []),
]
"""KAFKA-10706 stops a truncation for ever up to 2.6.0; test_counterexamples.py has that one."""


@pytest.mark.parametrize(("release", "also"), NEW)
@pytest.mark.parametrize("is_unclean", [False, True])
@settings(
    max_examples=examples(150), derandomize=True, deadline=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(moves=st.lists(MOVE, max_size=MOVES))
def test_replicas_agree_and_nothing_promised_is_lost(release, also, is_unclean, moves):
    generation = generation_for(release, also=also)
    setup = Setup(generations=dict.fromkeys(range(BROKERS), generation), is_unclean=is_unclean)
    assert play(setup, moves).violation == ""


@pytest.mark.parametrize("release", ["0.10.2.2", "1.1.1", "2.0.0", "2.1.1", "2.8.2"])
@settings(max_examples=examples(60), derandomize=True, deadline=None)
@given(moves=st.lists(MOVE, max_size=MOVES))
def test_every_decision_of_the_explorer_is_allowed_and_replays_to_the_same(release, moves):
    generation = generation_for(release)
    setup = Setup(generations=dict.fromkeys(range(BROKERS), generation))
    timeline = play(setup, moves).timeline
    first = predict(timeline, generations=setup.generations)
    assert first.disallowed == ()
    assert predict(timeline, generations=setup.generations) == first


@settings(max_examples=examples(60), derandomize=True, deadline=None)
@given(moves=st.lists(MOVE, max_size=MOVES))
def test_brokers_of_two_releases_agree_when_their_protocol_is_2_1(moves):
    old = generation_for("2.1.1", also=["KAFKA-10706"])
    new = generation_for("2.6.3", inter_broker_protocol="2.1")
    setup = Setup(generations={0: old, 1: new, 2: old})
    assert play(setup, moves).violation == ""


def test_a_move_that_is_not_possible_does_nothing():
    generation = generation_for("2.8.2")
    setup = Setup(generations=dict.fromkeys(range(BROKERS), generation))
    idle = [
        ChaosMove("resume", 0),
        ChaosMove("restart", 1),
        ChaosMove("release", 2),
        ChaosMove("heal", 0, 1),
    ]
    assert play(setup, idle).timeline == play(setup, []).timeline
