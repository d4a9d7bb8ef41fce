"""Generations of brokers and control requests, read from the links' records."""

from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers import acts
from kchaos.checkers.acts import STALE_CLIENT_ID, TopicPartition
from kchaos.checkers.evidence.broker_epochs import generations, never_informed
from kchaos.checkers.evidence.epoch_rounds import epoch_rounds
from kchaos.checkers.evidence.run import RunEvidence
from tests.support.run_builder import CONTROLLER_SESSION, RunBuilder

T = TopicPartition("t", 0)
KEYS = {"LeaderAndIsr": 4, "StopReplica": 5, "ControlledShutdown": 7}


def two_generations(path: Path, release: str = "2.2.2") -> RunBuilder:
    """Broker 1 has registered with czxid 3, is told of t-0, dies, and registers with czxid 8."""
    build = RunBuilder(path, release=release, is_linked=True)
    for broker in (0, 1, 2):
        build.act(acts.StartBroker(broker=broker, release=release), zxid=0)
    build.elect_controller(2, CONTROLLER_SESSION)
    build.register(2, CONTROLLER_SESSION).register(1, 0x11).register(0, 0x10)
    build.topic("t", [0, 1]).state(0, 0, [0, 1])
    asked(build, "LeaderAndIsr", number=1, broker_epoch=3 if release == "2.2.2" else None)
    build.act(acts.StopBroker(broker=1, clean=False))
    build.close_session(0x11)
    build.act(acts.StartBroker(broker=1, release=release))
    build.register(1, 0x12)
    return build


def asked(
    build: RunBuilder,
    api: str,
    *,
    number: int,
    broker_epoch: int | None = None,
    error_code: int = 0,
    client_id: str = "2",
    held_since: Any = None,
    is_answered: bool = True,
    **fields: Any,
) -> None:
    """A request to broker 1, or from it, and its answer; held if it is said what came between."""
    state = {"leader": 0, "leader_epoch": 0, "isr": [0, 1], "controller_epoch": 1}
    partition = [{"topic": "t", "partition": 0, "replicas": [0, 1]} | state]
    detail: dict[str, Any] = {"controller_id": 2, "controller_epoch": 1, "partitions": partition}
    if api == "ControlledShutdown":
        detail = {"broker_id": 1}
    if broker_epoch is not None:
        detail["broker_epoch"] = broker_epoch
    is_shutdown = api == "ControlledShutdown"
    common = {
        "api": api,
        "api_key": KEYS[api],
        "api_version": 0 if broker_epoch is None else 2,
        "source": 1 if is_shutdown else 2,
        "target": 2 if is_shutdown else 1,
        "correlation_id": number,
        "client_id": client_id,
    } | fields
    if held_since is not None:
        build.link(**common, detail=detail, fate="held")
        held_since()
        build.link(**common, detail=detail, fate="released")
    else:
        build.link(**common, detail=detail)
    if not is_answered:
        return
    answer = {"error_code": error_code, "partitions": [{"topic": "t", "partition": 0}]}
    build.link(**common, direction="response", detail=answer)


def made(build: RunBuilder, **fields: Any) -> None:
    act: dict[str, Any] = {
        "api": "StopReplica",
        "broker": 1,
        "target": 1,
        "version": 0,
        "generation": 3,
    }
    build.act(acts.StaleRequest(**(act | fields)))


def last(build: RunBuilder) -> Any:
    build.write_zookeeper()
    control = RunEvidence(build.run).control
    assert control is not None
    return control[-1]


def test_a_generation_is_a_registration_and_lasts_until_it_is_gone(tmp_path: Path):
    build = two_generations(tmp_path / "run")
    build.write_zookeeper()
    registrations = generations(RunEvidence(build.run).events)
    assert [(each.broker, each.czxid) for each in registrations] == [(2, 2), (1, 3), (0, 4), (1, 8)]
    first, second = (each for each in registrations if each.broker == 1)
    assert first.until is not None
    assert first.since < first.until < second.since
    assert second.until is None


def test_a_request_with_the_epoch_of_an_earlier_generation_is_late(tmp_path: Path):
    build = two_generations(tmp_path / "run")
    asked(build, "StopReplica", number=2, broker_epoch=3, error_code=77)
    newest = last(build)
    assert (newest.meant_for, newest.in_force, newest.is_late) == (3, 8, True)
    assert (newest.error_code, newest.predicted_error_code, newest.is_made) == (77, 77, False)
    assert newest.in_words() == (
        "StopReplica v2 to broker 1 (broker epoch 3) was made for generation 3 of broker 1, which "
        "was 8 by then; refused, STALE_BROKER_EPOCH (77)"
    )


def test_a_request_with_the_present_epoch_is_not_late(tmp_path: Path):
    build = two_generations(tmp_path / "run")
    asked(build, "StopReplica", number=2, broker_epoch=8)
    newest = last(build)
    assert (newest.meant_for, newest.is_late, newest.predicted_error_code) == (8, False, 0)


@pytest.mark.parametrize(("after_s", "is_late"), [(0.4, False), (1.5, True)])
def test_a_process_that_registers_again_may_not_have_heard_of_it_for_a_moment(
    after_s: float, is_late: bool, tmp_path: Path
):
    build = two_generations(tmp_path / "run")
    build.close_session(0x12).register(1, 0x13)
    asked(build, "StopReplica", number=2, broker_epoch=8, wall_time_s=build.clock + after_s)
    newest = last(build)
    assert (newest.in_force, newest.error_code, newest.is_late) == (10, 0, is_late)
    assert newest.predicted_error_code == (77 if is_late else 0)


def test_what_kchaos_made_is_late_by_its_own_account(tmp_path: Path):
    build = two_generations(tmp_path / "run", "2.1.1")
    asked(build, "StopReplica", number=2, client_id=STALE_CLIENT_ID)
    made(build)
    newest = last(build)
    assert (newest.meant_for, newest.is_late, newest.is_made) == (3, True, True)
    assert (newest.broker_epoch, newest.predicted_error_code) == (None, 0)


def test_a_request_that_a_hold_kept_over_a_bounce_is_late(tmp_path: Path):
    build = two_generations(tmp_path / "run", "2.1.1")

    def bounce() -> None:
        build.close_session(0x12)
        build.register(1, 0x13)

    asked(build, "StopReplica", number=2, held_since=bounce)
    newest = last(build)
    assert (newest.meant_for, newest.in_force, newest.is_late) == (8, 10, True)


@pytest.mark.parametrize(
    ("connection", "number", "words", "is_late"),
    [(5, 8, {}, True), (1, 8, {}, False), (5, 0, {}, False), (5, 8, {"api_version": 1}, False)],
    ids=["on-a-new-connection", "on-the-same", "numbered-anew", "in-other-words"],
)
def test_a_request_that_is_sent_again_to_the_next_generation_is_late(
    tmp_path: Path, connection: int, number: int, words: dict[str, Any], is_late: bool
):
    build = two_generations(tmp_path / "run", "2.1.1")
    asked(build, "StopReplica", number=7, connection=1, is_answered=False)
    build.close_session(0x12)
    build.register(1, 0x13)
    asked(build, "StopReplica", number=number, connection=connection, **words)
    assert last(build).is_late == is_late


def test_an_ordinary_request_without_an_epoch_is_never_called_late(tmp_path: Path):
    build = two_generations(tmp_path / "run", "2.1.1")
    asked(build, "StopReplica", number=2)
    assert not last(build).is_late


def test_a_controlled_shutdown_is_about_the_broker_that_sends_it(tmp_path: Path):
    build = two_generations(tmp_path / "run")
    asked(build, "ControlledShutdown", number=2, broker_epoch=3, error_code=77, client_id="1")
    newest = last(build)
    assert (newest.broker, newest.target, newest.is_late) == (1, 2, True)
    assert newest.predicted_error_code == 77


def test_a_new_process_that_no_request_named_was_never_told(tmp_path: Path):
    build = two_generations(tmp_path / "run")
    build.write_zookeeper()
    facts = RunEvidence(build.run)
    assert never_informed(facts.control, facts.events, T, (0, 1)) == (0, 1)


def test_a_new_process_that_was_told_or_refused_all_is_told_apart(tmp_path: Path):
    told = two_generations(tmp_path / "told")
    asked(told, "LeaderAndIsr", number=2, broker_epoch=8)
    refused = two_generations(tmp_path / "refused")
    asked(refused, "LeaderAndIsr", number=2, broker_epoch=3, error_code=77)
    for build, expected in ((told, ()), (refused, (1,))):
        build.write_zookeeper()
        facts = RunEvidence(build.run)
        assert never_informed(facts.control, facts.events, T, (1,)) == expected


def test_without_links_nothing_is_said(tmp_path: Path):
    build = RunBuilder(tmp_path / "run").register(1, 0x11)
    build.write_zookeeper()
    facts = RunEvidence(build.run)
    assert facts.control is None
    assert never_informed(None, facts.events, T, (1,)) == ()


# -- Questions for leader epochs at the links, where a fetch session leaves something out --


def test_a_fetch_that_the_links_did_not_record_asks_what_its_session_has(tmp_path: Path):
    """It names no partition, so nobody recorded it; its answer says that the logs diverge."""
    build = RunBuilder(tmp_path / "run", release="3.9.1")
    asked = {
        "topic": "t",
        "partition": 0,
        "fetch_offset": 3,
        "last_fetched_epoch": 2,
        "current_leader_epoch": 3,
    }
    told = {"topic": "t", "partition": 0, "error_code": 0, "high_watermark": 3}
    fetch = {"source": 1, "target": 0, "api_key": 1, "api": "Fetch"}
    build.link(**fetch, correlation_id=1, detail={"session_epoch": 0, "partitions": [asked]})
    for number, diverging in ((1, None), (2, {"epoch": 0, "end_offset": 3})):
        answer = told | {"diverging_epoch": diverging}
        build.link(
            **fetch,
            correlation_id=number,
            direction="response",
            detail={"error_code": 0, "partitions": [answer]},
        )

    (round_,) = epoch_rounds(RunEvidence(build.seal()).links or ())

    assert (round_.requested_epoch, round_.answered_epoch, round_.end_offset) == (2, 0, 3)
