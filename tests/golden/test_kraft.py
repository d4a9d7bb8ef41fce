"""Stored runs of real KRaft clusters: what is said of them, and what is said once they are damaged.

They were played and stored as the other golden runs. In most a follower is killed and comes back.
In `3.9.1-last-replica` and `4.1.2-eligible-replicas` two of three replicas are stopped, and the
last one is killed and loses half of its ten records: on 3.9.1 it leads again, and on 4.1.2, with
eligible leader replicas, another one does, which has them all. In
`4.1.2-deltas-published-as-one` a broker takes up three new topics at once, in
`4.0.2-asked-out` a marker is acknowledged as a granted ISR loses who lags, in
`4.2.1-repeated-fetch` a leader waits for no process whose broker epoch is over, and in
`4.1.2-left-out-once-refused` a fetcher leaves out for a while what was refused. In
`4.1.2-known-before-led` a metadata cache has topics whose replicas are not there yet. In
`4.1.2-records-deleted` a client has records deleted, and the leader is killed before it wrote down
where its log begins; then the same by the next leader. In `3.9.1-voters-changed` voters of a
dynamic quorum come and go, one of them with a new disk. Of the two of `cut_by_hand` one lost what
no act says, after an unclean election whose leader had every record.
"""

import shutil
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.formats.metadata_image import UNASSIGNED
from kchaos.checkers.judge import judge
from kchaos.checkers.model import follow
from kchaos.checkers.model.broker import exchange
from kchaos.checkers.model.broker.exchange import FETCH
from kchaos.checkers.model.follow import internal_control_steps, internal_follower_steps
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.values.events import BrokerRegistered, EligibleReplicas
from kchaos.checkers.rules.quorum import decisions_of_controllers, quorum_decisions
from kchaos.checkers.run_directory import MANIFEST, RunDirectory
from kchaos.checkers.segments.reader import read_segment
from kchaos.checkers.verdict import NOT_PREDICTED
from tests.golden.cut_by_hand import CUT, WHOLE
from tests.golden.kraft_scenarios import COMBINED, LOST, SCENARIOS
from tests.golden.stored import ENTRIES, KRAFT, expected_of, judged_as_stored, recorded, unpacked
from tests.support.metadata_logs import FIRST_SEGMENT, rewritten

AS_ONE, KNOWN = "4.1.2-deltas-published-as-one", "4.1.2-known-before-led"
UPGRADED = "3.9.1-upgraded-to-4.4.0"
ELIGIBLE, LAST, LINKED = "4.1.2-eligible-replicas", "3.9.1-last-replica", "4.4.0-linked"
THREE = "4.1.2-three-controllers"
UNLINKED = ("3.3.2", "3.9.1", THREE, ELIGIBLE, LAST, CUT, WHOLE, *COMBINED)
PREDICTED = (
    LINKED,
    AS_ONE,
    KNOWN,
    UPGRADED,
    "4.0.2-asked-out",
    "4.1.2-left-out-once-refused",
    "4.1.2-moved-by-others",
    "4.2.1-repeated-fetch",
    "4.1.2-records-deleted",
    *(each for each in SCENARIOS if each not in (*LOST, *COMBINED)),
)
CLEANED = "3.9.1-cleaned"
IN_KRAFT = ("KAFKA-14296", "KAFKA-14616", "KAFKA-19522", "KIP-966-last-known-leader")
"""Entries whose stored run is one of KRaft."""


def test_every_stored_kraft_run_is_looked_at():
    assert {folder.name for folder in KRAFT.iterdir()} == {*UNLINKED, *PREDICTED, *LOST, CLEANED}


@pytest.mark.slow
@pytest.mark.parametrize("name", UNLINKED)
def test_a_real_kraft_run_without_links_is_unknown_for_one_reason(name: str, tmp_path: Path):
    results = judged_as_stored(name, tmp_path, runs=KRAFT)

    assert (results.conforms, results.safe) == (None, name not in (LAST, CUT))
    assert (results.unknown, results.crashes) == (NOT_PREDICTED, ())


@pytest.mark.slow
@pytest.mark.parametrize("name", PREDICTED)
def test_a_real_kraft_run_with_links_is_as_predicted_to_its_end(name: str, tmp_path: Path):
    results = judged_as_stored(name, tmp_path, runs=KRAFT)

    assert (results.conforms, results.safe, results.unknown) == (True, True, None)
    assert (results.expected, results.crashes) == (True, ())


@pytest.mark.slow
def test_an_answer_amid_several_new_topics_is_explained_only_by_deltas_that_are_published_as_one(
    monkeypatch: pytest.MonkeyPatch,
):
    """A topic of the last delta is led by then, and one of the first is not known yet."""
    record = recorded(AS_ONE, runs=KRAFT)
    monkeypatch.setattr(internal_control_steps, "_published_together", lambda *_: ())

    emptied = follow(record, patience=1_000).emptied_by

    assert emptied is not None
    assert "possible was" in emptied.why


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name", "before"),
    [
        (internal_control_steps, "NOT_TOLD", {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}),
        (Lookahead, "index_behind", lambda _self, _number, index: index),
        (internal_follower_steps, "_next_fetch", partial(exchange.question, api=FETCH)),
        (internal_control_steps, "_leaves_out_for_a_while", lambda *_: True),
    ],
    ids=["unknown ids", "sent unseen", "truncates first", "never asked"],
)
def test_without_each_sign_of_what_a_broker_does_later_a_healthy_run_is_red(
    module: Any, name: str, before: Any, monkeypatch: pytest.MonkeyPatch
):
    """One answer names topics that are led, begun and known: the search did not come that far."""
    record = recorded(KNOWN, runs=KRAFT)
    monkeypatch.setattr(module, name, before)

    emptied = follow(record, patience=1_000).emptied_by

    assert emptied is not None
    assert "possible was" in emptied.why


@pytest.mark.slow
def test_a_batch_that_two_waiting_fetches_got_is_appended_after_they_are_counted(
    monkeypatch: pytest.MonkeyPatch,
):
    """Else three searches come no further than the first of both answers: a false red."""
    record = recorded(UPGRADED, runs=KRAFT)
    monkeypatch.setattr(Lookahead, "waited_for", lambda *_: iter(()))

    emptied = follow(record).emptied_by

    assert emptied is not None
    assert "high watermark 182" in emptied.why


@pytest.mark.slow
def test_a_real_kraft_run_whose_log_was_cleaned_unseen_is_unknown_for_that(tmp_path: Path):
    results = judged_as_stored(CLEANED, tmp_path, runs=KRAFT)

    assert (results.conforms, results.safe, results.crashes) == (None, True, ())
    assert "log cleaner" in (results.unknown or "")


@pytest.mark.slow
@pytest.mark.parametrize("name", LOST)
def test_a_lost_metadata_log_is_unsafe_although_its_copies_contradict_each_other(
    name: str, tmp_path: Path
):
    results = judged_as_stored(name, tmp_path, runs=KRAFT)

    assert (results.conforms, results.safe, results.crashes) == (None, False, ())
    (lost,) = (finding for finding in results.findings if finding.kind == "metadata-lost")
    assert (lost.topic, lost.evidence["records"]) == ("t", 3)
    assert [*lost.brokers] == LOST[name]


def _lose_the_tail(path: Path) -> None:
    for segment in path.glob("snapshots/final/broker-*/t-0/*.log"):
        segment.write_bytes(segment.read_bytes()[:-1])


def _lose_the_last_batch(path: Path) -> None:
    for segment in path.glob("snapshots/final/broker-*/t-0/*.log"):
        content = segment.read_bytes()
        batches = read_segment(content, base_offset=0, file="").batches
        segment.write_bytes(content[: batches[-2].position])


def _lose_a_metadata_log(path: Path) -> None:
    shutil.rmtree(path / "metadata" / "node-101")


def _of_another_cluster(path: Path) -> None:
    for file in path.glob("metadata/node-*/meta.properties"):
        lines = file.read_text().splitlines()
        kept = [line for line in lines if not line.startswith("cluster.id")]
        file.write_text("\n".join([*kept, "cluster.id=another"]))


def _cut_a_majority(path: Path) -> None:
    for node in (100, 102):
        (log,) = path.glob(f"metadata/node-{node}/*.log")
        log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        (THREE, _lose_the_tail, "torn-tail"),
        (THREE, _lose_a_metadata_log, "metadata/node-101 is missing"),
        (THREE, _of_another_cluster, "not another"),
        (THREE, _cut_a_majority, "the metadata log ends at offset"),
        (COMBINED[0], _lose_the_last_batch, "committed-loss"),
    ],
)
def test_damage_to_a_real_run_is_told(
    name: str, damage: Callable[[Path], None], said: str, tmp_path: Path
):
    run = unpacked(name, tmp_path, runs=KRAFT)
    (run.path / MANIFEST).unlink()
    damage(run.path)
    RunDirectory(run.path).seal()

    results = judge(RunDirectory.open(run.path))

    assert results.safe is not True
    told = [results.unknown or "", *(finding.kind for finding in results.findings)]
    assert any(said in each for each in told), told


def test_the_last_replica_takes_with_it_what_two_others_held_unless_one_was_eligible():
    said = {name: expected_of(name, runs=KRAFT)["findings"] for name in (LAST, ELIGIBLE)}

    assert said == {LAST: ["last-replica-loss t-0 on 0, 1, 2 at 5 to 9"], ELIGIBLE: []}


@pytest.mark.parametrize("name", [ELIGIBLE, WHOLE])
def test_what_every_elected_leader_had_may_not_be_lost(name: str, tmp_path: Path):
    """In `WHOLE` a leader was elected from outside the ISR, and had it all the same."""
    run = unpacked(name, tmp_path, runs=KRAFT)
    (run.path / MANIFEST).unlink()
    for segment in run.path.glob("snapshots/final/broker-*/t-0/*.log"):
        _cut_behind(segment, 5)
    RunDirectory(run.path).seal()

    results = judge(RunDirectory.open(run.path))

    assert results.safe is False
    losses = [finding for finding in results.findings if finding.kind == "committed-loss"]
    assert losses[0].first_offset == 5
    assert "permitted-loss" not in {finding.kind for finding in results.findings}


def _cut_behind(segment: Path, end_offset: int) -> None:
    content = segment.read_bytes()
    kept = [
        batch
        for batch in read_segment(content, base_offset=0, file=segment.name).batches
        if batch.last_offset < end_offset
    ]
    segment.write_bytes(content[: kept[-1].position + kept[-1].size_bytes])


def test_an_election_of_which_nothing_shows_what_its_leader_had_excuses_all(tmp_path: Path):
    run = unpacked(CUT, tmp_path, runs=KRAFT)
    (run.path / MANIFEST).unlink()
    for log in run.path.glob("brokers/*/server.log"):
        log.write_text("")
    for cache in run.path.glob("snapshots/*/broker-*/t-0/leader-epoch-checkpoint"):
        cache.unlink()
    RunDirectory(run.path).seal()

    results = judge(RunDirectory.open(run.path))

    losses = {finding.kind for finding in results.findings if "loss" in finding.kind}
    assert losses == {"permitted-loss"}


def test_a_follower_that_lacks_what_it_acknowledged_is_found_whatever_the_checkpoint_says(
    tmp_path: Path,
):
    """The high watermark that the leader has checkpointed is behind what was acknowledged last."""
    run = unpacked("3.9.1", tmp_path, runs=KRAFT)
    (run.path / MANIFEST).unlink()
    last = run.path / "snapshots" / "final"
    shutil.rmtree(last / "broker-1")
    shutil.copytree(run.path / "snapshots" / "level" / "broker-1", last / "broker-1")
    RunDirectory(run.path).seal()

    results = judge(RunDirectory.open(run.path))

    (finding,) = results.findings
    assert (finding.kind, finding.brokers, finding.first_offset) == ("missing-tail", (1,), 5)
    assert results.safe is False


@pytest.mark.slow
def test_every_decision_of_a_stored_kraft_run_is_explained(tmp_path: Path):
    stored = [(KRAFT, name) for name in (*UNLINKED, *PREDICTED, CLEANED)] + [
        (ENTRIES, name) for name in IN_KRAFT
    ]
    kinds: Counter[str] = Counter()
    for folder, name in stored:
        evidence = RunEvidence(unpacked(name, tmp_path / name, runs=folder))
        decisions = list(quorum_decisions(evidence))
        assert [decision for decision in decisions if not decision.kind] == [], name
        kinds.update(decision.kind for decision in decisions)

    assert {*kinds} >= {"registered", "unfenced", "topic created", "fenced", "AlterPartition"}
    assert {*kinds} >= {"shutdown", "election of a fenced broker"}
    assert sum(kinds.values()) > 130


WRONG: dict[str, tuple[str, int, dict[str, Any], str]] = {
    "another leader": (ELIGIBLE, 97, {"Isr": (0,), "Leader": 0}, "Leader 2"),
    "a fenced leader": (ELIGIBLE, 97, {"Isr": (1,), "Leader": 1}, "Leader 2"),
    "a fenced member of the ISR": (ELIGIBLE, 98, {"Isr": (2, 0, 1)}, "no change"),
    "one who has left the ISR": (ELIGIBLE, 63, {"Isr": (0, 2)}, "EligibleLeaderReplicas [2]"),
    "nobody who leaves": (ELIGIBLE, 43, {"Isr": None}, "Isr [0, 2]"),
    "eligible replicas that stay": (ELIGIBLE, 97, {"EligibleLeaderReplicas": None}, "Replicas []"),
    "one who is eligible after all": (ELIGIBLE, 88, {"EligibleLeaderReplicas": (0, 2)}, "[2]"),
    "a last leader that is forgotten": (ELIGIBLE, 83, {"LastKnownElr": None}, "LastKnownElr [0]"),
    "an epoch that does not begin": ("3.3.2", 29, {"Leader": -2}, "Isr [0], Leader 0"),
    "an epoch that begins": (LINKED, 43, {"Leader": 0}, "Isr [0] (fenced)"),
    "another ISR than was asked for": (LINKED, 56, {"Isr": (1, 0)}, "Isr [0, 1]"),
    "a directory that nobody has": (LINKED, 21, {"Directories": (UNASSIGNED,) * 2}, "Directories"),
}


@pytest.mark.slow
def test_each_wrong_record_of_a_controller_is_told_at_its_place(tmp_path: Path):
    runs = {
        name: unpacked(name, tmp_path / name, runs=KRAFT).path
        for name in {*(wrong[0] for wrong in WRONG.values())}
    }
    for wrong, (name, offset, fields, expected) in WRONG.items():
        logs = {
            log: log.read_bytes() for log in runs[name].glob(f"metadata/node-*/{FIRST_SEGMENT}")
        }
        definitions = RunEvidence(RunDirectory(runs[name])).metadata_logs.definitions
        for log, content in logs.items():
            log.write_bytes(rewritten(content, definitions, offset, fields))

        found = decisions_of_controllers(RunEvidence(RunDirectory(runs[name])))
        told = [finding for finding in found if finding.kind == "decision-not-allowed"]

        assert told, wrong
        place = told[0].topic, told[0].partition, told[0].evidence["offset"]
        assert place == ("t", 0, offset), wrong
        assert expected in told[0].message, wrong
        for log, content in logs.items():
            log.write_bytes(content)


def test_a_broker_epoch_is_where_the_registering_event_begins(tmp_path: Path):
    decisions = RunEvidence(unpacked(ELIGIBLE, tmp_path, runs=KRAFT)).decisions
    registered = [timed.event for timed in decisions if isinstance(timed.event, BrokerRegistered)]
    eligible = [timed.event for timed in decisions if isinstance(timed.event, EligibleReplicas)]

    assert (registered[3].czxid, registered[3].zxid) == (88, 89)
    assert [(each.zxid, each.eligible, each.last_known) for each in eligible] == [
        (63, (2,), ()),
        (83, (0, 2), (0,)),
        (88, (2,), (0,)),
        (97, (), ()),
    ]
