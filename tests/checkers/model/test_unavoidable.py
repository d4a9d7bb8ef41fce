"""The step from which on healing does not help: of recorded runs, checked by hand."""

import json
from pathlib import Path

import pytest

import tests.support.model as m
from kchaos.checkers.errors import ModelError
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model.follow import unavoidable as module
from kchaos.checkers.model.follow.unavoidable import Reached, unavoidable
from kchaos.checkers.model.settle.apply_event import happen
from kchaos.checkers.model.settle.rounds import at_once, settle
from kchaos.checkers.record import predict_run
from tests.golden.stored import ENTRIES, unpacked

CLIENTS = ENTRIES.with_name("clients")


def of(name: str, folder: Path, *, runs: Path | None = None) -> tuple[m.Unavoidable, ...]:
    return predict_run(RunEvidence(unpacked(name, folder, runs=runs))).unavoidable


@pytest.mark.slow
def test_a_divergence_is_sealed_by_the_first_append_of_the_new_leader(tmp_path: Path):
    # Until broker 0 appends in leader epoch 4, it answers a question for leader epoch 3 with
    # undefined, and broker 1 truncates to its high watermark (KAFKA-6361).
    (since,) = of("1.1.1", tmp_path)

    assert (since.brokers, since.first_offset, since.last_offset) == ((0, 1), 5, 6)
    assert since.step == "broker 0 appended offset 7 in leader epoch 4"
    assert since.source == "history.jsonl:15"
    assert (since.spared_in, since.spared_by) == ("2.0.0", ("KIP-279", "OffsetForLeaderEpoch v1"))


@pytest.mark.slow
def test_a_loss_is_sealed_by_the_election_of_a_replica_without_the_record(tmp_path: Path):
    # KAFKA-7128: broker 2 joined the ISR below what was acknowledged.
    (since,) = of("KAFKA-7128", tmp_path, runs=ENTRIES)

    assert (since.brokers, since.first_offset, since.last_offset) == ((), 1, 1)
    assert since.step == "broker 2 leads t-0 in leader epoch 5, with ISR [2]"
    assert (since.spared_in, since.spared_by) == ("2.0.1", ("KAFKA-7128",))


@pytest.mark.slow
def test_no_release_spares_a_run_what_a_fault_took_from_the_disk(tmp_path: Path):
    (since,) = of("1.1.1-java-tail-lost", tmp_path, runs=CLIENTS)

    assert (since.spared_in, since.spared_by) == ("", ())


@pytest.mark.slow
def test_what_brokers_may_compact_by_default_is_not_lost(tmp_path: Path):
    run = unpacked("KAFKA-7128", tmp_path, runs=ENTRIES)
    file = run.path / "scenario.json"
    scenario = json.loads(file.read_text())
    scenario["cluster"]["properties"]["log.cleanup.policy"] = "compact"
    file.write_text(json.dumps(scenario))

    assert predict_run(RunEvidence(run)).unavoidable == ()


@pytest.mark.slow
def test_no_step_is_named_where_the_state_before_it_cannot_be_told(tmp_path: Path):
    assert of("KIP-279-3", tmp_path, runs=ENTRIES) == ()


@pytest.mark.slow
def test_a_run_in_which_replicas_agree_has_none(tmp_path: Path):
    assert of("2.0.1", tmp_path) == ()


def test_nothing_is_lost_before_it_was_promised(monkeypatch: pytest.MonkeyPatch):
    partition = m.TopicPartition("t", 0)
    gone = module._Wrong(partition, (), 3)
    # Nobody in the ISR ever had it, as where a leader that is one no more acknowledges.
    monkeypatch.setattr(
        module, "_wrongs", lambda world, promised, *_: {gone} if promised else set()
    )
    states = [m.EMPTY.changed({("sent",): number}) for number in range(4)]
    path = [Reached(state) for state in states]
    path[2] = path[2]._replace(promised=(m.Promise(partition, 3, "x"),))

    (since,) = unavoidable(path, {}).steps

    assert since.step == "records of t-0 from offset 3 on were acknowledged"


def test_a_state_in_which_nobody_can_tell_names_no_step(monkeypatch: pytest.MonkeyPatch):
    partition = m.TopicPartition("t", 0)
    differs = module._Wrong(partition, (0, 1), 3)
    told = {0: set(), 1: {differs._replace(offset=-1)}, 2: {differs}}
    monkeypatch.setattr(module, "_wrongs", lambda world, *_: told[world.get(("sent",))])
    path = [Reached(m.EMPTY.changed({("sent",): number})) for number in told]

    assert unavoidable(path, {}).steps == ()
    told[1] = set()
    assert len(unavoidable(path, {}).steps) == 1


def test_healing_ends_cuts_and_comes_to_rest():
    world = m.World(m.EMPTY)
    happen(world, m.CutLink(source=0, target=1), {})

    module._Healed({}, is_compacted=False)._heal(world, at_once)

    assert world.cuts() == ()
    settle(world)


def test_what_is_known_stays_where_an_earlier_state_never_rests(monkeypatch: pytest.MonkeyPatch):
    late, early = (module._Wrong(m.TopicPartition("t", 0), (0, 1), offset) for offset in (7, 3))
    told = {1: {early}, 2: {early, late}}

    def wrongs(world: m.World, *_: object) -> set[module._Wrong]:
        if world.get(("sent",)) not in told:
            raise ModelError("it never comes to rest")
        return told[world.get(("sent",))]

    monkeypatch.setattr(module, "_wrongs", wrongs)
    decisive = unavoidable([Reached(m.EMPTY.changed({("sent",): n})) for n in range(3)], {})

    assert [since.first_offset for since in decisive.steps] == [7]
    assert decisive.never_rests


def test_a_state_is_healed_anew_only_where_something_that_was_read_differs(
    monkeypatch: pytest.MonkeyPatch,
):
    asked: list[object] = []

    def wrongs(world: m.World, *_: object) -> set[module._Wrong]:
        asked.append(world.get(("sent",)))
        return {module._Wrong(m.TopicPartition("t", 0), (0, 1), 3)} if asked[-1] else set()

    monkeypatch.setattr(module, "_wrongs", wrongs)
    sent = m.EMPTY.changed({("sent",): "a"})
    path = [m.EMPTY, sent, sent.changed({("control", 1): 2}), sent.changed({("control", 1): 3})]

    (since,) = unavoidable([Reached(state) for state in path], {}).steps

    assert asked == ["a", None]
    assert since.first_offset == 3
