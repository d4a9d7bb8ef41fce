"""Refuting ends a search early and says the same as a search that looks at everything."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from kchaos.checkers.acts import StaleRequest, StartBroker, StopBroker, TopicPartition
from kchaos.checkers.model import follow
from kchaos.checkers.model.follow import search
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.observations import (
    ClientAnswered,
    ControlAnswered,
    ControlSent,
    Fate,
    FetchAnswered,
    FetchAsked,
    IsrAsked,
    IsrWanted,
    Observation,
    Record,
    RequestSeen,
    ResponseSeen,
    Seen,
)
from kchaos.checkers.model.follow.refuting import first_refuted, first_refuted_decision
from kchaos.checkers.model.follow.unanswered import Unanswered
from kchaos.checkers.model.values.events import (
    Action,
    BrokerRegistered,
    BrokerUnregistered,
    Decided,
    Decision,
    PartitionState,
    Produce,
    TopicConfigured,
    TopicCreated,
)
from tests.golden.stored import HARD, OTHER_NAMES, RELEASES, recorded
from tests.support.model_timelines import state

pytestmark = pytest.mark.slow

T = TopicPartition("t", 0)
SMALL = ("0.11.0.3", "1.1.1", "3.9.1")


def without(whole: Record, index: int) -> Record:
    """Leave out an item, of a produce with its answer."""
    what = whole.seen[index].what
    operation = what.operation if isinstance(what, Produce) else None
    seen = tuple(
        item
        for at, item in enumerate(whole.seen)
        if at != index
        and not (isinstance(item.what, ClientAnswered) and item.what.operation == operation)
    )
    return replace(whole, seen=seen)


def without_decision(whole: Record, index: int) -> Record:
    return replace(whole, decided=whole.decided[:index] + whole.decided[index + 1 :])


def index_of(whole: Record, told: object) -> int:
    """Where the run has the produce of this operation, or the answer with this number."""
    (index,) = (
        at
        for at, item in enumerate(whole.seen)
        if (isinstance(item.what, Produce) and item.what.operation == told)
        or (isinstance(item.what, ResponseSeen) and item.what.number == told)
    )
    return index


def changed(name: str) -> Iterator[Record]:
    """Yield the run with an item left out, drawn from the name."""
    whole, drawn = recorded(name), random.Random(name)
    items = [
        at for at, item in enumerate(whole.seen) if isinstance(item.what, Produce | ResponseSeen)
    ]
    for index in drawn.sample(items, min(5, len(items))):
        yield without(whole, index)
    for index in drawn.sample(range(len(whole.decided)), min(3, len(whole.decided))):
        yield without_decision(whole, index)


@pytest.mark.parametrize("name", [*RELEASES, *OTHER_NAMES])
def test_nothing_of_a_run_as_it_was_recorded_is_refuted(name: str) -> None:
    whole = recorded(name)
    assert first_refuted(whole, Lookahead(whole)) is None
    assert first_refuted_decision(whole) is None


@pytest.mark.parametrize("name", sorted(folder.name for folder in HARD.iterdir()))
def test_nothing_of_a_run_that_is_hard_to_follow_is_refuted(name: str) -> None:
    whole = recorded(name, runs=HARD)
    assert first_refuted(whole, Lookahead(whole)) is None


def of_follower(what: Observation, *before: Observation | Action) -> str:
    """Return why broker 0 cannot do this after others, once two produces and an answer were seen.

    Broker 1 wrote five records, gave broker 0 all of them and told it high watermark 3.
    """
    items = [produced(1, "w"), produced(2, "v"), *before, answered(1, 4), what]
    seen = tuple(
        Seen(what=item, time=1.0, zxid=-1, source=str(at)) for at, item in enumerate(items)
    )
    whole = Record(seen=seen, decided=())
    refuted = first_refuted(whole, Lookahead(whole))
    return "" if refuted is None else refuted[1]


def produced(broker: int, operation: str) -> Produce:
    records = tuple(f"{operation}-{at}" for at in range(5))
    return Produce(
        broker=broker, topic="t", partition=0, records=records, operation=operation, acks=1
    )


def answered(leader: int, last_offset: int) -> ResponseSeen:
    said = FetchAnswered(error_code=0, high_watermark=3, base_offset=0, last_offset=last_offset)
    return ResponseSeen(
        number=(leader, 0),
        fate=Fate.ARRIVES,
        api="Fetch",
        follower=0,
        leader=leader,
        partitions={T: said},
    )


def told(broker: int, epoch: int, *states: PartitionState) -> ControlSent:
    """A controller's first request to a broker, in a number that names the epoch."""
    return ControlSent(
        number=(9, epoch),
        api="LeaderAndIsr",
        controller=1,
        controller_epoch=1,
        broker=broker,
        broker_epoch=-1,
        states=states,
    )


def fetched(offset: int, version: int = 3) -> RequestSeen:
    return RequestSeen(
        number=(7, 0),
        fate=Fate.ARRIVES,
        api="Fetch",
        follower=0,
        leader=2,
        partitions={T: FetchAsked(fetch_offset=offset, leader_epoch=None, last_fetched_epoch=None)},
        is_full=True,
        version=version,
    )


def test_who_has_no_leader_epochs_begins_to_follow_at_its_high_watermark() -> None:
    said = "follows t-0 from its high watermark on, and no answer of broker 2 gave it the records"
    assert said in of_follower(fetched(5))
    assert of_follower(fetched(3)) == ""
    assert of_follower(fetched(5, version=4)) == ""
    # What it led it may have held to its end.
    assert of_follower(fetched(5), told(0, 1, state(0, 1, (0,), version=1))) == ""
    # Its new leader may have given it more.
    assert of_follower(fetched(5), answered(2, 4)) == ""


@pytest.mark.parametrize("name", SMALL)
def test_a_search_that_refutes_ends_at_the_same_observation_as_one_that_does_not(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = 0
    for each in changed(name):
        followed = follow(each)
        with monkeypatch.context() as patched:
            patched.setattr(search, "first_refuted", lambda *_: None)
            whole = follow(each, patience=8_000)
        if whole.limit:
            continue
        compared += 1
        named = [
            item and (item.source, item.what) for item in (followed.emptied_by, whole.emptied_by)
        ]
        assert named[0] == named[1]
        assert followed.states <= whole.states
    assert compared >= 4


def test_a_leader_epoch_that_nobody_wrote_is_missed_before_the_record_is_searched() -> None:
    whole = recorded("2.0.1-unanswered-writes", runs=HARD)
    (left_out,) = (
        index
        for index, decided in enumerate(whole.decided)
        if isinstance(decided.what, PartitionState) and decided.what.leader_epoch == 7
    )
    assert first_refuted_decision(whole) is None
    changed_run = without_decision(whole, left_out)
    index = first_refuted_decision(changed_run)
    assert index is not None
    assert changed_run.decided[index].what.leader_epoch == 8  # type: ignore[union-attr]

    prediction = follow(changed_run, patience=2_000)
    assert prediction.emptied_by is not None
    assert prediction.emptied_by.why == "leader epoch went from 6 to 8, not one up"


def is_written_second(what: Decision) -> bool:
    return isinstance(what, PartitionState) and (
        (what.topic, what.partition, what.version) == ("t", 1, 2)
    )


@pytest.mark.parametrize(
    ("name", "left_out", "at", "said"),
    [
        # Without the znode's version the search of this one gave up after 60,000 states.
        (
            "2.0.1-left-session",
            is_written_second,
            0,
            "the znode's version went from 1 to 3, not one up",
        ),
        # Where only a decision told that it was missing, this one took 28,978 states.
        (
            "0.11.0.3",
            lambda what: isinstance(what, TopicCreated) and what.topic == "u",
            0,
            "no assignment of the partition was written before",
        ),
        # Without it the searches of these gave up after 60,000 states.
        (
            "1.1.1",
            lambda what: isinstance(what, BrokerUnregistered),
            -1,
            "broker 2 registered, and was registered already",
        ),
        (
            "2.3.1-told-late",
            lambda what: isinstance(what, BrokerRegistered) and what.broker == 4,
            -1,
            "broker 4 never registered with epoch",
        ),
        (
            "0.10.2.2-left-out",
            lambda what: isinstance(what, TopicCreated),
            1,
            "has brokers outside the assignment (4, 2, 3)",
        ),
        # Without it a produce with acks=all finds too small an ISR, in a search of 54,942 states.
        (
            "3.3.2",
            lambda what: isinstance(what, PartitionState) and what.leader_epoch == 4,
            -1,
            "no produce that was sent by then can be at offset 7 of t-1",
        ),
        (
            "2.5.1-answered-late",
            lambda what: isinstance(what, PartitionState) and what.isr == (2, 0),
            -1,
            "no produce that was sent by then can be at offset 2 of t-1",
        ),
    ],
    ids=[
        "the write of an ISR",
        "a topic",
        "an end",
        "a registration",
        "a reassignment",
        "the last ISR",
        "the last ISR of 2.5.1",
    ],
)
def test_a_decision_that_is_left_out_is_missed_before_the_record_is_searched(
    name: str, left_out: Callable[[Decision], bool], at: int, said: str
) -> None:
    whole = recorded(name, runs=HARD)
    assert first_refuted_decision(whole) is None
    like_it = [index for index, decided in enumerate(whole.decided) if left_out(decided.what)]

    prediction = follow(without_decision(whole, like_it[at]), patience=4_000)

    assert prediction.emptied_by is not None
    assert said in prediction.emptied_by.why


def test_a_registration_begins_before_it_ends() -> None:
    registered, ended = (
        Decided(what=what, time=1.0)
        for what in (BrokerRegistered(broker=1, czxid=5), BrokerUnregistered(broker=1))
    )

    def refuted(*decided: Decided) -> int | None:
        return first_refuted_decision(Record(seen=(), decided=decided))

    assert refuted(registered, ended, registered, ended) is None
    assert refuted(registered, registered) == 1
    assert refuted(registered, ended, ended) == 2


def test_the_first_high_watermark_on_a_connection_that_is_left_out_is_missed() -> None:
    """Without that the search of this one gave up after 60,000 states."""
    whole = recorded("3.9.1-session-without-ids", runs=HARD)
    left_out = 131
    answer = whole.seen[left_out].what
    assert isinstance(answer, ResponseSeen)
    assert first_refuted(whole, Lookahead(whole)) is None

    prediction = follow(without(whole, left_out), patience=3_000)

    assert prediction.emptied_by is not None
    assert (
        "no answer was seen that told broker 0 the first high watermark"
        in prediction.emptied_by.why
    )


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("0.11.0.3", (11, 34)),
        ("1.1.1", (9, 41)),
        # Who has left the ISR is fenced until it has heard of the new epoch, or had not come back.
        ("2.8.2", (35, 12)),
        # The leader answers in an epoch before it has answered the request that told it that.
        ("2.8.2-dropped", (7, 8)),
        # It hears of no leader, and then that it leads on.
        ("2.0.1-unanswered-writes", (8, 2)),
        # It had told somebody else a higher one.
        ("2.5.1", (9, 13)),
        # From 3.7.0 on the ISR must be large enough, and it was.
        ("3.9.1", (19, 77)),
    ],
)
def test_a_fetch_that_moves_the_high_watermark_is_not_answered_unseen(
    name: str, number: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that the search of these gave up after 60,000 states."""
    whole = recorded(name, runs=HARD)
    (at,) = (
        index
        for index, item in enumerate(whole.seen)
        if isinstance(item.what, ResponseSeen) and item.what.number == number
    )
    prediction = follow(without(whole, at), patience=1_000)
    monkeypatch.setattr(Unanswered, "refutes", lambda *_: "")
    before = follow(without(whole, at), patience=1_000)

    assert prediction.emptied_by is not None
    assert "would have told broker" in prediction.emptied_by.why
    assert before.emptied_by is not None
    assert not before.emptied_by.is_proved


@pytest.mark.parametrize(("name", "number"), [("2.8.2", (13, 5)), ("2.8.2-dropped", (7, 10))])
def test_who_is_fenced_may_have_been_counted_in_the_next_epoch_before(
    name: str, number: tuple[int, int]
) -> None:
    """Its Fetch was asked before the leader took that epoch, and may have been counted in it.

    So that follower may have kept the high watermark back (Replica.updateFetchState, 2.6.2, 2.8.2
    and 3.8.0: no epoch is compared once the log was read).
    """
    whole = recorded(name, runs=HARD)
    left_out = [
        index
        for index, item in enumerate(whole.seen)
        if isinstance(item.what, ResponseSeen) and item.what.number == number
    ]
    lacking = without(whole, *left_out)
    refuted = first_refuted(lacking, Lookahead(lacking))
    assert refuted is None or "would have told broker" not in refuted[1]


def told_at_last(
    high_watermark: int,
    isr: tuple[int, ...],
    *others: Observation,
    release: str = "1.1.1",
    least: int = 1,
    before: tuple[Observation, ...] = (),
    afterwards: tuple[Observation, ...] = (),
    written: tuple[Decision, ...] = (),
) -> str:
    """Return why broker 0's Fetch of what broker 1 leads was not answered unseen, or "".

    It has the records up to offset 5 and was told this high watermark; then others fetch, too.
    """
    led = PartitionState(
        topic="t", partition=0, leader=1, leader_epoch=1, isr=isr, controller_epoch=1, version=1
    )
    sent = ControlSent(
        number=(9, 0), api="LeaderAndIsr", controller=1, controller_epoch=1, broker=1, states=(led,)
    )
    taken = ControlAnswered(
        number=(9, 0), api="LeaderAndIsr", broker=1, error_code=0, errors={T: 0}
    )
    given = FetchAnswered(error_code=0, high_watermark=high_watermark, base_offset=0, last_offset=4)
    first = replace(fetched(0, version=8), leader=1)
    answer = replace(answered(1, 4), number=first.number, partitions={T: given})
    second = replace(fetched(5, version=8), leader=1, number=(7, 1))
    third = replace(second, number=(7, 2))
    starts = [
        StartBroker(broker=broker, release=release, min_insync_replicas=least)
        for broker in (0, 1, 2)
    ]
    items = [*starts, *before, sent, taken, first, answer, *others, second, *afterwards, third]
    decided = (TopicCreated(topic="t", assignment=((0, 1, 2),)), *written)
    return unanswered_of(items, *(Decided(what=what, time=1.0) for what in decided))


def unanswered_of(items: Sequence[Observation | Action], *decided: Decided) -> str:
    """Return why the last Fetch but one of broker 0 was not answered unseen, or ""."""
    seen = tuple(Seen(what=item, time=1.0) for item in items)
    unanswered = Unanswered(Lookahead(Record(seen=seen, decided=decided)), {})
    last = [item for item in items if isinstance(item, RequestSeen) and item.follower == 0][-2]
    for index, item in enumerate(items):
        why = unanswered.refutes(item, index)
        if why:
            assert item is last
            return why
        unanswered.add(item, index)
    return ""


def of_other(offset: int) -> tuple[RequestSeen, ResponseSeen]:
    """Broker 2 fetches from an offset and is answered."""
    asked = replace(fetched(offset, version=8), number=(8, 0), follower=2, leader=1)
    told = FetchAnswered(error_code=0, high_watermark=3, base_offset=None, last_offset=None)
    return asked, replace(answered(1, 4), number=(8, 0), follower=2, partitions={T: told})


def test_who_may_keep_the_high_watermark_back_keeps_a_fetch_from_being_refuted() -> None:
    assert NEWS in told_at_last(3, (0, 1))
    # It was told all that it has.
    assert told_at_last(5, (0, 1)) == ""
    # Broker 2 is in the ISR, and has not fetched, or not as far.
    assert told_at_last(3, (0, 1, 2)) == ""
    assert told_at_last(3, (0, 1, 2), *of_other(3)) == ""
    assert NEWS in told_at_last(3, (0, 1, 2), *of_other(5))
    # It joins from the high watermark on.
    assert told_at_last(3, (0, 1), of_other(3)[0]) == ""
    assert NEWS in told_at_last(3, (0, 1), of_other(2)[0])


NEWS = "would have told broker 0 a high watermark above 3 of t-0 in answer to request 1"


def test_a_leader_s_term_goes_on_while_it_hears_of_no_other_leader() -> None:
    def hears(leader: int, *isr: int) -> str:
        return told_at_last(3, (0, 1), afterwards=(told(1, 2, state(leader, 2, isr, version=2)),))

    # A broker that hears of no leader goes on, and one that leads on counts the Fetch all the same.
    assert NEWS in hears(-1, 1)
    assert NEWS in hears(1, 0, 1)
    # Broker 2 is in that ISR, and has not fetched.
    assert hears(1, 0, 1, 2) == ""
    assert hears(2, 0, 1) == ""


def test_a_leader_that_led_before_may_count_what_it_counted_then() -> None:
    """It refuses to follow or to stop, say for an old controller epoch, and leads on."""
    leads = told(1, 0, state(1, 0, (0, 1), version=0))
    follows = told(1, 0, state(2, 0, (0, 1), version=0))
    outside = of_other(2)[0]
    assert NEWS in told_at_last(3, (0, 1), outside)
    assert told_at_last(3, (0, 1), outside, before=(leads, follows)) == ""
    # It was told to lead, and to nothing else since.
    assert NEWS in told_at_last(3, (0, 1), before=(leads,))


def test_a_high_watermark_below_0_is_told_once_and_is_no_error() -> None:
    """Up to 1.0.1 a leader whose high watermark is beyond its log knows none (KAFKA-3978)."""
    assert told_at_last(-1, (0, 1, 2), release="1.0.1") == ""
    refused = FetchAnswered(error_code=6, high_watermark=-1, base_offset=None, last_offset=None)
    failed = replace(answered(1, 4), number=(7, 0), partitions={T: refused})
    first = "the first high watermark of t-0"
    assert first in told_at_last(3, (0, 1, 2), failed, release="1.0.1")


def test_what_was_cut_off_an_answer_may_have_told_the_high_watermark() -> None:
    cut = replace(answered(1, 4), number=(7, 0), partitions={}, is_whole=False)
    assert NEWS in told_at_last(3, (0, 1), replace(cut, is_whole=True))
    assert told_at_last(3, (0, 1), cut) == ""


def test_a_high_watermark_that_somebody_else_was_told_is_told_everybody() -> None:
    def tells(high_watermark: int, *others: Observation) -> str:
        asked, answer = of_other(3)
        said = FetchAnswered(
            error_code=0, high_watermark=high_watermark, base_offset=None, last_offset=None
        )
        answered_so = replace(answer, partitions={T: said})
        # From 2.4.0 to 2.5.1 a Fetch may be answered with what was read before it is counted.
        return told_at_last(3, (0, 1, 2), asked, answered_so, *others, release="2.5.1")

    assert NEWS in tells(4)
    assert tells(3) == ""
    # The term in which it had that is over.
    assert tells(4, told(1, 2, state(2, 2, (0, 1, 2), version=2))) == ""


def test_the_high_watermark_stands_still_while_the_isr_may_be_too_small() -> None:
    """From 3.7.0 on (KAFKA-15583)."""

    def needs(least: int, *written: Decision, release: str = "3.9.1") -> str:
        return told_at_last(3, (0, 1), release=release, least=least, written=written)

    alone = state(1, 1, (1,), version=2)
    more = TopicConfigured(topic="t", configuration=(("min.insync.replicas", "3"),))
    assert NEWS in needs(2)
    assert needs(3) == ""
    assert needs(2, alone) == ""
    assert needs(2, more) == ""
    assert NEWS in needs(2, alone, more, release="3.6.2")
    # It was alone in another epoch.
    assert NEWS in needs(2, state(1, 2, (1,), version=2))


def test_a_fetch_that_fails_does_not_count_or_makes_an_end_unknown() -> None:
    """Broker 2 is in the ISR, and has fetched from where it no longer keeps anything back."""
    asked, answer = of_other(5)
    again = replace(of_other(5)[0], number=(8, 1))

    def fails(error_code: int, *, whole: bool = False) -> ResponseSeen:
        said = FetchAnswered(
            error_code=error_code, high_watermark=-1, base_offset=None, last_offset=None
        )
        reply = replace(answered(1, 4), number=(8, 1), follower=2)
        if whole:
            return replace(reply, error_code=error_code, partitions={})
        return replace(reply, partitions={T: said})

    def after(*items: Observation, release: str = "1.1.1") -> str:
        return told_at_last(3, (0, 1, 2), *items, release=release)

    assert NEWS in after(asked, answer)
    # Its end is unknown until it fetches again (KAFKA-8400).
    assert after(asked, answer, again, fails(1)) == ""
    assert NEWS in after(asked, answer, again, fails(1), release="2.8.2")
    # So it is where the links did not record what failed.
    assert after(asked, answer, fails(1)) == ""
    assert told_at_last(3, (0, 1, 2), asked, answer, afterwards=(again, fails(1))) == ""
    # Whether a leader had counted what it failed with nobody knows.
    assert after(asked, answer, again, fails(-1), release="2.8.2") == ""
    # The leader did not come as far as its log, or nobody knows what it answered.
    early, first = of_other(3)
    later = replace(asked, number=(8, 1))
    assert after(early, first, later, fails(70, whole=True)) == ""
    lost = replace(fails(0), fate=Fate.ABANDONED, partitions={})
    assert after(early, first, later, lost) == ""
    assert NEWS in after(early, first, later, replace(fails(0), partitions=first.partitions))


def test_who_has_left_the_isr_keeps_nothing_back_until_it_fetches_in_the_new_epoch() -> None:
    """Broker 2 has fetched from the high watermark, and then the leader is told of epoch 2."""

    def of_epoch(
        epoch: int,
        *isr: int,
        later: bool = False,
        release: str = "2.8.2",
        asks: tuple[IsrAsked, ...] = (),
    ) -> str:
        said = FetchAsked(fetch_offset=3, leader_epoch=epoch, last_fetched_epoch=None)
        asked, answer = of_other(3)
        asked = replace(asked, partitions={T: said})
        sent = told(1, 2, state(1, 2, isr, version=2))
        taken = ControlAnswered(
            number=sent.number, api="LeaderAndIsr", broker=1, error_code=0, errors={T: 0}
        )
        fetches: list[Observation] = [asked, answer]
        items: list[Observation] = [sent, taken, *fetches] if later else [*fetches, sent, taken]
        return told_at_last(3, (0, 1, 2), *items, *asks, release=release)

    assert NEWS in of_epoch(1, 0, 1)
    assert of_epoch(2, 0, 1, later=True) == ""
    # It was counted in epoch 2 all the same, for the leader asks for it there.
    wanted = IsrAsked(leader=1, isrs={T: IsrWanted(leader_epoch=2, isr=(0, 1, 2))})
    assert of_epoch(1, 0, 1, asks=(wanted,)) == ""
    before = replace(wanted, isrs={T: IsrWanted(leader_epoch=1, isr=(0, 1, 2))})
    assert NEWS in of_epoch(1, 0, 1, asks=(before,))
    # It is still in the ISR, or nobody fences a Fetch that repeats its last one.
    assert of_epoch(1, 0, 1, 2) == ""
    assert of_epoch(1, 0, 1, release="2.3.1") == ""


def test_an_answer_in_a_leader_epoch_tells_that_the_leader_is_in_it() -> None:
    """The leader has not answered yet the request that told it of the epoch, without broker 2."""
    sent = told(1, 2, state(1, 2, (0, 1), version=2))
    asked, answer = of_other(3)

    def answers(epoch: int, *, is_full: bool = True) -> str:
        said = FetchAsked(fetch_offset=3, leader_epoch=epoch, last_fetched_epoch=None)
        own = replace(
            fetched(3, version=8), leader=1, number=(10, 0), is_full=is_full, partitions={T: said}
        )
        told_so = FetchAnswered(error_code=0, high_watermark=3, base_offset=3, last_offset=4)
        first = replace(answered(1, 4), number=(10, 0), partitions={T: told_so})
        before = replace(asked, partitions={T: replace(said, leader_epoch=1)})
        last = replace(
            own, number=(10, 1), is_full=False, partitions={T: replace(said, fetch_offset=5)}
        )
        starts = [
            StartBroker(broker=broker, release="2.8.2", unclean_leader_election=False)
            for broker in (0, 1, 2)
        ]
        leads = told(1, 1, state(1, 1, (0, 1, 2), version=1))
        taken = ControlAnswered(
            number=leads.number, api="LeaderAndIsr", broker=1, error_code=0, errors={T: 0}
        )
        third = replace(last, number=(10, 2))
        items: list[Observation | Action] = [*starts, leads, taken, before, answer, sent]
        items += [own, first, last, third]
        created = Decided(what=TopicCreated(topic="t", assignment=((0, 1, 2),)), time=1.0)
        return unanswered_of(items, created)

    assert NEWS in answers(2)
    assert answers(1) == ""
    # Within a session some releases do not compare it.
    assert answers(2, is_full=False) == ""


def test_an_answer_on_a_connection_that_its_session_did_not_begin_on_may_say_nothing() -> None:
    """The session may have told the high watermark before, on another connection."""

    def refutes(*, is_full: bool) -> bool:
        first = replace(fetched(5, version=8), is_full=is_full)
        return unanswered_of((first, replace(first, number=(7, 1), is_full=False))) != ""

    assert refutes(is_full=True)
    assert not refutes(is_full=False)


def test_a_decision_that_is_missed_ends_a_search_that_does_not_come_to_it() -> None:
    """A message that came within milliseconds of it waits for what was left out."""
    whole = recorded("3.9.1", runs=HARD)
    decided = (*whole.decided[:17], *whole.decided[18:])
    changed_run = replace(whole, decided=decided)
    assert first_refuted_decision(changed_run) == 17

    prediction = follow(changed_run, patience=5_000)

    assert prediction.emptied_by is not None
    assert "the znode's version went from 2 to 4" in prediction.emptied_by.why


def test_a_topic_that_is_made_again_begins_anew() -> None:
    elected = (("t", 0), ("u", 0), ("u", 1), ("u", 2))
    again = (("u", 0), ("t", 1))

    def decided(*states: tuple[str, int]) -> list[Decided]:
        return [
            Decided(what=state(1, epoch, (1, 0), version=epoch, topic=topic), time=1.0)
            for topic, epoch in states
        ]

    made_t, made_u = (
        Decided(what=TopicCreated(topic=topic, assignment=((1, 0),)), time=1.0) for topic in "tu"
    )
    first = (made_t, made_u, *decided(*elected))
    record_of_both = Record(seen=(), decided=(*first, made_u, *decided(*again)))
    of_one = replace(record_of_both, decided=(*first, *decided(*again)))
    of_none = replace(record_of_both, decided=(made_t, *decided(*elected)))

    assert first_refuted_decision(record_of_both) is None
    assert first_refuted_decision(of_one) == len(first)
    assert first_refuted_decision(of_none) == 2


def test_a_high_watermark_that_no_answer_told_is_missed_before_the_record_is_searched() -> None:
    whole = recorded("3.9.1-held-fetch", runs=HARD)
    said = "no answer told it a high watermark above"

    def is_missed(changed_run: Record) -> bool:
        refuted_at = first_refuted(changed_run, Lookahead(changed_run))
        return refuted_at is not None and said in refuted_at[1]

    answers = (at for at, item in enumerate(whole.seen) if isinstance(item.what, ResponseSeen))
    changed_run = next(filter(is_missed, (without(whole, at) for at in answers)))
    prediction = follow(changed_run, patience=2_000)
    assert prediction.emptied_by is not None
    assert said in prediction.emptied_by.why


@pytest.mark.parametrize(
    ("name", "number", "said"),
    [
        (
            "2.0.1-unanswered-writes",
            (42, 31),
            "no answer was seen that told broker 0 the first high watermark of t-0",
        ),
        (
            "2.5.1-answered-late",
            (42, 0),
            "no answer was seen to the OffsetForLeaderEpoch that broker 2 sent before",
        ),
        (
            # While it was told to delete another topic.
            "1.1.1-forgotten",
            (20, 7),
            "broker 0 had asked for t-0 from 5 on that connection, and no answer was seen since",
        ),
        (
            # A new high watermark; the search of this one gave up after 60,000 states.
            "0.11.0.3-left-leader",
            (47, 50),
            "broker 0 follows t-1 from its high watermark on, and no answer of broker 1 gave it",
        ),
    ],
)
def test_a_fetcher_that_goes_on_without_an_answer_is_found_within_a_few_states(
    name: str, number: tuple[int, int], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = recorded(name, runs=HARD)
    changed_run = without(whole, index_of(whole, number))

    prediction = follow(changed_run, patience=1_000)
    monkeypatch.setattr(search, "first_refuted", lambda *_: None)
    monkeypatch.setattr(search, "never_answered", lambda *_: "")
    before = follow(changed_run, patience=1_000)

    assert prediction.emptied_by is not None
    assert said in prediction.emptied_by.why
    assert before.emptied_by is not None
    assert not before.emptied_by.is_proved


def test_an_answer_to_a_fetch_that_repeated_the_last_is_looked_at() -> None:
    whole = recorded("1.1.1-deleted", runs=HARD)
    prediction = follow(without(whole, index_of(whole, "p3")), patience=1_000)
    assert prediction.emptied_by is not None
    assert (prediction.emptied_by.what, prediction.states < 1_000) == ("ResponseSeen", True)
    assert "no produce that was sent by then can be at offset 0" in prediction.emptied_by.why


def test_unanswered_writes_that_no_copy_shows_are_tried_last() -> None:
    whole = recorded("2.0.1-unanswered-writes", runs=HARD)
    prediction = follow(without(whole, index_of(whole, "record-11")), patience=2_000)
    assert (prediction.limit, prediction.emptied_by) == ("", None)


@pytest.mark.parametrize(
    ("name", "left_out", "said"),
    [
        # It was the last produce, and nobody else wrote in that epoch.
        (
            "2.0.1-unanswered-writes",
            "settle-t-0",
            "no produce that the leader of epoch 9 had can be at offset 6 of t-0",
        ),
        # It had led the partition before, and its only follower had not fetched that far.
        (
            "1.1.1-truncating",
            (10, 5),
            "broker 1 leads no t-0, and no answer told it a high watermark above 1",
        ),
    ],
)
def test_a_batch_and_a_high_watermark_that_no_leader_had_are_missed(
    name: str, left_out: object, said: str
) -> None:
    """Without that one took 5,768 states, and 60,000 did not suffice for the other."""
    whole = recorded(name, runs=HARD)
    prediction = follow(without(whole, index_of(whole, left_out)), patience=1_000)

    assert prediction.emptied_by is not None
    assert said in prediction.emptied_by.why


def test_a_batch_of_a_leader_epoch_is_of_a_produce_that_was_open_in_it() -> None:
    def leads(broker: int, epoch: int) -> ControlSent:
        return told(broker, epoch, state(broker, epoch, (broker,), version=1))

    def sent(epoch: int) -> ResponseSeen:
        said = FetchAnswered(
            error_code=0, high_watermark=0, base_offset=0, last_offset=0, first_leader_epoch=epoch
        )
        return replace(answered(1, 0), number=(7, 0), partitions={T: said})

    def refuted(*before: Observation | Action, epoch: int = 4) -> bool:
        items = (fetched(0), *before, sent(epoch))
        seen = tuple(Seen(what=item, time=1.0) for item in items)
        whole = Record(seen=seen, decided=())
        index, why = first_refuted(whole, Lookahead(whole)) or (-1, "")
        return index == len(items) - 1 and f"the leader of epoch {epoch} had" in why

    write, other = produced(1, "w"), produced(2, "v")
    acknowledged = ClientAnswered(operation="w", outcome="ok", base_offset=0, error="")
    killed = StopBroker(broker=1, clean=False)

    # Its leader had it, before or after it was told.
    assert not refuted(leads(1, 4), write)
    assert not refuted(write, leads(1, 4))
    assert not refuted(leads(1, 4), write, acknowledged)
    assert not refuted(leads(1, 3), leads(1, 4), write, epoch=3)
    # Somebody else had it, or it had been read before, or its process was dead.
    assert refuted(write, acknowledged, leads(1, 4))
    assert refuted(write, leads(2, 4))
    assert refuted(write, killed, leads(1, 4), other)
    # Where nobody was told of the epoch nothing is known.
    assert not refuted(write, acknowledged, leads(1, 3))


def test_what_a_broker_led_was_committed_as_far_as_an_isr_had_fetched() -> None:
    """It led and had ten records; as a follower it then stops with a high watermark."""

    def of_isr(isr: tuple[int, ...], *assignments: tuple[int, ...], fetches: int = 3) -> bool:
        requests = [
            told(0, epoch, state(leader, epoch, isr, version=1))
            for epoch, leader in enumerate((0, 2))
        ]
        asks = [
            replace(fetched(offset), number=(8, at), follower=1, leader=0)
            for at, offset in enumerate((0, fetches))
        ]
        handled = [
            ControlAnswered(number=sent.number, api="", broker=0, error_code=0, errors={})
            for sent in requests
        ]
        nothing = FetchAnswered(error_code=0, high_watermark=0, base_offset=None, last_offset=None)
        items: list[Observation | Action] = [
            requests[0],
            handled[0],
            produced(0, "w"),
            produced(0, "v"),
            asks[0],
            replace(answered(0, 9), number=(8, 0), follower=1),
            asks[1],
            requests[1],
            handled[1],
            replace(fetched(0, version=4), number=(7, 0)),
            replace(answered(2, 0), number=(7, 0), partitions={T: nothing}),
            replace(fetched(0, version=4), number=(7, 1)),
            StopBroker(broker=0, clean=True, checkpointed=(("t", 0, 4),)),
        ]
        created = tuple(
            Decided(what=TopicCreated(topic="t", assignment=(assigned,)), time=1.0)
            for assigned in assignments
        )
        seen = tuple(Seen(what=item, time=1.0) for item in items)
        whole = Record(seen=seen, decided=created)
        index, why = first_refuted(whole, Lookahead(whole)) or (-1, "")
        return index == len(items) - 1 and "high watermark above" in why

    assert of_isr((0, 1))
    assert not of_isr((0, 1), fetches=4)
    # Alone it had no one to wait for, and a broker that a reassignment leaves out counts no more.
    assert not of_isr((0,))
    assert of_isr((0, 1), (0, 1, 2))
    assert not of_isr((0, 1), (0, 1), (0, 2))


def test_a_produce_with_acks_all_needs_a_large_enough_isr() -> None:
    """A broker is told to lead alone in an epoch, and then a client writes to it."""
    leads = told(1, 4, state(1, 4, (1,), version=1))
    taken = ControlAnswered(
        number=leads.number, api="LeaderAndIsr", broker=1, error_code=0, errors={T: 0}
    )
    write = replace(produced(1, "w"), acks=-1)
    created = TopicCreated(topic="t", assignment=((1, 0),))

    def refuted(*items: Observation | Action, least: int = 2, decided: Sequence[Decision]) -> bool:
        start = StartBroker(broker=1, release="2.8.2", min_insync_replicas=least)
        asked = replace(fetched(0, version=8), leader=1, number=(1, 0))
        of_brokers = (start, *items, asked, answered(1, 4))
        seen = tuple(Seen(what=item, time=1.0) for item in of_brokers)
        written = (*leads.states, *decided)
        whole = Record(seen=seen, decided=tuple(Decided(what=what, time=1.0) for what in written))
        index, why = first_refuted(whole, Lookahead(whole)) or (-1, "")
        assert (index, why) == (-1, "") or "no produce that was sent by then" in why
        return index == len(seen) - 1

    assert refuted(leads, taken, write, decided=[created])
    # Another ISR was written in that epoch or later, but not before it.
    for epoch in (4, 5):
        larger = state(1, epoch, (1, 0), version=2)
        assert not refuted(leads, taken, write, decided=[created, larger])
    assert refuted(leads, taken, write, decided=[created, state(1, 3, (1, 0), version=0)])
    # It may have been appended before it led in that epoch, or in another process.
    before = state(1, 3, (1, 0), version=0)
    assert not refuted(leads, write, taken, decided=[created, before])
    killed = StopBroker(broker=1, clean=False)
    anew = StartBroker(broker=1, release="2.8.2", min_insync_replicas=2)
    assert not refuted(leads, taken, killed, anew, write, decided=[created, before])
    # It is alone, so many are not asked for, or the leader epochs begin anew.
    assert not refuted(leads, taken, write, least=1, decided=[created])
    assert not refuted(leads, taken, replace(write, acks=1), decided=[created])
    alone = TopicCreated(topic="t", assignment=((1,),))
    assert not refuted(leads, taken, write, decided=[alone])
    least_1 = TopicConfigured(topic="t", configuration=(("min.insync.replicas", "1"),))
    assert not refuted(leads, taken, write, decided=[created, least_1])
    assert not refuted(leads, taken, write, decided=[created, created])


def test_who_is_told_to_lead_follows_nobody_until_it_asks_after_that() -> None:
    """A broker has ten records of its leader, is told to lead, and stops with a high watermark."""
    leads = told(0, 3, state(0, 3, (0,), version=1))
    taken = ControlAnswered(number=leads.number, api="", broker=0, error_code=0, errors={})
    asks = [replace(fetched(offset), number=(7, at)) for at, offset in enumerate((0, 5, 5))]
    nothing = FetchAnswered(error_code=0, high_watermark=3, base_offset=None, last_offset=None)
    given, empty = (
        replace(answered(2, 4), number=(7, at), partitions=partitions)
        for at, partitions in ((0, answered(2, 4).partitions), (1, {T: nothing}))
    )

    def stops(*items: Observation | Action, clean: bool = True) -> bool:
        stop = StopBroker(broker=0, clean=clean, checkpointed=(("t", 0, 7),))
        seen = tuple(
            Seen(what=item, time=1.0)
            for item in (produced(2, "w"), produced(2, "v"), asks[0], given, *items, stop)
        )
        written = tuple(Decided(what=what, time=1.0) for what in leads.states)
        whole = Record(seen=seen, decided=written)
        index, why = first_refuted(whole, Lookahead(whole)) or (-1, "")
        assert (index, why) == (-1, "") or "leads no t-0" in why
        return index == len(seen) - 1

    writes = produced(0, "u")
    assert stops()
    # Alone in the ISR it has committed what it wrote.
    assert not stops(leads, writes)
    assert not stops(leads, taken, writes)
    # It may have asked before it led; what comes next on that connection it asks after that.
    assert not stops(leads, taken, asks[1], writes)
    assert not stops(leads, asks[1], taken, writes)
    assert stops(leads, taken, asks[1], empty, asks[2])
    # Its next process leads nothing until it is told so.
    killed = StopBroker(broker=0, clean=False)
    start = StartBroker(broker=0, release="1.1.1")
    assert stops(leads, taken, killed, start)
    assert not stops(leads, taken, writes, killed, start)
    assert not stops(leads, taken, killed, start, replace(leads, number=(10, 0)), writes)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("2.0.1-left-session", (30, 2)),
        # Its leader is told that it leads on before a later message tells that it was answered.
        ("0.11.0.3", (11, 5)),
    ],
)
def test_what_was_answered_unseen_is_answered_before_that_would_be_seen(
    name: str, number: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new high watermark is left out; the links do not record an answer with the old one."""
    whole = recorded(name, runs=HARD)
    changed_run = without(whole, index_of(whole, number))
    prediction = follow(changed_run, patience=2_000)
    monkeypatch.setattr(search, "never_answered", lambda *_: "")
    before = follow(changed_run, patience=2_000)

    assert (prediction.limit, prediction.emptied_by) == ("", None)
    assert before.emptied_by is not None
    assert not before.emptied_by.is_proved


def test_a_term_of_a_leader_ends_where_it_is_told_so_before_a_later_message() -> None:
    asked = fetched(5)
    led, followed, other = (
        state(leader, 1, (leader,), version=1, partition=partition)
        for leader, partition in ((2, 0), (1, 0), (1, 1))
    )

    def leads(*states: PartitionState, later: bool = True) -> bool:
        sent = told(2, 0, *states)
        last = replace(asked, number=(7, 1)) if later else replace(asked, number=(8, 0))
        seen = tuple(Seen(what=what, time=1.0) for what in (asked, sent, last, sent))
        return Lookahead(Record(seen=seen, decided=())).leads_until_later(2, T, (7, 0), 1)

    assert leads(led)
    assert leads(other)
    assert not leads(followed)
    assert not leads(led, later=False)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Produce, "no produce that was sent by then can be at offset 6 of t-1"),
        (ResponseSeen, "nobody wrote to broker"),
    ],
)
def test_what_is_left_out_of_a_hard_run_is_found_within_a_few_states(kind: type, said: str) -> None:
    whole = recorded("2.5.1", runs=HARD)
    items = [at for at, item in enumerate(whole.seen) if isinstance(item.what, kind)]
    told = [follow(without(whole, at), patience=5_000) for at in items[4:40:6]]
    whys = [each.emptied_by.why for each in told if each.emptied_by is not None]
    assert any(said in why for why in whys)


@pytest.mark.parametrize(
    ("name", "left_out", "said"),
    [
        ("3.9.1-asked-early", "record-19", "no produce that was sent by then can be at offset 8"),
        ("0.10.2.2-left-out", (30, 63), "no answer told it a high watermark above 0"),
        # It had led the partition before.
        ("1.1.1-deleted", (32, 9), "broker 1 leads no t-0, and no answer told it"),
        # So it had, in a process before, or under a controller whose last request has no answer.
        ("3.3.2", (42, 2), "broker 1 leads no t-1, and no answer told it"),
        ("2.5.1-answered-late", (26, 15), "broker 0 leads no t-0, and no answer told it"),
        ("2.5.1-answered-late", (41, 16), "broker 0 leads no t-1, and no answer told it"),
        ("2.5.1-answered-late", (42, 4), "broker 2 leads no u-0, and no answer told it"),
    ],
)
def test_a_checkpoint_that_no_answer_or_produce_explains_is_missed_before_the_record_is_searched(
    name: str, left_out: object, said: str
) -> None:
    """Without that one took 8,668 states, and 60,000 did not suffice for the others."""
    whole = recorded(name, runs=HARD)
    prediction = follow(without(whole, index_of(whole, left_out)), patience=2_000)

    assert prediction.emptied_by is not None
    assert prediction.emptied_by.what == "HighWatermarkObserved"
    assert said in prediction.emptied_by.why


def test_a_late_request_names_what_the_scenario_says() -> None:
    late = StaleRequest(
        api="UpdateMetadata", broker=1, target=1, version=5, generation=5, broker_epoch=9
    )
    start = StartBroker(broker=1, release="2.2.2")
    sent = ControlSent(
        number=(1, 0),
        api="UpdateMetadata",
        controller=2,
        controller_epoch=1,
        broker=1,
        broker_epoch=9,
    )
    registered = Decided(what=BrokerRegistered(broker=1, czxid=5), time=1.0)

    def refuted(request: ControlSent, *acts: StaleRequest) -> bool:
        items: tuple[StartBroker | StaleRequest | ControlSent, ...] = (start, *acts, request)
        seen = tuple(Seen(what=what, time=at) for at, what in enumerate(items, start=2))
        whole = Record(seen=seen, decided=(registered,))
        return first_refuted(whole, Lookahead(whole)) is not None

    assert refuted(sent)
    assert not refuted(sent, late)
    assert not refuted(replace(sent, broker_epoch=5))
    assert not refuted(replace(sent, broker_epoch=-1))


def test_an_answer_that_is_kept_at_a_link_is_missed_where_its_connection_goes_on() -> None:
    """Without that the search of this one gave up after 60,000 states."""
    whole = recorded("0.10.2.2-left-out", runs=HARD)
    kept, left_out = (
        at
        for at, item in enumerate(whole.seen)
        if isinstance(item.what, ResponseSeen) and item.what.number == (22, 33)
    )
    answer = whole.seen[kept].what
    assert isinstance(answer, ResponseSeen)
    assert answer.fate is Fate.WAITS

    prediction = follow(without(whole, left_out), patience=2_000)

    assert prediction.emptied_by is not None
    assert "no answer was seen to the Fetch that broker 4 sent" in prediction.emptied_by.why
