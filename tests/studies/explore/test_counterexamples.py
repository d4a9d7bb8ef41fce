"""For every generation with a known hole: moves that fall into it, and the fix that closes it.

Each list was drawn or begun from the Jira's story, then cut down by `smallest`. Without
the one named fix a property breaks; with only that fix added to the same generation it holds.
"""

from functools import partial
from random import Random

import pytest

from kchaos.checkers.model import generation_for, predict
from kchaos.harness.player.shrinking import minimised
from kchaos.studies.explore.move_lists import Setup, play
from kchaos.studies.explore.moves import ChaosMove
from kchaos.studies.explore.walk import drawn_moves
from tests.support.known_holes import (
    EPOCH_CACHES,
    KAFKA_1211,
    KAFKA_6361,
    KAFKA_7128,
    KAFKA_7164,
    KAFKA_7395,
    KAFKA_7415,
    KAFKA_7601,
    KAFKA_7897,
    KAFKA_10706,
    KIP_279,
    KIP_320,
    alike,
    flapping,
)

pytestmark = pytest.mark.slow

STORM = dict.fromkeys(
    ("write-one", "write-pair", "write-all", "expire", "register", "prefer", "kill", "restart"), 1
)

LOSES = "promises: what was acknowledged at offset 0 is gone"

CASES = {
    "KAFKA-1211 loses an acknowledged record on 0.10.2": (
        KAFKA_1211,
        alike("0.10.2.2", checks_agreement=False),
        alike("0.11.0.3", checks_agreement=False),
        LOSES,
    ),
    "KAFKA-1211 takes a replica in sync below the high watermark on 0.10.2": (
        KAFKA_1211[:4],
        alike("0.10.2.2"),
        alike("0.11.0.3"),
        "agreement: broker 2 is in the ISR of leader 1 in epoch 1, but differs below high "
        "watermark 1",
    ),
    **{
        f"KAFKA-6361 on {release}": (
            KAFKA_6361,
            alike(release, brokers=2),
            alike(release, brokers=2, also=KIP_279),
            "agreement: healed, but broker 0 differs from leader 1",
        )
        for release in ("0.11.0.3", "1.0.2", "1.1.1")
    },
    "KAFKA-7128 loses an acknowledged record on 2.0.0": (
        KAFKA_7128,
        alike("2.0.0", checks_agreement=False),
        alike("2.0.0", checks_agreement=False, also=["KAFKA-7128"]),
        LOSES,
    ),
    "KAFKA-7164 on 2.0.0": (
        KAFKA_7164,
        alike("2.0.0"),
        alike("2.0.0", also=["KAFKA-7164"]),
        "agreement: broker 1 is in the ISR of leader 0 in epoch 3, but differs below high "
        "watermark 1",
    ),
    "KAFKA-7415 on 2.0.0": (
        KAFKA_7415,
        alike("2.0.0"),
        alike("2.0.0", also=["KAFKA-7415"]),
        "agreement: broker 1 is in the ISR of leader 2 in epoch 2, but differs below high "
        "watermark 2",
    ),
    "KAFKA-7395, a fetch from a leader of an older epoch, on 2.0.1": (
        KAFKA_7395,
        alike("2.0.1"),
        alike("2.0.1", also=KIP_320),
        "agreement: healed, but broker 1 differs from leader 0",
    ),
    "KAFKA-7897 on 2.1.0 with an old message format": (
        KAFKA_7897,
        alike("2.1.0", message_format="0.10.2", also=EPOCH_CACHES),
        alike("2.1.0", message_format="0.10.2", also=(*EPOCH_CACHES, "KAFKA-7897")),
        "agreement: broker 0 is in the ISR of leader 2 in epoch 2, but differs below high "
        "watermark 1",
    ),
    **{
        f"KAFKA-10706, a truncation without end, on {release}": (
            KAFKA_10706,
            alike(release),
            alike(release, also=EPOCH_CACHES),
            "agreement: healed, but broker 0 differs from leader 2",
        )
        for release in ("2.0.1", "2.1.0", "2.1.1", "2.2.0", "2.2.2", "2.3.1", "2.4.1", "2.5.1")
    },
    **{
        f"KAFKA-7601 on {release} with two message formats": (
            KAFKA_7601,
            flapping(release, also=EPOCH_CACHES),
            flapping(release, also=(*EPOCH_CACHES, "KAFKA-7601")),
            "agreement: broker 3 is in the ISR of leader 2 in epoch 6, but differs below high "
            "watermark 3",
        )
        for release in ("2.1.1", "2.2.0")
    },
}


@pytest.mark.parametrize("name", CASES)
def test_the_moves_break_a_property(name):
    seen, broken, _, violation = CASES[name]
    assert play(broken, seen).violation == violation


@pytest.mark.parametrize("name", CASES)
def test_the_fix_alone_keeps_the_property(name):
    seen, _, repaired, _ = CASES[name]
    assert play(repaired, seen).violation == ""


@pytest.mark.parametrize("name", CASES)
def test_no_move_is_too_many(name):
    seen, broken, repaired, _ = CASES[name]

    def breaks(fewer):
        return bool(play(broken, fewer).violation) and not play(repaired, fewer).violation

    assert smallest(seen, breaks) == seen


@pytest.mark.parametrize("name", CASES)
def test_the_explorer_decides_only_what_the_rules_allow(name):
    seen, broken, _, _ = CASES[name]
    timeline = play(broken, seen).timeline
    assert predict(timeline, generations=broken.generations).disallowed == ()


@pytest.mark.parametrize("release", ["2.6.3", "2.8.2", "3.9.1"])
@pytest.mark.parametrize(
    ("moves", "rules", "brokers", "checks_agreement"),
    [
        (KAFKA_7128, ["KAFKA-7128"], 3, False),
        (KAFKA_7415, ["KAFKA-7415"], 3, True),
        (KAFKA_10706, ["KAFKA-10706"], 3, True),
        (KAFKA_6361, [*KIP_279, "OffsetForLeaderEpoch v2"], 2, True),
    ],
)
def test_a_new_release_without_an_old_fix_would_break_as_the_old_one_did(
    release, moves, rules, brokers, checks_agreement
):
    def setup(generation):
        return Setup(
            generations=dict.fromkeys(range(brokers), generation), checks_agreement=checks_agreement
        )

    # With KAFKA-13091's fix, since a high watermark that stands still also loses nothing.
    also = ["KAFKA-13091"]
    assert play(setup(generation_for(release, without=rules, also=also)), moves).violation
    assert play(setup(generation_for(release, also=also)), moves).violation == ""


def test_KAFKA_7601_comes_back_after_an_unclean_stop_since_recovery_restores_the_epoch():
    """Predicted from LogSegment.recover, 2.2.2; not seen on real brokers."""
    killed = tuple(
        ChaosMove("kill", 3) if move.kind == "terminate" else move for move in KAFKA_7601
    )
    assert play(flapping("2.2.2", also=EPOCH_CACHES), killed).violation
    assert not play(flapping("2.2.2", also=EPOCH_CACHES), KAFKA_7601).violation


# The first seed whose list breaks these releases. The lists before it take seconds for each.
BREAKING_SEED = 577


@pytest.mark.parametrize("release", ["0.10.2.2", "0.11.0.3", "1.0.2", "1.1.1", "2.0.0", "2.0.1"])
def test_drawn_moves_find_the_holes_of_old_generations_by_themselves(release):
    setup = alike(release)
    drawn = (
        tuple(drawn_moves(Random(seed), tuple(setup.generations), steps=30, weights=STORM))
        for seed in range(BREAKING_SEED, 2000)
    )
    breaking = next(moves for moves in drawn if play(setup, moves).violation)
    small = smallest(breaking, lambda moves: bool(play(setup, moves).violation))
    assert len(small) < len(breaking)
    assert play(setup, small).violation.startswith("agreement")


def smallest(moves, breaks):
    """Return a part of the moves that still breaks, from which no single move can be left out."""
    showing = partial(first_that, breaks)
    return minimised(moves, showing).steps


def first_that(breaks, candidates):
    return next((index for index, moves in enumerate(candidates) if breaks(moves)), None)
