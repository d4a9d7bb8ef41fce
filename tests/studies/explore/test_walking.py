"""Random walks: every act is possible where it stands, and the list ends healed."""

from random import Random

import pytest

import tests.support.model as m
from kchaos.checkers.model import generation_for
from kchaos.studies.explore import ActedBrokers, ActedCluster, Schedule, walk
from kchaos.studies.explore.acts import KINDS, RECORDS
from kchaos.studies.explore.at_once import PARTITION, InstantController
from kchaos.studies.explore.moves import ChaosMove, healing
from kchaos.studies.explore.schedules import wrong_at_end
from kchaos.studies.explore.simulation import SimulatedCluster, SimulationMemory
from kchaos.studies.explore.walk import WALK_WEIGHTS, WIDE_WALK_WEIGHTS, conflicts

pytestmark = pytest.mark.slow

SEEDS = 6


def cluster(release: str = "2.8.2", *, replicas: int = 2, is_unclean: bool = False) -> ActedCluster:
    generations = dict.fromkeys(range(replicas), generation_for(release))
    return ActedCluster(ActedBrokers(generations=generations, is_unclean=is_unclean))


def walked(seed: int, release: str = "2.8.2", replicas: int = 3) -> Schedule:
    return walk(cluster(release, replicas=replicas), Random(seed), steps=25)


def after(each: ActedCluster, *acts: ChaosMove) -> m.State | None:
    """The state after these acts; None as soon as one of them is not possible."""
    state: m.State | None = each.begin()
    for number, act in enumerate(acts):
        if state is None:
            return None
        state = each.after(state, act, f"record-{number}")
    return state


def partition_state(state: m.State | None) -> m.PartitionState:
    assert state is not None
    known = m.World(state).partition_state(PARTITION)
    assert known is not None
    return known


@pytest.mark.parametrize("release", ["0.10.2.2", "1.1.1", "2.8.2", "3.9.1"])
def test_every_act_is_one_that_the_machine_says_is_possible_there(release: str):
    for seed in range(SEEDS):
        replicas = 2 + seed % 2
        course = walked(seed, release, replicas)
        again = cluster(release, replicas=replicas)
        assert len(course.states) == len(course.acts) + 1
        assert course.states[0] == again.begin()
        for number, act in enumerate(course.acts):
            assert act in again.acts()
            then = again.after(course.states[number], act, f"record-{number}")
            assert then is not None, f"seed {seed}: {act} at {number}"
            if number < len(course.acts) - course.healing:
                assert then == course.states[number + 1]


def test_the_same_seed_gives_the_same_walk_and_another_one_another():
    assert walked(1) == walked(1)
    assert walked(1).acts != walked(2).acts


def test_a_walk_is_as_long_as_it_was_to_be_and_ends_with_nothing_left_to_heal():
    for seed in range(SEEDS):
        course = walked(seed)
        assert len(course.acts) - course.healing == 25
        assert course.message == "25 acts"
        assert not list(healing(m.World(course.states[-1])))


def test_every_kind_of_act_is_drawn():
    drawn: set[str] = set()
    for seed in range(30):
        if drawn >= set(WALK_WEIGHTS):
            break
        drawn |= {act.kind for act in walked(seed, replicas=2).acts}
    assert drawn == set(WALK_WEIGHTS) == set(KINDS) - {"bounce"}
    assert set(WIDE_WALK_WEIGHTS) == set(KINDS)


def test_where_nothing_that_is_drawn_is_possible_any_more_it_stops_and_says_so():
    course = walk(cluster(), Random(1), steps=5, weights={"kill": 1})
    assert [act.kind for act in course.acts] == ["kill", "kill", "restart", "restart"]
    assert course.healing == 2
    assert course.message == "2 acts, for nothing was possible after 2"


def test_where_all_brokers_are_down_what_remains_is_drawn():
    course = walk(cluster(), Random(1), steps=12, weights={"kill": 1000, "restart": 1})
    assert len(course.acts) - course.healing == 12
    assert {act.kind for act in course.acts} == {"kill", "restart"}


EXPIRED = ChaosMove("expire", 0)
CUT = ChaosMove("cut", 0, 1)


@pytest.mark.parametrize(
    ("acts", "act"),
    [
        ([EXPIRED], ChaosMove("kill", 0)),
        ([EXPIRED], ChaosMove("terminate", 0)),
        ([EXPIRED], EXPIRED),
        ([ChaosMove("kill", 0)], ChaosMove("register", 0)),
        ([ChaosMove("kill", 0)], ChaosMove("write-one", 0)),
        ([], ChaosMove("restart", 0)),
        ([], ChaosMove("hold-answers", 0)),
        ([ChaosMove("kill", 1)], ChaosMove("hold-answers", 1)),
        ([ChaosMove("hold-answers", 1)], ChaosMove("hold-next-answers", 1)),
        ([], ChaosMove("reorder", 1)),
        ([CUT], ChaosMove("reorder", 0)),
        ([EXPIRED], ChaosMove("reorder", 0)),
        ([CUT], ChaosMove("write-all", 0)),
        ([CUT], CUT),
        ([], ChaosMove("heal", 0, 1)),
        ([ChaosMove("kill", 1)], ChaosMove("prefer", -1)),
    ],
)
def test_what_a_scenario_could_not_do_there_is_not_possible(acts: list[ChaosMove], act: ChaosMove):
    assert after(cluster(), *acts) is not None
    assert after(cluster(), *acts, act) is None


@pytest.mark.parametrize(("release", "is_possible"), [("2.0.1", False), ("2.1.1", True)])
def test_no_session_ends_where_a_held_follower_would_rejoin_the_isr_when_its_time_is_over(
    release: str, is_possible: bool
):
    held, expired = ChaosMove("hold-answers", 1), ChaosMove("expire", 1)
    assert after(cluster(release), expired) is not None
    assert (after(cluster(release), held, expired) is not None) is is_possible


def test_another_preferred_replica_leaves_the_leader_in_a_new_epoch():
    first = cluster()
    state = after(first, ChaosMove("reorder", 0))
    assert state is not None
    assert m.World(state).assignment(PARTITION) == (0, 1)
    known = partition_state(state)
    assert (known.leader, known.leader_epoch) == (0, 2)
    assert first.after(state, ChaosMove("prefer", -1)) is None


def test_a_batch_of_two_records_is_one_produce():
    state = after(cluster(), ChaosMove("write-pair", 0))
    assert state is not None
    assert state(RECORDS) == 1
    assert m.World(state).known_replica(1, PARTITION).log.log_end_offset == 2


def test_after_one_more_record_a_follower_hears_of_no_high_watermark():
    state = after(cluster(), ChaosMove("hold-next-answers", 1), ChaosMove("write-all", 0))
    assert state is not None
    leader, follower = (m.World(state).known_replica(broker, PARTITION) for broker in (0, 1))
    assert (leader.high_watermark, follower.log.log_end_offset) == (1, 1)
    assert follower.high_watermark == 0


def test_a_leader_that_cannot_be_replaced_leaves_the_isr_as_any_broker_does():
    # The follower whose session has ended fetches on, and its leader takes it back.
    state = partition_state(
        after(cluster("1.1.1"), ChaosMove("expire", 1), ChaosMove("terminate", 0))
    )
    assert (state.leader, state.leader_epoch, state.isr) == (-1, 3, (1,))


@pytest.mark.parametrize(
    ("release", "is_unclean", "isr"),
    [("1.0.2", True, ()), ("1.0.2", False, (0,)), ("1.1.1", True, (0,)), ("3.9.1", True, (0,))],
)
def test_the_last_member_stays_in_the_isr_except_for_unclean_elections_up_to_1_0(
    release: str, is_unclean: bool, isr: tuple[int, ...]
):
    ended = [ChaosMove("kill", 1), ChaosMove("kill", 0)]
    state = partition_state(after(cluster(release, is_unclean=is_unclean), *ended))
    assert (state.leader, state.isr) == (-1, isr)


def roles(state: m.State) -> list[m.Role]:
    return [m.World(state).known_replica(broker, PARTITION).role for broker in (0, 1)]


def test_up_to_2_1_a_leader_that_is_back_before_the_controller_looks_is_told_nothing():
    state = after(cluster("2.1.1"), ChaosMove("write-all", 0), ChaosMove("bounce", 0))
    assert state is not None
    known = partition_state(state)
    assert (known.leader, known.isr) == (0, (0, 1))
    assert roles(state) == [m.Role.NONE, m.Role.FOLLOWER]
    assert m.World(state).registered()[0] > m.World(state).registered()[1]


def test_from_2_2_on_a_controller_sees_that_a_broker_bounced_and_elects_another_one():
    state = after(cluster("2.2.2"), ChaosMove("write-all", 0), ChaosMove("bounce", 0))
    assert state is not None
    known = partition_state(state)
    assert (known.leader, set(known.isr)) == (1, {0, 1})
    assert roles(state) == [m.Role.FOLLOWER, m.Role.LEADER]


def test_a_broker_that_nobody_told_anything_hears_of_its_replicas_when_it_is_killed_again():
    bounced = ChaosMove("bounce", 1)
    state = after(cluster("2.1.1"), bounced, ChaosMove("kill", 1), ChaosMove("restart", 1))
    assert state is not None
    assert roles(state) == [m.Role.LEADER, m.Role.FOLLOWER]


def course(*acts: ChaosMove) -> Schedule:
    each = cluster("1.1.1")
    states = [each.begin()]
    for number, act in enumerate(acts):
        state = each.after(states[-1], act, f"record-{number}")
        assert state is not None
        states.append(state)
    return Schedule(acts=acts, states=tuple(states), healing=0, message="")


def test_a_schedule_is_wrong_at_its_end_where_a_broker_was_told_nothing():
    assert wrong_at_end(course(ChaosMove("kill", 1), ChaosMove("restart", 1))) == ""
    assert wrong_at_end(course(ChaosMove("bounce", 1))) == "broker 1 got no request"


def test_only_different_records_at_one_offset_are_a_conflict():
    first = (CUT, ChaosMove("write-one", 0), ChaosMove("prefer", -1))
    assert conflicts(course(*first)) == 0
    assert conflicts(course(*first, ChaosMove("write-one", 1))) == 1
    healed = (*first, ChaosMove("write-one", 1), ChaosMove("heal", 0, 1))
    assert conflicts(course(*healed)) == 1


@pytest.mark.parametrize("act", [ChaosMove("prefer", -1), ChaosMove("kill", 0)])
def test_what_would_be_told_to_a_broker_that_was_told_nothing_is_not_possible(act: ChaosMove):
    assert after(cluster("2.1.1"), act) is not None
    assert after(cluster("2.1.1"), ChaosMove("bounce", 1), act) is None
    assert after(cluster("2.2.2"), ChaosMove("bounce", 1), act) is not None


def test_a_bounced_broker_is_told_of_what_was_decided_and_of_nothing_older():
    """Its first Fetch is in the new leader epoch, so that it is back in the ISR at once."""
    held = ChaosMove("hold-answers", 1)
    state = after(cluster("2.2.0"), ChaosMove("write-all", 0), held, ChaosMove("bounce", 1))
    assert set(partition_state(state).isr) == {0, 1}


def test_lists_of_moves_are_healed_by_what_heals_walks_and_paused_brokers_go_on():
    generations = dict.fromkeys(range(4), generation_for("2.8.2"))
    simulated = SimulatedCluster(SimulationMemory(generations), m.EMPTY)
    deciding = InstantController(
        world=lambda: simulated.world, add=simulated.add, replicas=tuple(generations)
    )
    deciding.begin(generations)
    for move in (
        ChaosMove("pause", 3),
        ChaosMove("expire", 3),
        ChaosMove("kill", 2),
        ChaosMove("hold-answers", 1),
        ChaosMove("cut", 0, 1),
        ChaosMove("cut-controller", 0),
    ):
        simulated.act(deciding, move)
    left = [("restart", 2), ("resume", 3), ("release", 1), ("heal", 0), ("heal", 4)]
    assert [(move.kind, move.broker) for move in healing(simulated.world)] == left
    simulated.heal(deciding)
    assert list(healing(simulated.world)) == []
    assert set(simulated.world.registered()) == {0, 1, 2, 3, 4}
