"""Quiet: what is awaited after a fault, what is not, and what runs look like that rely on it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kchaos as k
from kchaos.clusters.links import ApiKey, LinkRecord
from kchaos.clusters.metadata.zookeeper import ZooKeeperMetadata
from kchaos.harness.gates import gates, quiet
from kchaos.harness.run.runner import play
from tests.support.drivers import play_options
from tests.support.segment_encoder import batch
from tests.support.stand_ins import StandInCluster, StandInLinks, link_record, play_on

CONTROLLER = 2
Unseen = Callable[..., str]


class ZooKeeper:
    """Answers for /brokers/ids, /controller and one partition of topic t."""

    def __init__(
        self, registered: Sequence[int], state: Mapping[str, Any], controller_epoch: int
    ) -> None:
        self.registered = registered
        self.state = state
        self.controller_epoch = controller_epoch

    last_zxid = 7

    def exists(self, path: str) -> None: ...

    def get_children(self, path: str) -> list[str]:
        return ["t"] if path == "/brokers/topics" else [str(each) for each in self.registered]

    def get(self, path: str) -> tuple[bytes, Any]:
        answers: dict[str, Any] = {
            "/controller": {"brokerid": CONTROLLER},
            "/controller_epoch": self.controller_epoch,
            "/brokers/topics/t": {"partitions": {"0": [0, 1]}},
            "/brokers/topics/t/partitions/0/state": self.state,
        }
        return json.dumps(answers[path]).encode(), SimpleNamespace(version=0)


def record(sequence: int, api: ApiKey, source: int, target: int, direction: str) -> LinkRecord:
    entry = {"topic": "t", "partition": 0, "error_code": 0, "leader": 0, "leader_epoch": 3}
    said = {"partitions": [entry], "error_code": 0}
    fields = {"sequence": sequence, "connection": target, "direction": direction, "detail": said}
    return link_record(api, source, target, **fields)


def at_links(
    *records: LinkRecord, kept_back: Sequence[tuple[int, int | None]] = ()
) -> Mapping[str, Any]:
    """What a `StandInCluster` gets: messages, and where a rule may keep messages back."""
    return {"records": records, "kept_back": kept_back}


def heard(broker: int) -> tuple[LinkRecord, LinkRecord]:
    """The exchange with which the controller tells the broker of leader 0 in leader epoch 3."""
    asked = record(1, ApiKey.LEADER_AND_ISR, CONTROLLER, broker, "request")
    return asked, record(2, ApiKey.LEADER_AND_ISR, CONTROLLER, broker, "response")


FETCH = record(3, ApiKey.FETCH, 1, 0, "request")
LED_BY_0 = {"leader": 0, "leader_epoch": 3, "isr": [0, 1], "controller_epoch": 1}


@pytest.fixture
def unseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Unseen:
    """What the wait could not see, "" if all was quiet; see `_unseen`."""
    return partial(_unseen, tmp_path, monkeypatch)


def _unseen(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    links: Mapping[str, Any],
    *,
    registered: Sequence[int] = (0, 1, 2),
    state: Mapping[str, Any] = LED_BY_0,
    release: str = "2.8.2",
    registered_before: Sequence[int] = (),
    controller_epoch: int = 1,
    untold: Sequence[int] = (),
    level: bool = False,
    ends: Mapping[int, int] | None = None,
) -> str:
    """What the wait could not see, "" if all was quiet.

    Args:
        level: Whether every follower's log must end where its leader's does.
        ends: How many records of t-0 a broker has on its disk; none of those that are not named.
        untold: Brokers of which the model says that nobody tells them anything.
        registered_before: Who was registered when the controller was first looked at.
    """
    monkeypatch.setattr(quiet, "QUIET_S", 0.05)
    cluster = StandInCluster(
        brokers=(0, 1, 2),
        **links,
        folder=tmp_path,
        metadata=ZooKeeperMetadata(ZooKeeper(registered, state, controller_epoch)),
    )
    for broker in cluster.brokers.values():
        broker.judged_as = release
    for at, end in (ends or {}).items():
        log = tmp_path / f"broker-{at}" / "t-0"
        log.mkdir(parents=True)
        (log / f"{0:020}.log").write_bytes(
            b"".join(batch(offset, [(None, b"a")]) for offset in range(end))
        )
    now = play_on(cluster, tmp_path)
    now.observer.registered[controller_epoch] = frozenset(registered_before)
    k.AwaitQuiet(level=level, untold=tuple(untold)).perform(now)
    if not (now.run.path / "observations.jsonl").is_file():
        return ""
    return "".join(line["detail"] for line in now.run.read_lines("observations.jsonl"))


def test_all_have_heard_and_the_follower_fetches(unseen: Unseen):
    links = at_links(*heard(0), *heard(1), FETCH)
    assert unseen(links) == ""


@pytest.mark.parametrize(
    ("links", "registered", "state", "missing"),
    [
        (at_links(*heard(0), FETCH), (0, 1, 2), LED_BY_0, "broker 1 has not heard of t-0"),
        (
            at_links(*heard(0), *heard(1)),
            (0, 1, 2),
            LED_BY_0,
            "broker 1 has not fetched t-0 from 0",
        ),
        (
            at_links(*heard(0)),
            (0, 2),
            LED_BY_0,
            "[1] are gone, and t-0 has leader 0 and ISR [0, 1]",
        ),
        (
            at_links(*heard(1)),
            (1, 2),
            {"leader": -1, "leader_epoch": 4, "isr": [1], "controller_epoch": 1},
            "t-0 has no leader, and of its ISR [1] some could lead",
        ),
    ],
    ids=["not heard", "not fetched", "gone", "no leader"],
)
def test_what_is_still_to_come_is_awaited_and_named(
    unseen: Unseen,
    links: Mapping[str, Any],
    registered: Sequence[int],
    state: Mapping[str, Any],
    missing: str,
):
    detail = unseen(links, registered=registered, state=state)
    assert missing in detail


@pytest.mark.parametrize(
    ("links", "registered"),
    [
        (at_links(*heard(0), kept_back=[(CONTROLLER, 1)]), (0, 1, 2)),
        (at_links(*heard(0), *heard(1), kept_back=[(1, 0)]), (0, 1, 2)),
        (at_links(*heard(0), kept_back=[(CONTROLLER, None)]), (0, 2)),
        (at_links(), (0, 1)),
    ],
    ids=["from the controller", "from the leader", "the controller's ZooKeeper", "the controller"],
)
def test_what_a_fault_keeps_back_is_not_awaited(
    unseen: Unseen, links: Mapping[str, Any], registered: Sequence[int]
):
    assert unseen(links, registered=registered) == ""


@pytest.mark.parametrize(
    ("links", "untold", "missing"),
    [
        (at_links(*heard(0)), [1], ""),
        (at_links(*heard(1)), [0], ""),
        (at_links(*heard(1)), [1], "broker 0 has not heard of t-0"),
        (at_links(*heard(0)), [0], "broker 1 has not heard of t-0"),
    ],
    ids=["a follower", "a leader", "not the leader", "not the follower"],
)
def test_of_a_broker_that_nobody_tells_anything_nothing_is_awaited(
    unseen: Unseen, links: Mapping[str, Any], untold: Sequence[int], missing: str
):
    detail = unseen(links, untold=untold)
    assert missing in detail
    assert bool(missing) == bool(detail)


@pytest.mark.parametrize(
    ("links", "missing"),
    [
        (at_links(*heard(1), kept_back=[(CONTROLLER, 0)]), ""),
        (at_links(*heard(1)), "broker 0 has not heard of t-0"),
    ],
    ids=["kept from the controller", "late"],
)
def test_a_follower_is_not_awaited_before_its_leader_has_heard(
    unseen: Unseen, links: Mapping[str, Any], missing: str
):
    detail = unseen(links)
    assert missing in detail
    assert "has not fetched" not in detail


_UNANSWERED = "broker 1 has not answered the last request of controller 2"
_SENT = replace(
    record(4, ApiKey.LEADER_AND_ISR, CONTROLLER, 1, "request"), correlation_id=2, connection=7
)
_ANSWERED = replace(_SENT, sequence=5, source=CONTROLLER, direction="response")


@pytest.mark.parametrize(
    ("later", "kept_back", "untold", "missing"),
    [
        ([_SENT], [], [], _UNANSWERED),
        ([replace(_SENT, api_key=ApiKey.UPDATE_METADATA)], [], [], _UNANSWERED),
        ([replace(_SENT, api_key=ApiKey.STOP_REPLICA)], [], [], _UNANSWERED),
        ([_SENT, replace(_ANSWERED, correlation_id=1)], [], [], _UNANSWERED),
        ([_SENT, replace(_ANSWERED, connection=8)], [], [], _UNANSWERED),
        ([_SENT, replace(_ANSWERED, fate="held")], [], [], _UNANSWERED),
        ([_SENT, _ANSWERED], [], [], ""),
        ([_SENT, replace(_ANSWERED, fate="abandoned")], [], [], ""),
        ([replace(_SENT, source=0)], [], [], ""),
        ([replace(_SENT, fate="cut")], [], [], ""),
        ([_SENT], [(CONTROLLER, 1)], [], ""),
        ([_SENT], [], [1], _UNANSWERED),
    ],
    ids=[
        *("a LeaderAndIsr", "an UpdateMetadata", "a StopReplica"),
        *("another is answered", "on another connection", "the answer is held"),
        *("answered", "answered too late", "of another controller", "never arrived"),
        *("kept back", "untold"),
    ],
)
def test_the_controllers_last_request_is_awaited_which_it_would_send_to_the_next_process_too(
    unseen: Unseen,
    later: Sequence[LinkRecord],
    kept_back: Sequence[tuple[int, int | None]],
    untold: Sequence[int],
    missing: str,
):
    links = at_links(*heard(0), *heard(1), FETCH, *later, kept_back=kept_back)
    detail = unseen(links, untold=untold)
    assert missing in detail
    assert bool(missing) == bool(detail)


def test_what_the_controller_sends_while_a_broker_is_looked_at_is_awaited(
    unseen: Unseen, monkeypatch: pytest.MonkeyPatch
):
    """After a LeaderAndIsr comes an UpdateMetadata, which a broker has as soon as it has heard."""

    def is_delivered(play: k.Play, *_: object) -> bool:
        links = play.cluster.links
        assert isinstance(links, StandInLinks)
        links.records = [*heard(0), *heard(1), FETCH, _SENT]
        return True

    monkeypatch.setattr(gates, "is_delivered", is_delivered)
    assert _UNANSWERED in unseen(at_links(FETCH))


@pytest.mark.parametrize(
    ("level", "ends", "missing"),
    [
        (True, {0: 2, 1: 2}, ""),
        (True, {0: 2, 1: 1}, "t-0 ends at 1 on broker 1, and at 2 on its leader 0"),
        (False, {0: 2, 1: 1}, ""),
    ],
    ids=["as long", "shorter", "not asked"],
)
def test_a_log_that_is_shorter_than_its_leaders_is_awaited_where_this_is_asked(
    unseen: Unseen, level: bool, ends: Mapping[int, int], missing: str
):
    links = at_links(*heard(0), *heard(1), FETCH)
    detail = unseen(links, level=level, ends=ends)
    assert missing in detail
    assert bool(missing) == bool(detail)


def told(sequence: int, *, alive: Sequence[int], isr: Sequence[int], of: int) -> LinkRecord:
    """The UpdateMetadata of a controller that has these brokers alive, and this ISR."""
    partition = {"topic": "t", "partition": 0, "leader": 0, "leader_epoch": 3, "isr": isr}
    return replace(
        record(sequence, ApiKey.UPDATE_METADATA, of, 0, "request"),
        detail={"live_brokers": alive, "partitions": [partition]},
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "is_awaited"),
    [
        ([], True),
        ([told(3, alive=(0, 2), isr=(0, 1), of=CONTROLLER)], True),
        ([told(3, alive=(0, 2), isr=(0,), of=CONTROLLER)], False),
        (
            [
                told(3, alive=(0, 2), isr=(0,), of=CONTROLLER),
                told(4, alive=(0, 2), isr=(0, 1), of=CONTROLLER),
            ],
            False,
        ),
        (
            [
                told(3, alive=(0, 2), isr=(0,), of=CONTROLLER),
                told(4, alive=(0, 1, 2), isr=(0, 1), of=CONTROLLER),
            ],
            True,
        ),
        ([told(3, alive=(0, 2), isr=(0,), of=1)], True),
    ],
    ids=["nothing said", "not taken out", "taken out", "and back", "of another time", "of another"],
)
def test_who_was_taken_out_and_is_in_the_isr_again_was_taken_in_by_the_leader(
    unseen: Unseen, said: Sequence[LinkRecord], is_awaited: bool
):
    links = at_links(*heard(0), *said)
    detail = unseen(links, registered=(0, 2))
    assert ("[1] are gone" in detail) is is_awaited


@pytest.mark.parametrize(
    ("written_in", "told_of", "is_awaited"),
    [(4, 2, False), (4, 3, True), (5, 2, True), (4, None, True)],
    ids=["behind its back", "told of it", "its own", "has told of nothing"],
)
def test_what_a_former_controller_wrote_behind_the_present_one_is_not_awaited(
    unseen: Unseen, written_in: int, told_of: int | None, is_awaited: bool
):
    state = {**LED_BY_0, "controller_epoch": written_in}
    partition = {"topic": "t", "partition": 0, "leader_epoch": told_of}
    update = replace(
        record(3, ApiKey.UPDATE_METADATA, CONTROLLER, 0, "request"),
        detail={
            "controller_epoch": 5,
            "live_brokers": (0, 1, 2),
            "partitions": [] if told_of is None else [partition],
        },
    )
    detail = unseen(at_links(update), state=state, controller_epoch=5)
    assert ("has not heard of t-0" in detail) is is_awaited


@pytest.mark.parametrize(
    ("release", "registered_before", "is_awaited"),
    [("2.2.2", (0, 2), False), ("2.2.2", (0, 1, 2), True), ("2.3.0", (0, 2), True)],
    ids=["gone before the election", "gone after it", "from 2.3 on"],
)
def test_up_to_2_2_a_controller_leaves_who_was_gone_before_it_in_the_isr(
    unseen: Unseen, release: str, registered_before: Sequence[int], is_awaited: bool
):
    detail = unseen(
        at_links(*heard(0)), registered=(0, 2), release=release, registered_before=registered_before
    )
    assert ("[1] are gone" in detail) is is_awaited


def test_a_leader_that_a_follower_was_told_of_in_vain_ends_no_fetching(unseen: Unseen):
    in_vain = {"topic": "t", "partition": 0, "leader": 1, "leader_epoch": 2}
    asked, answered = record(4, ApiKey.LEADER_AND_ISR, 0, 1, "request"), heard(1)[1]
    refused = (
        replace(asked, correlation_id=2, detail={"partitions": [in_vain]}),
        replace(
            answered, sequence=5, correlation_id=2, detail={"error_code": 11, "partitions": []}
        ),
    )
    again = tuple(replace(each, sequence=each.sequence + 5, correlation_id=3) for each in heard(1))
    links = at_links(*heard(0), *heard(1), FETCH, *refused, *again)
    assert unseen(links) == ""


@pytest.mark.cluster
def test_ended_sessions_a_rolling_bounce_and_a_snapshot_without_a_follower_are_as_predicted(
    tmp_path: Path,
):
    """Records are written right after a session ended and a broker died.

    The snapshot is taken once the followers that are left have what the leader has.
    """
    topic: dict[str, Any] = {"topic": "t", "partition": 0}
    ended = (
        step
        for number in range(3)
        for step in (
            k.Inject(name=f"end-{number}", fault=k.ExpireSession(broker=1)),
            k.Produce(operation=f"e{number}", records=1, acks=1, **topic),
            k.Heal(name=f"end-{number}"),
        )
    )
    bounced = (
        step
        for broker in (0, 1)
        for step in (
            k.Inject(name=f"kill-{broker}", fault=k.KillBroker(broker=broker)),
            k.Produce(operation=f"p{broker}", records=5, acks=-1, **topic),
            k.Heal(name=f"kill-{broker}"),
        )
    )
    down = (
        k.Inject(name="down", fault=k.KillBroker(broker=2)),
        k.Produce(operation="p2", records=200, acks=1, **topic),
        k.TakeSnapshot(label="one-is-down"),
        k.Produce(operation="after", records=200, acks=1, **topic),
        # Not between the bounces: there the second broker is killed as soon as the first is back.
        k.AwaitQuiet(level=True),
    )
    first = (
        k.CreateTopic(topic="t", assignment=((0, 1, 2),)),
        k.Produce(operation="first", records=5, acks=-1, **topic),
    )
    cluster = k.ClusterSpec(brokers=k.brokers_of("2.8.2", (0, 1, 2, 3)), first_broker=3)
    scenario = k.Scenario(
        entry="test",
        case="",
        release="2.8.2",
        cluster=cluster,
        steps=(*first, *ended, *bounced, *down),
    )
    results = k.judge(play(scenario, options=play_options(tmp_path), say=print))
    assert (results.unknown, results.conforms, results.safe) == (None, True, True), results.findings
