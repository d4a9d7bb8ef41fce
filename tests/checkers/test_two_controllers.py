"""Controllers of KRaft that go on to lead when another one was elected in their place."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kchaos.checkers import acts
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding
from kchaos.checkers.observations import Act
from kchaos.checkers.rules.two_controllers import two_controllers
from tests.support.kraft_runs import kraft_run, kraft_snapshot
from tests.support.run_builder import START

OLD, NEW = 100, 101
ELECTED = START + 1
"""When the old leader was elected, by the metadata log: the first thing of a run."""
ZONE_S = 2 * 3600
"""By so much the clock of controllers' logs is ahead."""
LEADS = "Leader(localId={node}, epoch={epoch}, epochStartOffset=1) from CandidateState(epoch=1)"
FOLLOWS = "FollowerState(fetchTimeoutMs=2000, epoch={epoch}, leaderId={node}) from Leader(epoch=1)"


def line(second: float, node: int, role: str, epoch: int) -> str:
    moment = datetime.fromtimestamp(ELECTED + ZONE_S + second, UTC)
    stamp = f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03}"
    text = role.format(node=node, epoch=epoch)
    return f"[{stamp}] INFO [RaftManager id={node}] Completed transition to {text} (Q)\n"


def found(path: Path, ends_at: float, *acts_of_old: tuple[float, acts.Act]) -> Sequence[Finding]:
    """The old leader led at 0 s, the new one at 20 s, and then the old one heard of it."""
    build = kraft_run(path)
    logs = {
        OLD: line(0, OLD, LEADS, 1) + line(ends_at, NEW, FOLLOWS, 2),
        NEW: line(20, NEW, LEADS, 2) + line(ends_at, NEW, LEADS, 2),
    }
    for node, text in logs.items():
        folder = build.run.path / "controllers" / str(node)
        folder.mkdir(parents=True)
        (folder / "server.log").write_text(text)
    for second, act in acts_of_old:
        build.observe(Act(act=act, zxid=1), 0, ELECTED + second)
    return [found for found, _ in two_controllers(RunEvidence(kraft_snapshot(build).seal()))]


def test_a_leader_that_hears_late_of_the_next_one_is_found(tmp_path: Path):
    (finding,) = found(tmp_path / "run", 60)

    assert (finding.kind, finding.brokers) == ("two-controllers", (OLD,))
    assert "epoch 1 for 40.0 s after controller 101 was elected in epoch 2" in finding.message


def test_a_leader_that_resigns_soon_is_none(tmp_path: Path):
    assert not found(tmp_path / "run", 33)


@pytest.mark.parametrize(
    "goes", [acts.PauseBroker(broker=OLD), acts.StopBroker(broker=OLD, clean=False)]
)
def test_a_leader_whose_process_did_not_run_heard_of_nothing(goes: acts.Act, tmp_path: Path):
    back = acts.ResumeBroker(broker=OLD)

    assert not found(tmp_path / "away", 60, (22, goes), (52, back))
    assert found(tmp_path / "back", 60, (22, goes), (32, back))
