"""The report of a KRaft run: registrations, fencing, elections, ISR and eligible replicas."""

import pytest

from kchaos.checkers.judge import judge
from kchaos.checkers.results import write_judgement
from kchaos.checkers.run_directory import RunDirectory
from kchaos.harness.report.page import render
from kchaos.harness.report.text import text_report
from tests.support.kraft_runs import kraft_run, kraft_snapshot


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    build = kraft_run(tmp_path_factory.mktemp("kraft") / "run")
    feature = {"Name": "eligible.leader.replicas.version", "FeatureLevel": 1}
    build.records(("FeatureLevelRecord", 0, feature))
    build.fence(1).state(0, 0, [0], EligibleLeaderReplicas=(1,))
    build.fence(1, is_fenced=False).state(1, 1, [0, 1], EligibleLeaderReplicas=())
    sealed = kraft_snapshot(build).seal()
    write_judgement(sealed, judge(sealed))
    return sealed


@pytest.mark.slow
def test_the_page_has_broker_epochs_offsets_and_eligible_replicas(run: RunDirectory):
    page = render(run)

    assert '<th scope="col">broker epoch</th>' in page
    assert '<th scope="col">offset</th>' in page
    assert '<th scope="col">eligible</th>' in page
    assert '<td>0</td><td>1</td><td class="number">9</td>' in page
    assert "czxid" not in page
    assert "zxid" not in page


def test_the_page_tells_what_the_controllers_decided(run: RunDirectory):
    page = render(run)

    for told in (
        "broker 1 is fenced",
        "broker 1 is unfenced",
        "controller 100 leads the quorum",
        "broker 0 registered, broker epoch 1",
        "t-0: eligible leaders [1]",
        "feature eligible.leader.replicas.version is at level 1",
    ):
        assert told in page


def test_the_text_has_each_brokers_registrations(run: RunDirectory):
    text = text_report(run, width=100)

    assert "broker epoch 3, fenced" in text
    assert "broker epoch 3, unfenced" in text
    assert "czxid" not in text


def test_no_prediction_is_named_where_there_is_none(run: RunDirectory):
    assert "Expected to be safe: nothing is predicted of this run." in text_report(run, width=100)
