"""Occasions of a run: each is counted where it came, and in no other run."""

from pathlib import Path

from kchaos.checkers.acts import StartBroker, StopBroker
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.judge import judge
from kchaos.checkers.occasions import OCCASIONS, occasions
from tests.golden.stored import unpacked
from tests.support.clean_runs import clean_run
from tests.support.run_builder import RunBuilder


def had(build: RunBuilder) -> dict[str, int]:
    return dict(occasions(RunEvidence(build.seal()), None))


def test_a_run_in_which_nothing_happens_has_none(tmp_path: Path):
    assert had(clean_run(tmp_path / "run")) == {}


def test_an_isr_that_shrinks_and_grows(tmp_path: Path):
    build = clean_run(tmp_path / "run").state(0, 1, [0]).state(0, 1, [0, 1]).state(0, 1, [0, 1])
    assert had(build) == {"isr-shrunk": 1, "isr-grown": 1}


def test_an_election_counts_once_its_leader_has_acknowledged(tmp_path: Path):
    build = clean_run(tmp_path / "run").state(1, 2, [0, 1])
    assert had(build) == {}

    build = clean_run(tmp_path / "led").state(1, 2, [0, 1])
    build.produce("after", 1, ["after"], acks=-1, base_offset=11)
    build.produce("again", 1, ["again"], acks=-1, base_offset=12)
    assert had(build) == {"election": 1}


def test_a_broker_that_was_replaced_acknowledges(tmp_path: Path):
    build = clean_run(tmp_path / "run").state(1, 2, [0, 1])
    build.produce("zombie", 0, ["zombie"], acks=1, base_offset=11)
    assert had(build) == {"answered-by-zombie": 1}


def test_a_write_below_min_isr_is_refused(tmp_path: Path):
    build = clean_run(tmp_path / "run")
    error = ErrorCode.NOT_ENOUGH_REPLICAS
    build.produce("refused", 0, ["one"], acks=-1, error=error.name, error_code=error)
    assert had(build) == {"below-min-isr": 1}


def test_a_leader_is_killed_and_comes_back(tmp_path: Path):
    build = clean_run(tmp_path / "run").act(StopBroker(broker=1, clean=False))
    assert had(build) == {}

    build = clean_run(tmp_path / "led").act(StopBroker(broker=0, clean=False))
    build.close_session(0x10).act(StartBroker(broker=0, release="1.1.1")).register(0, 0x12)
    assert had(build) == {"leader-killed": 1, "broker-back": 1}


def test_an_unclean_election(tmp_path: Path):
    build = clean_run(tmp_path / "run").state(0, 1, [0]).state(1, 2, [1])
    assert had(build) == {"isr-shrunk": 2, "isr-grown": 1, "unclean-election": 1}


def test_a_judgement_counts_what_only_the_model_and_the_links_know(tmp_path: Path):
    results = judge(unpacked("1.1.1", tmp_path))
    assert results.occasions["truncation"] > 0
    assert results.occasions["epoch-question"] > 0
    assert {*results.occasions} <= {*OCCASIONS}


def test_a_transaction_counts_once_however_many_records_it_has(tmp_path: Path):
    runs = Path(__file__).parents[1] / "golden" / "clients"
    run = unpacked("3.9.1-transactions-moved", tmp_path, runs=runs)
    ends = sum(
        '"api":"EndTxn"' in line for line in (run.path / "clients.jsonl").read_text().splitlines()
    )
    # Each has a request and an answer.
    assert 0 < occasions(RunEvidence(run), None)["transaction"] <= ends // 2
