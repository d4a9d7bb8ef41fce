"""Gates on literal link records, and answers that decide nothing: unit tests, no cluster."""

import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import kchaos as k
from kchaos.checkers.model import events
from kchaos.clusters.ask import client
from kchaos.clusters.ask.client import Produced
from kchaos.clusters.links import ApiKey, LinkRecord
from kchaos.clusters.metadata.api import LeaderAndIsr
from kchaos.clusters.system.exchange import NoAnswer, NotSent
from kchaos.harness.gates import gates
from kchaos.harness.play import clients
from tests.support.stand_ins import StandInCluster, link_record, play_on

ABOUT = k.TopicPartition("t", 0)
NOT_LEADER = Produced(error_code=6, base_offset=-1)
DONE = Produced(error_code=0, base_offset=7)


class Metadata:
    """Stands in for a cluster's metadata: each look at the state gives the next one."""

    def __init__(self, *states: LeaderAndIsr | None) -> None:
        self._states = list(states)

    def position(self) -> int:
        return 5

    def state(self, topic: str, partition: int) -> LeaderAndIsr | None:
        assert (topic, partition) == ABOUT
        return self._states.pop(0) if len(self._states) > 1 else self._states[0]


def state(leader: int, leader_epoch: int, isr: tuple[int, ...] = ()) -> LeaderAndIsr:
    return LeaderAndIsr(leader=leader, leader_epoch=leader_epoch, isr=isr or (leader,))


def play_of(tmp_path: Path, metadata: Metadata, *, linked: bool = False) -> k.Play:
    return play_on(StandInCluster(brokers=(0,), linked=linked, metadata=metadata), tmp_path)


def produced(play: k.Play, *answers: Produced | Exception, acks: int = -1) -> Produced | Exception:
    """The answer to produce p, after the broker has said these things one after another."""
    left = list(answers)

    def produce(*_: Any, **__: Any) -> Produced:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    action = events.Produce(
        operation="p", broker=0, topic="t", partition=0, records=("p-0",), acks=acks
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clients, "produce", produce)
        play.clients.produce(action, timeout_s=0.2)
        return gates.await_answer(play, "p", timeout_s=10)


def ended(play: k.Play) -> dict[str, Any]:
    """How the history says that the one operation ended."""
    invoke, end = play.run.read_lines("history.jsonl")
    assert (invoke["type"], invoke["operation"], end["operation"]) == ("invoke", "p", "p")
    return end


def test_a_refusal_is_asked_again_while_the_partitions_state_stays(tmp_path: Path):
    play = play_of(tmp_path, Metadata(state(0, 1)))
    assert produced(play, NOT_LEADER, NOT_LEADER, DONE) == DONE
    assert (ended(play)["type"], ended(play)["base_offset"]) == ("ok", 7)


@pytest.mark.parametrize("after", [state(1, 2), state(0, 2), None], ids=["leader", "epoch", "none"])
def test_a_state_that_changes_between_two_refusals_makes_the_run_unknown(
    tmp_path: Path, after: LeaderAndIsr | None
):
    play = play_of(tmp_path, Metadata(state(0, 1), after))
    with pytest.raises(k.ScenarioError, match="while broker 0 refused produce p") as error:
        produced(play, NOT_LEADER, DONE)
    assert str(state(0, 1)) in str(error.value)
    assert str(after) in str(error.value)
    # The first leader may have been deposed while it waited for acks=all, and has the record then.
    assert ended(play)["type"] == "info"


def test_where_links_tell_when_it_heard_of_the_change_the_refusal_is_the_answer(tmp_path: Path):
    play = play_of(tmp_path, Metadata(state(0, 1), state(1, 2)), linked=True)
    assert produced(play, NOT_LEADER, DONE) == NOT_LEADER
    # A leader that is deposed while acks=all is waited for has the record.
    assert (ended(play)["type"], ended(play)["error_code"]) == ("info", 6)


def test_an_election_during_a_produce_makes_the_run_unknown_only_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    step = k.Produce(operation="p", topic="t", partition=0, records=1, acks=1, broker=0)
    monkeypatch.setattr(clients, "produce", lambda *_, **__: DONE)
    # Seen when the step begins, when the client does, and when the answer is there.
    states = (state(0, 1), state(0, 1), state(1, 2))
    (tmp_path / "unlinked").mkdir()
    with pytest.raises(k.ScenarioError, match="during produce p"):
        step.perform(play_of(tmp_path / "unlinked", Metadata(*states)))
    step.perform(play_of(tmp_path, Metadata(*states), linked=True))


def test_an_isr_that_changes_alone_is_no_change_of_the_term(tmp_path: Path):
    play = play_of(tmp_path, Metadata(state(0, 1, (0, 1)), state(0, 1, (0,))))
    assert produced(play, NOT_LEADER, DONE) == DONE


@pytest.mark.slow
@pytest.mark.parametrize(("acks", "kind"), [(-1, "info"), (1, "fail")])
def test_a_broker_that_refuses_until_the_time_is_up_has_the_last_word(
    tmp_path: Path, acks: int, kind: str
):
    play = play_of(tmp_path, Metadata(state(0, 1)))
    assert produced(play, NOT_LEADER, acks=acks) == NOT_LEADER
    assert (ended(play)["type"], ended(play)["error_code"]) == (kind, 6)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (NotSent("nobody listens"), "fail"),
        (NoAnswer("silence"), "info"),
        (Produced(error_code=7, base_offset=-1), "info"),
        (Produced(error_code=20, base_offset=-1), "info"),
        (Produced(error_code=19, base_offset=-1), "fail"),
    ],
    ids=["not-sent", "no-answer", "timed-out", "too-few-after-append", "too-few"],
)
def test_what_may_have_been_appended_is_never_called_failed(
    tmp_path: Path, answer: Produced | Exception, kind: str
):
    play = play_of(tmp_path, Metadata(state(0, 1)))
    assert produced(play, answer) == answer
    assert ended(play)["type"] == kind
    # A line without it was changed by somebody.
    assert "error_code" in ended(play)


def test_a_write_that_may_be_refused_ends_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    play = play_of(tmp_path, Metadata(state(0, 1)))
    refused = Produced(error_code=18, base_offset=-1)
    monkeypatch.setattr(clients, "produce", lambda *_, **__: refused)
    write = k.Produce(operation="p", topic="t", partition=0, records=1, acks=-1, broker=0)
    k.IfPossible(do=write).perform(play)
    assert play.why_not == f"produce p was not acknowledged: {refused}"


def test_a_defect_in_a_client_is_raised_and_not_taken_for_an_answer(tmp_path: Path):
    play = play_of(tmp_path, Metadata(state(0, 1)))
    with pytest.raises(ValueError, match="cannot be decoded"):
        produced(play, ValueError("cannot be decoded"))


def test_a_state_that_never_comes_is_named_with_the_one_last_seen(tmp_path: Path):
    play = play_of(tmp_path, Metadata(state(0, 1), state(0, 4, (0,))))
    expected = "waited 0.1 s for t-0 to have leader 0 and ISR [0, 1]; last seen: "
    with pytest.raises(k.AwaitTimeout, match=re.escape(expected)) as error:
        gates.await_state(play, ABOUT, leader=0, isr=[0, 1], timeout_s=0.1)
    assert error.value.last_seen == str(state(0, 4, (0,)))


def test_an_isr_is_awaited_in_any_order(tmp_path: Path):
    play = play_of(tmp_path, Metadata(state(1, 1, (1, 0))))
    assert gates.await_state(play, ABOUT, isr=[0, 1], timeout_s=0.1).isr == (1, 0)


def test_a_leader_epoch_is_awaited_that_is_as_late_or_later(tmp_path: Path):
    play = play_of(tmp_path, Metadata(state(0, 1), state(0, 3)))
    reached = gates.await_state(play, ABOUT, leader=0, leader_epoch=2, timeout_s=5)
    assert reached.leader_epoch == 3
    with pytest.raises(k.AwaitTimeout, match="leader epoch 4 or a later one"):
        gates.await_state(play, ABOUT, leader_epoch=4, timeout_s=0.1)


def test_a_broker_that_ends_by_itself_ends_the_wait(tmp_path: Path):
    play = play_of(tmp_path, Metadata(state(0, 1)))
    cast(Any, play.cluster.brokers[0]).exit_code = 1
    with pytest.raises(k.BrokerExited, match="broker 0 exited with code 1"):
        gates.await_state(play, ABOUT, leader=1, timeout_s=60)


# -- what the links saw -------------------------------------------------------------------------

ASKED = {"topic": "t", "partition": 0, "leader": 0, "leader_epoch": 3}
ANSWERED = {"topic": "t", "partition": 0, "error_code": 0}


def record(sequence: int, direction: str, entry: dict[str, Any], **changed: Any) -> LinkRecord:
    """A LeaderAndIsr to broker 1, or its answer, on connection 1 with correlation id 1."""
    fields = {
        **{"sequence": sequence, "wall_time_s": time.time(), "direction": direction},
        "detail": {"partitions": [entry], "error_code": 0},
    }
    return link_record(ApiKey.LEADER_AND_ISR, 0, 1, **fields | changed)


def delivered(*records: LinkRecord, since: int = 0) -> bool:
    """Whether broker 1 has accepted leader 0 with leader epoch 3."""
    cluster = StandInCluster(records=records)
    play = k.Play(cluster=cast(Any, cluster), run=cast(Any, None), say=print)
    play.observer.links_started[1] = since
    return gates.is_delivered(play, ABOUT, 1, state(0, 3))


def test_a_state_is_delivered_once_the_broker_has_answered_the_request_that_names_it():
    request, answer = record(1, "request", ASKED), record(2, "response", ANSWERED)
    assert delivered(request, answer)
    assert not delivered(request)
    assert not delivered(answer)


@pytest.mark.parametrize(
    "request_changed",
    [
        {"entry": ASKED | {"leader_epoch": 2}},
        {"entry": ASKED | {"leader": 1}},
        {"entry": ASKED | {"partition": 1}},
        {"entry": ASKED | {"topic": "u"}},
        {"entry": ASKED, "target": 2},
        {"entry": ASKED, "correlation_id": 8},
        {"entry": ASKED, "connection": 2},
        {"entry": ASKED, "api_key": ApiKey.UPDATE_METADATA},
    ],
    ids=["epoch", "leader", "partition", "topic", "broker", "correlation", "connection", "api"],
)
def test_an_answer_to_any_other_request_delivers_nothing(request_changed: dict[str, Any]):
    request = record(1, "request", **request_changed)
    assert not delivered(request, record(2, "response", ANSWERED))


@pytest.mark.parametrize(
    "answer",
    [
        record(2, "response", ANSWERED | {"error_code": 3}),
        record(2, "response", ANSWERED, detail={"partitions": [], "error_code": 11}),
        record(2, "response", ANSWERED, detail={"partitions": [], "error_code": 77}),
        record(2, "response", ANSWERED, fate="held"),
        record(2, "response", ANSWERED, fate="cut"),
    ],
    ids=["unknown-partition", "stale-controller", "stale-broker-epoch", "held", "cut"],
)
def test_a_refusing_or_withheld_answer_delivers_nothing(answer: LinkRecord):
    assert not delivered(record(1, "request", ASKED), answer)


@pytest.mark.parametrize(
    "answer",
    [
        record(2, "response", ANSWERED, fate="abandoned"),
        record(2, "response", ANSWERED | {"error_code": 11}),
    ],
    ids=["too late for the controller", "to a controller that asked again"],
)
def test_a_broker_that_has_handled_a_request_which_timed_out_has_the_state(answer: LinkRecord):
    assert delivered(record(1, "request", ASKED), answer)


def test_a_state_that_was_replaced_before_it_was_sent_is_delivered_with_the_next_one():
    later = record(1, "request", ASKED | {"leader": 1, "leader_epoch": 4})
    assert delivered(later, record(2, "response", ANSWERED))


def test_what_an_earlier_process_answered_was_not_delivered_to_this_one():
    exchange = record(1, "request", ASKED), record(2, "response", ANSWERED)
    assert not delivered(*exchange, since=3)


def test_a_cluster_without_links_delivers_unseen():
    play = k.Play(
        cluster=cast(Any, SimpleNamespace(links=None, is_kraft=False)),
        run=cast(Any, None),
        say=print,
    )
    assert gates.is_delivered(play, ABOUT, 1, state(0, 3))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"codec": "brotli"}, "produce a: codec 'brotli' is unknown"),
        ({"codec": "snappy"}, "produce a: nothing here compresses with snappy: pip install"),
        ({"broker": 9}, "produce a: there is no broker 9"),
    ],
)
def test_what_nobody_can_send_is_refused_before_it_is_written_down(
    changes: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(client._PACKAGES, "snappy", (lambda: False, "python-snappy"))
    play = play_of(tmp_path, Metadata(state(0, 1)))
    fields = {"operation": "a", "broker": 0, "topic": "t", "partition": 0, "records": ("a-0",)}
    action = events.Produce(**{**fields, "acks": 1, **changes})

    with pytest.raises(k.ScenarioError, match=said):
        play.clients.produce(action, timeout_s=0.2)

    assert not (tmp_path / "run" / "actions.jsonl").exists()
    assert not list(tmp_path.rglob("history.jsonl"))


@pytest.mark.parametrize(("lost", "is_read"), [(0, True), (1, True), (19, True), (20, False)])
def test_a_segment_that_is_deleted_while_the_disk_is_read_lets_it_be_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int, is_read: bool
):
    """A broker deletes the local segments of a tiered log, and those behind a truncation."""
    cluster = StandInCluster(folder=tmp_path)
    segments = cluster.brokers[0].log_directory / "t-0"
    segments.mkdir(parents=True)
    looks: list[Path] = []

    def read(directory: Path, *, decode_records: bool) -> str:
        looks.append(directory)
        if len(looks) <= lost:
            raise FileNotFoundError(directory / "00000000000000000003.log")
        return "read"

    monkeypatch.setattr(gates, "read_partition", read)
    play = play_on(cluster, tmp_path)
    if is_read:
        assert cast(Any, gates.contents(play, 0, ABOUT)) == "read"
    else:
        with pytest.raises(FileNotFoundError, match=r"00000000000000000003\.log"):
            gates.contents(play, 0, ABOUT)
    segments.rmdir()
    assert gates.contents(play, 0, ABOUT) is None
