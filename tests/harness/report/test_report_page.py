"""The HTML page: what it says, and that it stands on its own."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import kchaos as k
from kchaos.checkers.acts import PreferredElection
from kchaos.checkers.observations import Act, GaveUp, Healed, ReassignedAgain, StepBegun
from kchaos.checkers.results import write_judgement
from kchaos.harness.report import render
from tests.support.kafka_6361_runs import kafka_6361
from tests.support.report_runs import (
    A_AGAIN,
    A_ONLY,
    B_ONLY,
    BOTH,
    DIVERGENCE,
    Page,
    diverged,
    injected,
    judge_as,
    judged,
    prediction_of,
)

SECTIONS = ("findings", "time", "replicas", "caches", "rounds", "brokers", "next")
EVIL = "<script>alert('x')</script>&\"'"


def an_unknown_run(path: Path) -> k.RunDirectory:
    build = diverged(path)
    build.observe(GaveUp(reason="the gate timed out"), -1)
    run = build.seal(finished=False, unknown="step 3: broker 1 never followed")
    crash = "Traceback (most recent call last):\n  File x, line 1\nKeyError: 'leader'\n"
    return judge_as(
        run,
        conforms=None,
        safe=None,
        expected=False,
        unknown="the model failed: KeyError('leader')",
        crashes=[crash],
    )


def an_unsealed_run(path: Path) -> k.RunDirectory:
    return diverged(path).run


def an_unjudged_run(path: Path) -> k.RunDirectory:
    return diverged(path).seal()


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of the judged run."""
    return render(judged(tmp_path_factory.mktemp("judged") / "run"))


@pytest.mark.parametrize("make", [judged, an_unknown_run, an_unsealed_run, an_unjudged_run])
def test_every_page_is_well_formed_and_has_every_section(tmp_path: Path, make: Any):
    page = Page(render(make(tmp_path / "run")))

    assert page.problems == []
    assert len(page.ids) == len(set(page.ids))
    assert set(SECTIONS) <= set(page.ids)
    targets = [attrs["href"] for tag, attrs in page.tags if tag == "a"]
    also = {"expected", "alike"} & {*page.ids}
    assert {f"#{section}" for section in {*SECTIONS, *also}} == set(targets)


def test_a_reassignment_that_was_asked_for_again_is_told(tmp_path: Path):
    build = diverged(tmp_path / "run")
    assert "the reassignment of t-0 was lost" not in render(build.run)
    build.observe(ReassignedAgain(topic="t", partition=0, replicas=(1, 0)), -1)
    assert "the reassignment of t-0 was lost, and is requested again" in render(build.run)


def test_what_a_step_of_somebodys_own_noted_stands_in_the_time_line(tmp_path: Path):
    build = diverged(tmp_path / "run")
    build.observe(k.Noted(kind="moved", fields={"broker": 0, "to": "data-1"}), -1)
    assert "moved (broker=0, to=data-1)" in render(build.run)


def test_the_page_refers_to_nothing_outside_itself(html: str):
    assert not re.search(r"https?:|//[a-z]|@import|<link|<iframe|<img", html)
    assert set(re.findall(r"url\(([^)]*)\)", html)) <= {"#hatching", "#hole-hatching"}
    assert not [attrs for _, attrs in Page(html).tags if "src" in attrs]
    assert "default-src 'none'" in html


def test_the_title_names_the_run_and_the_verdict(tmp_path: Path):
    html = render(judged(tmp_path / "run-17"))

    title = re.search(r"<title>(.*?)</title>", html)
    assert title is not None
    assert title[1] == "run-17: conforms, unsafe; as expected"


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ({"conforms": True, "safe": True}, ["conforms", "safe", "as expected"]),
        ({"conforms": False, "expected": False}, ["does not conform", "unsafe", "not expected"]),
        (
            {"conforms": None, "safe": True, "expected": False},
            ["conformance unknown", "safe", "not expected"],
        ),
    ],
)
def test_each_answer_is_said_in_words_and_by_a_sign(
    tmp_path: Path, results: dict[str, Any], words: list[str]
):
    run = judge_as(diverged(tmp_path / "run").seal(), **results)

    seen = re.findall(
        r'class="symbol" aria-hidden="true">(.)</span><span><strong>(.*?)</strong>', render(run)
    )

    signs = {"conforms": "✓", "safe": "✓", "as expected": "✓", "conformance unknown": "?"}
    assert seen == [(signs.get(word, "✗"), word) for word in words]


def test_a_divergence_shows_the_header_bytes_of_both_sides(html: str):
    page = Page(html)

    assert DIVERGENCE["message"] in page.text
    assert "00 00 00 01" in page.text
    assert "00 00 00 02" in page.text
    assert html.count('<tr class="differs">') == 8  # epoch, CRC and times, on each side
    assert page.text.count("partitionLeaderEpoch ≠ differs:") == 2
    assert "broker 0, on disk: 00000000000000000000.log, byte 87" in page.text


def test_what_differs_from_the_prediction_is_hatched_on_both_lanes(tmp_path: Path):
    run = diverged(tmp_path / "run").seal()
    prediction = prediction_of(run)
    prediction["snapshots"]["final"][1]["batches"][1]["leader_epoch"] = 1
    prediction["snapshots"]["final"][1]["epoch_entries"] = [[1, 0], [3, 4]]
    html = render(judge_as(run, prediction=prediction))

    titles = re.findall(r'<g class="box (\S+) differs"><title>(.*?)</title>', html)
    assert titles == [
        ("e1", "offsets 2-3, leader epoch 1; the other side does not have the same"),
        ("e2", "offsets 2-3, leader epoch 2; the other side does not have the same"),
    ]
    assert html.count('class="difference"') == 2
    assert html.count('<tr class="differs">') == 1  # the epoch cache's entry 2


def test_nothing_is_hatched_where_prediction_and_disk_agree(html: str):
    page = Page(html)

    assert page.with_class("box", "e2")
    assert page.with_class("difference") == []


def test_a_hole_is_drawn_and_named(tmp_path: Path):
    run = diverged(tmp_path / "run", logs={0: [BOTH, B_ONLY, A_AGAIN], 1: [BOTH, A_AGAIN]}).seal()
    hole = DIVERGENCE | {"kind": "hole", "brokers": [1]}
    page = Page(render(judge_as(run, findings=[hole])))

    assert len(page.with_class("box", "hole")) == 1
    assert "offsets 2-3, hole: no batch" in page.text
    assert "no batch holds 2-3; this is the next one" in page.text


def test_what_a_run_says_never_becomes_markup(tmp_path: Path):
    build = diverged(tmp_path / "run", title=EVIL, steps=[{"step": "Tell", "text": EVIL}])
    build.observe(StepBegun(name="Tell"))
    build.produce(EVIL, 0, [EVIL], acks=1, error=EVIL)
    finding = DIVERGENCE | {"message": EVIL, "evidence": {EVIL: EVIL}}
    run = judge_as(build.seal(), findings=[finding], unknown=EVIL, reason=EVIL)
    html = render(run)

    assert EVIL not in html
    assert html.count("<script") == 1
    assert Page(html).problems == []
    assert Page(html).text.count("<script>alert('x')</script>") >= 6


def test_an_unknown_run_says_why_before_everything_else(tmp_path: Path):
    page = Page(render(an_unknown_run(tmp_path / "run")))

    why, findings = page.text.index("Why it is unknown"), page.text.index("Findings None.")
    for reason in ("the model failed", "step 3: broker 1 never followed", "KeyError: 'leader'"):
        assert why < page.text.index(reason, why) < findings


def test_an_unsealed_run_is_no_verdict(tmp_path: Path):
    page = Page(render(an_unsealed_run(tmp_path / "run")))

    assert "This run is not sealed" in page.text
    assert "not judged" in page.text


def test_a_run_that_was_killed_at_once_still_has_a_page(tmp_path: Path):
    path = tmp_path / "run"
    path.mkdir()
    (path / "run.json").write_text('{"format": 3}')
    page = Page(render(k.RunDirectory.open(path)))

    assert page.problems == []
    assert "This run is not sealed" in page.text
    assert "No snapshot was taken." in page.text


def test_a_run_without_a_judgement_says_how_to_judge_it(tmp_path: Path):
    page = Page(render(an_unjudged_run(tmp_path / "run")))

    assert "Nobody has judged this run yet." in page.text
    assert "kchaos judge run" in page.text
    assert page.with_class("box", "e2")


def test_a_judgement_that_is_not_there_is_a_usage_error(tmp_path: Path):
    run = judged(tmp_path / "run")

    with pytest.raises(k.UsageError, match="no judgement '0009'; it has: 0001"):
        render(run, "0009")


def test_an_earlier_judgement_can_be_shown(tmp_path: Path):
    run = judge_as(judged(tmp_path / "run"), conforms=False, expected=False)

    assert "does not conform, unsafe; not expected" in render(run)
    assert "conforms, unsafe; as expected" in render(run, "0001")


def test_a_fault_is_drawn_from_injection_to_healing(html: str):
    page = Page(html)

    assert len(page.with_class("bar", "fault")) == 1
    row = re.search(r'<tr class="produce-row "[^>]*><td .*?</tr>', html[html.index("fault A-B") :])
    assert row is not None
    assert "A-B acts" in row[0]
    assert "healed A-B" in page.text


def test_a_fault_that_comes_back_under_its_name_keeps_its_column(tmp_path: Path):
    build = diverged(tmp_path / "run")
    build.observe(injected("A-B", "CutLink"), -1)
    build.observe(Healed(name="A-B"), -1)
    page = Page(render(judge_as(build.seal())))

    assert len(page.with_class("fault-column")) == 1
    assert len(page.with_class("bar", "fault")) == 2


def test_a_fault_that_was_never_healed_stays_open(tmp_path: Path):
    build = diverged(tmp_path / "run")
    build.observe(injected("forgotten", "PauseBroker"), -1)
    page = Page(render(judge_as(build.seal(finished=False, unknown="step 3: no answer"))))

    assert len(page.with_class("fault", "open")) == 1
    assert "never healed" in page.text


def test_a_fault_that_leaves_nothing_to_heal_is_a_moment(tmp_path: Path):
    build = diverged(tmp_path / "run")
    build.observe(Act(act=PreferredElection(topic="t", partition=0), zxid=build.zxid), 9)
    build.state(0, 4, [0])
    build.observe(injected("elect", "PreferredElection", lasting=False), 9)
    build.produce("later", 0, ["x"], acks=1, base_offset=5)
    page = Page(render(judge_as(build.seal())))

    assert page.with_class("fault", "open") == []
    assert "nothing to heal" in page.text
    # The decision that it caused, written before its effect was seen, and the fault itself.
    assert page.text.count("elect acts") == 2


def test_questions_for_epochs_stand_beside_the_predicted_ones(tmp_path: Path):
    run = diverged(tmp_path / "run").seal()
    prediction = prediction_of(run)
    prediction["rounds"].append(prediction["rounds"][0] | {"requested_epoch": 7})
    text = Page(render(judge_as(run, prediction=prediction))).text

    assert re.search(r"1 → 0 t-0 2 . 4 ✓ answered ✓ predicted", text)
    assert re.search(r"1 → 0 t-0 7 . 4 ✗ not seen ✓ predicted", text)


def test_every_registration_is_listed_with_its_czxid_and_session(html: str):
    text = Page(html).text

    assert re.search(r"1 -?[\d.]+ 2 . . registered 1 [\d.]+ not registered . . registration", text)
    assert re.search(r"0x12 77 registered", text)


def test_what_a_consumer_read_is_a_moment_and_a_read_that_got_nothing_another(tmp_path: Path):
    build = diverged(tmp_path / "run")
    asked = {"function": "read", "broker": 0, "topic": "t", "partition": 0}
    for operation in ("seen", "late"):
        build.history(operation, "invoke", **asked)
    build.history("seen", "ok", **asked, records=["x", "y"], base_offset=3, promised=True)
    build.history("late", "fail", **asked, error="waited 2 s")
    page = Page(render(judge_as(build.seal())))

    assert "consumer read seen from broker 0: offsets 3-4" in page.text
    assert "consumer read late from broker 0: waited 2 s" in page.text
    assert len(page.with_class("read-row")) == 2


def test_a_refused_write_is_told_from_an_acknowledged_one(html: str):
    text = Page(html).text

    assert "a-only broker 0, t-0 2 1 ✓ ok offsets 2-3 offsets 2-3" in text
    assert "refused broker 1, t-0 1 all ✗ refused NotLeaderForPartition" in text


@pytest.mark.slow
def test_thousands_of_batches_are_joined_and_the_page_says_so(tmp_path: Path):
    many = [(offset, 1 + offset // 4000, ["x"]) for offset in range(6000)]
    run = diverged(tmp_path / "run", logs={0: many, 1: many[:5000]}).seal()
    html = render(judge_as(run))

    assert "6000 batches, joined as 2 stretches" in html
    assert "offsets 0-3999, leader epoch 1, 4000 batches" in html
    assert len(html) < 300_000


def test_findings_of_one_kind_about_the_same_brokers_are_one_card(tmp_path: Path):
    run = diverged(tmp_path / "run").seal()
    again = DIVERGENCE | {"snapshot": "level", "message": "it differs there too"}
    other = DIVERGENCE | {"brokers": [1]}
    page = Page(render(judge_as(run, findings=[DIVERGENCE, again, other])))

    assert len(page.with_class("finding", "safety")) == 2
    assert "The same once more t-0 offsets 2-3 in snapshot level: it differs" in page.text


def test_a_snapshot_that_is_as_predicted_is_folded_and_a_finding_outlined(tmp_path: Path):
    plain = Page(render(judge_as(run_of_equals(tmp_path / "equal"), safe=True)))
    assert plain.with_class("folded") == []  # Nothing predicts it, so that it is shown.

    run = run_of_equals(tmp_path / "predicted")
    predicted = Page(render(judge_as(run, safe=True, prediction=prediction_of(run))))
    assert "every replica holds the same, offsets 0 to 4, as predicted" in predicted.text
    assert len(predicted.with_class("folded")) == 1
    assert predicted.with_class("outline") == []

    differing = Page(render(judged(tmp_path / "run")))
    assert differing.with_class("folded") == []
    assert len(differing.with_class("outline")) == 2  # On both replicas.


def run_of_equals(path: Path) -> k.RunDirectory:
    return diverged(path, logs={broker: [BOTH, A_ONLY, A_AGAIN] for broker in (0, 1)}).seal()


def test_many_findings_are_cut_short_and_counted(tmp_path: Path):
    run = judge_as(diverged(tmp_path / "run").seal(), findings=[DIVERGENCE] * 310)

    assert "10 more findings are in the judgement's findings.jsonl" in Page(render(run)).text


def test_a_damaged_zookeeper_log_is_said_and_stops_nothing(tmp_path: Path):
    build = diverged(tmp_path / "run")
    build.transactions[2] = b"\xff" * len(build.transactions[2])
    page = Page(render(judge_as(build.seal())))

    assert "Decisions are missing" in page.text
    assert page.with_class("box", "e2")


def test_the_replay_command_can_be_copied(tmp_path: Path):
    html = render(judged(tmp_path / "run"))

    assert '<pre class="command" tabindex="0" aria-label="To run it again">' in html
    assert f"kchaos replay {tmp_path / 'run'}</pre>" in html


def test_what_the_judge_writes_can_be_shown(tmp_path: Path):
    run = kafka_6361(tmp_path / "run", "n20", "1.1.1")
    write_judgement(run, k.judge(run))
    page = Page(render(run))

    assert page.problems == []
    assert "divergence" in page.text
    results = json.loads((run.path / "judgements/0001/results.json").read_text())
    assert results["safe"] is False
    assert len(page.with_class("verdict", "safe", "no")) == 1


def test_a_judged_run_that_lost_its_seal_has_no_verdict(tmp_path: Path):
    run = judged(tmp_path / "run")
    (run.path / "manifest.json").unlink()
    page = Page(render(run))

    assert "This run has not ended: nothing is known" in page.text
    assert len(page.with_class("verdict", "unknown")) == 3
    assert not page.with_class("verdict", "yes")
    assert not page.with_class("verdict", "no")


def test_the_source_of_an_expectation_is_plain_text(tmp_path: Path):
    expectation = {"safe": False, "source": "found by `kchaos x`"}
    run = diverged(tmp_path / "run", expectation=expectation).seal()
    page = Page(render(judge_as(run, expectation_from="scenario")))

    assert "Expected by the scenario (found by kchaos x)." in page.text
