"""What of a recorded run only some states, or none, can be seen as."""

import pytest

from checkers.acts import TopicPartition
from checkers.model.lookahead import Lookahead
from checkers.model.observations import Fate, FetchAsked, Question, Record, Seen
from checkers.model.state import EMPTY
from checkers.model.taking import Excluded, take
from checkers.model.world import World


def question(fate: Fate) -> Question:
    asked = FetchAsked(fetch_offset=15, leader_epoch=None, last_fetched_epoch=None)
    return Question(
        number=(9, 13),
        fate=fate,
        api="Fetch",
        follower=2,
        leader=0,
        partitions={TopicPartition("t", 0): asked},
    )


def take_last(*questions: Question) -> World:
    """The transition of the last of these, in a state in which nobody asks anything."""
    seen = [Seen(what=one, time=1.0, zxid=0, source="") for one in questions]
    world = World(EMPTY)
    take(
        world,
        questions[-1],
        Lookahead(Record(seen=tuple(seen), decided=())),
        generations={},
        decided=0,
    )
    return world


@pytest.mark.parametrize("fate", [Fate.ARRIVES, Fate.ABANDONED])
def test_a_request_that_waited_while_its_leader_ended_reaches_nobody(fate: Fate) -> None:
    assert not take_last(question(Fate.WAITS), question(fate)).changes


def test_a_request_of_a_fetcher_that_there_is_not_is_not_possible() -> None:
    with pytest.raises(Excluded, match="broker 2 has no fetcher for broker 0"):
        take_last(question(Fate.ARRIVES))
