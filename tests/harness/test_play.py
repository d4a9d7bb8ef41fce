"""Actions that a play writes of the acts of faults: unit tests, no cluster."""

import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kchaos.checkers.acts import Act, CutLink, ExpireSession, PauseBroker, StartBroker, StopBroker
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model.values.events import Snapshot
from kchaos.faults import CutLink as CutLinkFault
from kchaos.harness.errors import ScenarioError
from kchaos.harness.play.play import Play
from kchaos.harness.run.scenario import step_from_json, step_to_json
from kchaos.harness.steps.scenario_steps import Inject
from tests.support.stand_ins import StandInCluster, play_on

CUT = CutLink(source=0, target=1, name="rack")


@pytest.fixture
def play(tmp_path: Path) -> Play:
    metadata = SimpleNamespace(position=lambda: 5)
    cluster = StandInCluster(brokers=(1,), linked=False, folder=tmp_path, metadata=metadata)
    cluster.brokers[1].judged_as = "1.1.1"
    cluster.brokers[1].properties = {"min.insync.replicas": "2"}
    cluster.brokers[1].log_directory.mkdir()
    return play_on(cluster, tmp_path)


def written(play: Play, act: Act) -> Any:
    """The event that the timeline has for an act."""
    with play.acting(act):
        assert not (play.run.path / "actions.jsonl").exists()
    (timed,) = RunEvidence(play.run).events
    return timed.event


def test_an_act_of_the_models_is_written_when_it_is_done_with_the_moment_when_it_began(play: Play):
    before = time.time()
    with play.acting(CUT):
        inside = time.time()
    (timed,) = RunEvidence(play.run).events
    assert (timed.event, timed.zxid) == (CUT, 5)
    assert timed.began is not None
    assert before <= timed.began <= inside <= timed.time
    (observed,) = play.run.read_lines("observations.jsonl")
    wanted = {"kind": "act", "act": "CutLink", "zxid": 5, "source": 0, "target": 1, "name": "rack"}
    assert wanted.items() <= observed.items()
    assert before <= observed["time"] <= timed.began


def test_what_acts_on_zookeeper_alone_is_observed_and_is_no_action(play: Play):
    with play.acting(ExpireSession(broker=1)):
        pass
    assert [line["act"] for line in play.run.read_lines("observations.jsonl")] == ["ExpireSession"]
    assert not (play.run.path / "actions.jsonl").exists()


def test_an_act_that_fails_is_no_action(play: Play):
    with pytest.raises(LookupError), play.acting(CUT):
        raise LookupError
    assert not (play.run.path / "actions.jsonl").exists()


def test_a_stop_is_written_with_the_checkpoint_that_the_process_left(play: Play):
    checkpoint = play.cluster.brokers[1].log_directory / "replication-offset-checkpoint"
    checkpoint.write_text("0\n1\nt 0 7\n")
    assert written(play, StopBroker(broker=1, clean=False)) == StopBroker(
        broker=1, clean=False, checkpointed=(("t", 0, 7),)
    )


def test_a_start_is_written_with_the_configuration_that_the_process_has(play: Play):
    assert written(play, StartBroker(broker=1, release="another")) == StartBroker(
        broker=1, release="1.1.1", min_insync_replicas=2
    )


def test_an_action_that_takes_place_at_once_begins_when_it_is_written(play: Play):
    play.action(Snapshot(label="s"))
    (timed,) = RunEvidence(play.run).events
    assert timed.began == timed.time


def test_an_action_of_an_old_run_has_no_beginning(play: Play):
    old = {"event": "HealLink", "source": 0, "target": 1}
    play.run.append("actions.jsonl", {"time": 3.0, "zxid": 5, "step": 1, "action": old})
    (timed,) = RunEvidence(play.run).events
    assert (timed.began, timed.time) == (None, 3.0)


def test_a_step_that_injects_a_cut_keeps_its_name_and_one_without_gets_it_from_the_pair():
    named = Inject(name="A-B", fault=CutLinkFault(source=0, target=1, name="rack"))
    assert step_from_json(step_to_json(named)) == named
    old = {"fault": "CutLink", "source": 0, "target": 1, "one_way": True, "style": "silent"}
    step = step_from_json({"step": "Inject", "name": "A-B", "fault": old})
    assert step == Inject(name="A-B", fault=CutLinkFault(source=0, target=1, one_way=True))
    assert step_to_json(step)["fault"]["name"] == "0->1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd:
    """A fault of somebody's own, whose kinds of acts are a field by mistake."""

    performs: tuple[type, ...] = (PauseBroker,)


def test_a_field_that_is_no_json_is_named_with_the_remedy():
    with pytest.raises(ScenarioError, match=r"Odd\.performs is .*PauseBroker.* is a ClassVar"):
        step_to_json(Inject(name="odd", fault=cast(Any, Odd())))
