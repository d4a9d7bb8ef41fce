"""Processes, sessions, controllers, requests and replicas that end and come back."""

import pytest

import tests.support.model as m
from kchaos.checkers.model import generation_for
from kchaos.checkers.model.broker import exchange, leader
from kchaos.studies.explore import actions as act
from kchaos.studies.explore import crashes
from kchaos.studies.explore.bounds import PARTITION, Faults, Grain, Machine
from kchaos.studies.explore.machine import actions
from tests.support.machine_steps import after

ASK = act.Ask(follower=1, leader=0)
HANDLE = act.Handle(follower=1, leader=0)
ANSWER = act.Answer(follower=1, leader=0)
FETCHED = (ASK, ASK, HANDLE, ASK)
"""What the first record takes to be fetched and counted: the first step only begins to fetch."""


def machine(
    release: str = "3.9.1",
    *,
    faults: Faults,
    grain: Grain = Grain.ANSWERS,
    replicas: int = 2,
    spares: int = 0,
) -> Machine:
    return Machine(
        generations=dict.fromkeys(range(replicas), generation_for(release)),
        records=2,
        leader_epoch=3,
        log_size=2,
        grain=grain,
        faults=faults,
        spares=spares,
    )


def replica(state: m.State, broker: int) -> m.Replica:
    return m.World(state).known_replica(broker, PARTITION)


def known(state: m.State) -> m.PartitionState:
    held = m.World(state).partition_state(PARTITION)
    assert held is not None
    return held


def queued_epochs(state: m.State, controller_epoch: int, broker: int) -> list[int]:
    outbox = m.World(state).outbox(controller_epoch, broker)
    assert outbox is not None
    return [
        request.states[0].leader_epoch
        for request in outbox.requests
        if isinstance(request, m.LeaderAndIsr)
    ]


def test_a_killed_broker_begins_with_the_high_watermark_that_it_had_checkpointed():
    model = machine(faults=Faults(kills=1))
    committed = after(model, act.Write(leader=0), *FETCHED)
    assert replica(committed, 0).high_watermark == 1
    restarted = after(model, act.Kill(broker=0), act.Start(broker=0), state=committed)
    assert replica(restarted, 0).high_watermark == 0
    assert replica(restarted, 0).role is m.Role.NONE
    checkpointed = after(
        model,
        act.WriteCheckpoint(broker=0),
        act.Kill(broker=0),
        act.Start(broker=0),
        state=committed,
    )
    assert replica(checkpointed, 0).high_watermark == 1


def test_a_leader_that_died_is_replaced_once_its_session_ended_and_the_controller_looked():
    model = machine(faults=Faults(kills=1))
    killed = after(model, act.Kill(broker=0))
    assert act.SeeBrokers() not in actions(model, killed)
    seen = after(model, act.EndSession(broker=0), act.SeeBrokers(), state=killed)
    assert (known(seen).leader, known(seen).isr) == (1, (1,))
    assert m.World(seen).outbox(1, 0) is None


def test_without_a_member_of_the_isr_nobody_leads_until_one_is_back():
    model = machine(faults=Faults(kills=1))
    alone = after(model, act.Write(leader=0), act.Shrink(leader=0, follower=1), act.Learn(leader=0))
    dead = after(model, act.Kill(broker=0), act.EndSession(broker=0), act.SeeBrokers(), state=alone)
    assert (known(dead).leader, known(dead).isr) == (-1, (0,))
    back = after(model, act.Start(broker=0), act.SeeBrokers(), state=dead)
    assert (known(back).leader, known(back).isr) == (0, (0,))


@pytest.mark.parametrize(("release", "is_told"), [("2.1.1", False), ("2.2.0", True)])
def test_a_broker_that_came_back_unseen_is_told_its_partitions_from_kip_380_on(
    release: str, is_told: bool
):
    model = machine(release, faults=Faults(kills=1))
    state = after(model, act.Kill(broker=1), act.Start(broker=1), act.SeeBrokers())
    assert bool(queued_epochs(state, 1, 1)) is is_told


@pytest.mark.parametrize(("release", "is_obeyed"), [("2.1.1", True), ("2.2.0", False)])
def test_what_was_sent_to_a_brokers_earlier_life_is_refused_from_kip_380_on(
    release: str, is_obeyed: bool
):
    model = machine(release, faults=Faults(kills=1))
    back = after(model, act.Elect(leader=1), act.Kill(broker=1), act.Start(broker=1))
    told = after(model, act.Receive(broker=1, controller_epoch=1), state=back)
    assert (replica(told, 1).role is m.Role.LEADER) is is_obeyed


def test_a_broker_that_registered_again_obeys_what_is_sent_to_its_new_registration():
    model = machine("2.2.0", faults=Faults(expiries=1))
    receive = act.Receive(broker=0, controller_epoch=1)
    bounced = after(model, act.EndSession(broker=0), act.Register(broker=0), act.SeeBrokers())
    told = after(model, receive, receive, state=bounced)
    assert (replica(told, 0).leader, replica(told, 0).leader_epoch) == (1, 1)


def test_a_living_broker_whose_session_ended_leads_on_and_cannot_change_the_isr():
    model = machine("2.1.1", faults=Faults(expiries=1))
    written = after(model, act.Write(leader=0))
    shrink = act.Shrink(leader=0, follower=1)
    assert shrink in actions(model, written)
    expired = after(model, act.EndSession(broker=0), state=written)
    assert shrink not in actions(model, expired)
    assert act.Write(leader=0) in actions(model, expired)
    assert shrink in actions(model, after(model, act.Register(broker=0), state=expired))


def test_a_session_that_ends_and_comes_back_between_two_looks_is_one_change():
    model = machine("2.1.1", faults=Faults(expiries=1))
    state = after(model, act.EndSession(broker=0), act.Register(broker=0), act.SeeBrokers())
    assert known(state).leader_epoch == 0
    assert act.SeeBrokers() not in actions(model, state)


def test_a_controlled_shutdown_moves_the_leader_first_and_leaves_a_checkpoint():
    model = machine(faults=Faults(stops=1))
    committed = after(model, act.Write(leader=0), *FETCHED)
    asked = after(model, act.AskToStop(broker=0), state=committed)
    assert act.Stop(broker=0) not in actions(model, asked)
    let_go = after(model, act.LetStop(broker=0), state=asked)
    assert (known(let_go).leader, known(let_go).isr) == (1, (1,))
    stopped = after(model, act.Stop(broker=0), state=let_go)
    assert 0 not in m.World(stopped).registered()
    assert replica(after(model, act.Start(broker=0), state=stopped), 0).high_watermark == 1


def test_a_follower_in_controlled_shutdown_is_told_to_stop_and_not_who_leads():
    model = machine(faults=Faults(stops=1))
    let_go = after(model, act.AskToStop(broker=1), act.LetStop(broker=1))
    assert known(let_go).isr == (0,)
    assert queued_epochs(let_go, 1, 1) == []
    told = after(model, act.Receive(broker=1, controller_epoch=1), state=let_go)
    assert ASK not in actions(model, told)


def test_a_new_controller_tells_only_how_things_stand_and_the_old_one_is_refused():
    model = machine(faults=Faults(controllers=1))
    moved = after(model, act.Elect(leader=1), act.Elect(leader=0), act.MoveController())
    assert queued_epochs(moved, 1, 0) == [1, 2]
    assert queued_epochs(moved, 2, 0) == [2]
    second, first = (
        act.Receive(broker=0, controller_epoch=2),
        act.Receive(broker=0, controller_epoch=1),
    )
    told = after(model, second, second, state=moved)
    assert (replica(told, 0).role, replica(told, 0).leader_epoch) == (m.Role.LEADER, 2)
    refused = after(model, first, state=told)
    assert replica(refused, 0) == replica(told, 0)
    resigned = after(model, act.Resign(controller_epoch=1), state=told)
    assert first not in actions(model, resigned)


def test_who_leads_in_epochs_0_and_2_and_misses_1_keeps_what_it_knows_of_its_followers():
    model = machine(faults=Faults(controllers=1))
    fetched = after(model, act.Write(leader=0), *FETCHED, act.Elect(leader=1), act.Elect(leader=0))
    assert dict(replica(fetched, 0).views)[1].log_end_offset == 1
    second = act.Receive(broker=0, controller_epoch=2)
    missed = after(model, act.MoveController(), second, second, state=fetched)
    assert dict(replica(missed, 0).views)[1].log_end_offset == 1
    first = act.Receive(broker=0, controller_epoch=1)
    heard = after(model, first, first, state=fetched)
    assert dict(replica(heard, 0).views)[1].log_end_offset == -1


def test_a_request_that_was_given_up_still_counts_at_the_leader():
    model = machine(faults=Faults(time_outs=1), grain=Grain.REQUESTS)
    asked = after(model, act.Write(leader=0), ASK, ASK, ANSWER, HANDLE, ASK)
    assert ASK not in actions(model, asked)
    given_up = after(model, act.GiveUp(follower=1, leader=0), state=asked)
    assert ASK in actions(model, given_up)
    late = after(model, act.AnswerGivenUp(follower=1, leader=0), state=given_up)
    assert replica(given_up, 0).high_watermark == 0
    assert replica(late, 0).high_watermark == 1
    assert replica(late, 1).high_watermark == 0


@pytest.mark.parametrize(
    ("api", "is_full"), [("Fetch", True), ("OffsetForLeaderEpoch", False), ("ListOffsets", False)]
)
def test_only_a_fetch_that_was_given_up_ends_the_fetch_session(api: str, is_full: bool):
    # Only where a fetch within a session is not fenced (KAFKA-9338) is the session kept at all.
    model = machine("2.4.1", faults=Faults(time_outs=1), grain=Grain.REQUESTS)
    fetched = m.World(after(model, act.Write(leader=0), ASK, ASK, ANSWER, HANDLE))
    thread = fetched.thread(1, 0)
    assert thread is not None
    assert thread.session == frozenset({PARTITION})
    asked = m.PartitionRequest(
        leader_epoch=1, carries_leader_epoch=True, fetch_offset=1, requested_epoch=1
    )
    exchange.send(fetched, 1, 0, m.Exchange(api=api, asked=((PARTITION, asked),)))
    assert crashes.give_up(fetched, model, act.GiveUp(follower=1, leader=0))
    left = fetched.thread(1, 0)
    assert left is not None
    assert (left.session is None) is is_full


@pytest.mark.parametrize(("release", "is_asked_for"), [("2.6.3", False), ("2.8.2", True)])
def test_with_kip_497_the_controller_writes_the_isr_later(release: str, is_asked_for: bool):
    model = machine(release, faults=Faults(), grain=Grain.REQUESTS)
    shrunk = after(model, act.Write(leader=0), act.Shrink(leader=0, follower=1))
    assert known(shrunk).isr == ((0, 1) if is_asked_for else (0,))
    if not is_asked_for:
        assert replica(shrunk, 0).isr == (0,)
        return
    assert act.Learn(leader=0) not in actions(model, shrunk)
    written = after(model, act.WriteIsr(leader=0), state=shrunk)
    assert (known(written).isr, replica(written, 0).isr) == ((0,), (0, 1))
    assert replica(after(model, act.Learn(leader=0), state=written), 0).isr == (0,)


def test_an_isr_that_is_asked_for_in_an_older_leader_epoch_is_refused():
    model = machine(faults=Faults(), grain=Grain.REQUESTS)
    state = after(
        model,
        act.Write(leader=0),
        act.Shrink(leader=0, follower=1),
        act.Elect(leader=1),
        act.WriteIsr(leader=0),
    )
    assert (known(state).leader, known(state).isr) == (1, (0, 1))
    assert act.Learn(leader=0) not in actions(model, state)
    assert replica(state, 0).maximal_isr == (0, 1)


def test_a_reassignment_ends_when_the_new_broker_is_in_sync_and_the_old_one_deletes_its_log() -> (
    None
):
    model = machine(faults=Faults(reassignments=1), replicas=3, spares=1)
    begun = after(model, act.Write(leader=0), act.Reassign(replicas=(0, 2)))
    assert m.World(begun).assignment(PARTITION) == (0, 2, 1)
    assert act.CompleteReassignment() not in actions(model, begun)
    told = [act.Receive(broker=broker, controller_epoch=1) for broker in (0, 2)]
    fetch, handle = act.Ask(follower=2, leader=0), act.Handle(follower=2, leader=0)
    expand = act.Expand(leader=0, follower=2)
    fetched = after(model, *told, fetch, fetch, handle, fetch, state=begun)
    in_sync = after(model, expand, act.Learn(leader=0), state=fetched)
    done = after(model, act.CompleteReassignment(), state=in_sync)
    assert m.World(done).assignment(PARTITION) == (0, 2)
    assert known(done).isr == (0, 2)
    first = act.Receive(broker=1, controller_epoch=1)
    deleted = after(model, first, first, state=done)
    assert m.World(deleted).replica(1, PARTITION) is None
    forgotten = after(model, told[0], told[0], state=deleted)
    assert [follower for follower, _ in replica(forgotten, 0).views] == [2]


def test_a_broker_out_of_sync_is_reassigned_in_the_leader_epoch_of_those_that_stay():
    model = machine(faults=Faults(reassignments=1), replicas=3, spares=1)
    shrunk = after(
        model, act.Write(leader=0), act.Shrink(leader=0, follower=1), act.Learn(leader=0)
    )
    assert known(shrunk).isr == (0,)
    begun = after(model, act.Reassign(replicas=(0, 2)), state=shrunk)
    told = [act.Receive(broker=broker, controller_epoch=1) for broker in (0, 2)]
    fetch, handle = act.Ask(follower=2, leader=0), act.Handle(follower=2, leader=0)
    expand = act.Expand(leader=0, follower=2)
    in_sync = after(
        model, *told, fetch, fetch, handle, fetch, expand, act.Learn(leader=0), state=begun
    )
    done = after(model, act.CompleteReassignment(), state=in_sync)
    assert known(done).isr == (0, 2)
    assert known(done).leader_epoch == known(in_sync).leader_epoch + 1


@pytest.mark.parametrize(("is_first_known", "counts"), [(True, True), (False, False)])
def test_a_new_leaders_first_fetch_reaches_no_end_that_was_there_before_it(
    is_first_known: bool, counts: bool, monkeypatch: pytest.MonkeyPatch
):
    """As if the end at the election were the end at a fetch before: the old rule of the model."""
    if is_first_known:
        monkeypatch.setattr(leader, "NO_FETCH_YET", 1)
    model = machine("1.1.1", faults=Faults())
    elected = after(
        model,
        act.Write(leader=0),
        *(ASK, HANDLE, ASK, HANDLE, ASK),
        act.Elect(leader=1),
        act.Deliver(broker=1, leader_epoch=1),
        act.Deliver(broker=0, leader_epoch=1),
        act.Write(leader=1),
        act.Shrink(leader=1, follower=0),
    )
    back = act.Ask(follower=0, leader=1)
    fetched = after(model, back, act.Handle(follower=0, leader=1), back, state=elected)
    view = dict(replica(fetched, 1).views)[0]
    assert view.log_end_offset == 1
    assert view.is_caught_up is counts


@pytest.mark.parametrize(("grain", "moves"), [(Grain.REQUESTS, True), (Grain.READS, False)])
def test_a_leader_that_has_looked_at_its_log_has_not_counted_the_follower(
    grain: Grain, moves: bool
):
    """A look and a count in one step, the old rule of the model, move the high watermark."""
    model = machine(faults=Faults(), grain=grain)
    fine = grain is Grain.READS
    look: list[act.Action] = [act.Look(follower=1, leader=0)] if fine else []
    append: list[act.Action] = [
        act.Write(leader=0),
        *([act.MoveHighWatermark(leader=0)] if fine else []),
    ]
    asked = after(model, *append, ASK, ASK, *look, ANSWER, HANDLE, ASK)
    looked = after(model, *(look or [ANSWER]), state=asked)
    assert (replica(looked, 0).high_watermark == 1) is moves
    if not moves:
        # Whoever takes the follower out meanwhile finds it behind.
        assert act.Shrink(leader=0, follower=1) in actions(model, looked)
        counted = after(model, ANSWER, state=looked)
        assert replica(counted, 0).high_watermark == 1
        assert act.Shrink(leader=0, follower=1) not in actions(model, counted)
