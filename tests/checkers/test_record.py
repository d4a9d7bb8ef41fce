"""Order of a run, read from what was written down."""

from kchaos.checkers.model.follow.observations import (
    Fate,
    Observation,
    RequestSeen,
    ResponseSeen,
    Seen,
)
from kchaos.checkers.record import _first_sign


def at(time: float, what: Observation) -> Seen:
    return Seen(what=what, time=time, zxid=0, source="")


def question(
    connection: int, *, follower: int, leader: int, fate: Fate = Fate.ARRIVES
) -> RequestSeen:
    return RequestSeen(
        number=(connection, 0),
        fate=fate,
        api="Fetch",
        follower=follower,
        leader=leader,
        partitions={},
    )


def test_a_process_shows_itself_by_asking_and_by_being_asked_what_it_answers() -> None:
    reply = ResponseSeen(
        number=(7, 0), fate=Fate.ARRIVES, api="Fetch", follower=1, leader=2, partitions={}
    )
    asked = at(5.0, question(7, follower=1, leader=2))
    assert _first_sign([asked, at(6.0, reply)], 2, 3.0) == 5.0
    assert _first_sign([at(4.0, question(8, follower=2, leader=0)), asked], 2, 3.0) == 4.0
    assert _first_sign([asked], 2, 3.0) == float("inf")


def test_what_a_hold_kept_of_the_process_before_is_no_sign_of_the_next_one() -> None:
    held = at(2.0, question(9, follower=2, leader=0, fate=Fate.WAITS))
    released = at(5.0, question(9, follower=2, leader=0))
    own = at(6.0, question(11, follower=2, leader=1))
    assert _first_sign([held, released, own], 2, 3.0) == 6.0
