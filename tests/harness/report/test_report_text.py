"""The report in a terminal."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from kchaos.checkers.observations import LeaderTold, StepBegun
from kchaos.checkers.run_directory import RunDirectory
from kchaos.harness.report import text_report
from tests.support.report_runs import DIVERGENCE, diverged, judge_as, judged, prediction_of
from tests.support.slow_reads import slow_reads_run

LONG = "x" * 300 + " https " + "word " * 60


def test_no_line_is_wider_than_asked(tmp_path: Path):
    build = diverged(tmp_path / "run", title=LONG, steps=[{"step": "Tell", "text": LONG}])
    build.observe(StepBegun(name="Tell"))
    build.produce("p" * 200, 0, ["x"], acks=1, error=LONG)
    finding = DIVERGENCE | {"message": LONG}
    run = judge_as(build.seal(), findings=[finding], unknown=LONG, crashes=[LONG], reason=LONG)

    for width in (40, 80, 132):
        lines = text_report(run, width=width).splitlines()
        # A word of the command is left whole, so that it can be copied.
        assert max(map(len, lines[: lines.index("Next")])) <= width


def test_it_says_the_same_as_the_page_in_short(tmp_path: Path):
    lines = text_report(judged(tmp_path / "run")).splitlines()

    outcome = "brokers 0 and 1 hold different records of t-0 at offsets 2 to 3"
    assert lines[:5] == ["run", outcome, "✓ conforms", "✗ unsafe", "✓ as expected"]
    assert "* divergence  t-0  brokers 0,1  offsets 2-3  in final" in lines
    assert "    as predicted: 0-1 e1 | 2-3 e2 | 4 e3" in lines
    assert "                  ^ divergence 2-3" in lines
    assert "  1 -> 0 t-0 epoch 2? end offset 4  as predicted" in lines
    assert "".join(lines[lines.index("Next") + 2 :]).split()[:2] == ["kchaos", "replay"]


def test_what_differs_from_the_prediction_has_a_star(tmp_path: Path):
    run = diverged(tmp_path / "run").seal()
    prediction = prediction_of(run)
    del prediction["snapshots"]["final"][1]["batches"][1]
    prediction["snapshots"]["final"][1]["epoch_entries"] = [[1, 0], [3, 4]]
    lines = text_report(judge_as(run, prediction=prediction)).splitlines()

    assert "    predicted:    0-1 e1 | *2-3 HOLE | 4 e3" in lines
    assert "    on disk:      0-1 e1 | *2-3 e2 | 4 e3" in lines
    assert "  t-0 broker 1 final: 1@0 2@2 3@4  * predicted 1@0 3@4" in lines


def test_a_high_watermark_that_may_be_several_is_told_in_one_line(tmp_path: Path):
    run = diverged(tmp_path / "run").seal()
    prediction = prediction_of(run)
    prediction["snapshots"]["final"][1]["high_watermarks"] = [5, 4, 2]
    lines = text_report(judge_as(run, prediction=prediction)).splitlines()

    assert "                  LEO 5, HW 5" in lines
    assert "                  LEO 5, HW 4 (predicted: 2 or 4 or 5)" in lines


def test_colour_is_only_there_when_asked_for_and_changes_no_word(tmp_path: Path):
    run = judged(tmp_path / "run")
    plain, coloured = text_report(run), text_report(run, colour=True)

    assert "\x1b" not in plain
    assert "\x1b[33;1m✗ unsafe\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain


def test_evidence_cannot_drive_the_terminal(tmp_path: Path):
    finding = DIVERGENCE | {"message": "\x1b[2Jgone\x07 日"}
    run = judge_as(diverged(tmp_path / "run").seal(), findings=[finding])

    assert "    ?[2Jgone? \\u65e5" in text_report(run).splitlines()


def test_a_run_that_was_not_judged_or_not_sealed_says_so(tmp_path: Path):
    text = " ".join(text_report(diverged(tmp_path / "run").run).split())

    assert "! This run is not sealed" in text
    assert "! Nobody has judged this run yet." in text
    assert "- conformance not judged - safety not judged - expectation not judged" in text


def test_an_unknown_run_shows_reasons_and_traceback(tmp_path: Path):
    run = judge_as(
        diverged(tmp_path / "run").seal(),
        conforms=None,
        safe=None,
        expected=False,
        unknown="broker 1 never came up",
        crashes=["Traceback:\n  KeyError: 'leader'"],
    )
    lines = text_report(run).splitlines()

    at = lines.index("Why it is unknown")
    assert lines[at + 1] == "  broker 1 never came up"
    assert "KeyError: 'leader'" in lines[at + 3]


@pytest.mark.parametrize("count", [3, 500])
def test_long_logs_are_cut_short_and_counted(tmp_path: Path, count: int):
    log = [(offset, offset, ["x"]) for offset in range(count)]
    text = text_report(diverged(tmp_path / "run", logs={0: log}).seal())

    assert "0 e0 | 1 e1 | 2 e2" in text
    assert ("(488 more)" in text) == (count == 500)


def test_it_says_by_which_release_s_rules_a_broker_is_judged(tmp_path: Path):
    build = diverged(tmp_path / "run")
    file = tmp_path / "run" / "run.json"
    brokers = {"0": {"release": "1.1.2-SNAPSHOT", "judged_as": "1.1.1"}}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"brokers": brokers}))
    lines = text_report(judge_as(build.seal())).splitlines()

    assert "  broker 0: 1.1.2-SNAPSHOT, judged as 1.1.1" in lines


def test_threads_that_were_held_at_points_are_on_the_time_line_and_many_are_cut_short(
    tmp_path: Path,
):
    build = diverged(tmp_path / "run")
    hit = {"broker": 0, "point": "log-read", "thread": "handler-3", "reader": "follower"}
    hit |= {"life": 1}
    passed = {**hit, "fate": "passed", "hold": "", "seen": "nothing", "number": 1}
    build.run.append("hits.jsonl", {"time": build.tick(), **passed})
    for number in range(2, 8):
        kept = {**hit, "fate": "delayed", "hold": "slow", "seen": "(t-0,offset=2)" + 200 * "."}
        build.run.append("hits.jsonl", {"time": build.tick(), "number": number, **kept})

    told = [line for line in text_report(judge_as(build.seal()), width=400).splitlines()]

    chosen = [line.partition("|| ")[2] for line in told if "log-read" in line]
    assert chosen == [
        "delayed at log-read by slow: broker 0, thread handler-3, reader follower, saw "
        f"(t-0,offset=2){106 * '.'}…"
    ] * 3 + ["delayed at log-read by slow: broker 0, and more of them (hits.jsonl)"]


def test_a_leader_s_look_that_finds_a_follower_behind_is_told_with_the_fetch_that_waits(
    tmp_path: Path,
):
    told = text_report(slow_reads_run(tmp_path / "run").seal(), width=400).splitlines()

    (first, second) = [line.partition("?? ")[2] for line in told if "looks who is in sync" in line]
    assert first == (
        "leader 0 looks who is in sync of t-0, where its log ends at 2: broker 1 is at 1, fetched "
        "6.0 s ago, caught up 6.0 s ago, and a fetch of it has waited here for 4.0 s"
    )
    assert "fetched 7.0 s ago" in second
    shadow = [line.strip() for line in told if line.strip().startswith(("recorded:", "solution"))]
    assert [line.partition(";")[0].partition(", ISR")[0] for line in shadow] == [
        "recorded: offline 3.0 s",
        "solution 1: offline 0.0 s",
        "solution 2, by assignment: offline 0.0 s",
        "solution 2, by ISR order: offline 0.0 s",
    ]


def test_a_run_whose_leaders_told_nothing_has_no_table_of_solutions(tmp_path: Path):
    assert "KIP-501" not in text_report(diverged(tmp_path / "run").seal())


def test_the_time_line_tells_generations_late_requests_and_what_a_client_was_told(tmp_path: Path):
    build = diverged(tmp_path / "run", steps=[{"step": "Tell", "text": "it bounces"}])
    build.observe(StepBegun(name="Tell"))
    build.close_session(0x12)
    build.register(1, 0x13)
    state = {"leader": 0, "leader_epoch": 1, "isr": [0, 1], "controller_epoch": 1}
    request = {"api": "LeaderAndIsr", "api_key": 4, "api_version": 2, "source": 0, "target": 1}
    request |= {"correlation_id": 9, "client_id": "0"}
    fields = [{"topic": "t", "partition": 0} | state]
    detail = {"controller_id": 0, "controller_epoch": 1, "broker_epoch": 4, "partitions": fields}
    refused = {"error_code": 77, "partitions": []}
    build.link(**request, wall_time_s=build.tick(), detail=detail)
    build.link(**request, wall_time_s=build.tick(), direction="response", detail=refused)
    refused_by_both = {"fetch_error_code": 6, "produce_error_code": 6}
    told = LeaderTold(
        operation="c", number=1, by=1, leader=0, brokers=(0, 1), error_code=0, **refused_by_both
    )
    build.observe(told, -1)
    text = " ".join(text_report(judge_as(build.seal())).split())

    assert re.search(r"id broker 1's registration is gone .* id broker 1 registered, czxid", text)
    assert re.search(
        r">> LeaderAndIsr v2 to broker 1, about t-0: in force is \d+ of broker 1; late \(for 4\), "
        r"STALE_BROKER_EPOCH \(77\)",
        text,
    )
    assert (
        "<- client c asks broker 1: leader 0 of brokers [0, 1]; there a read gets error 6, "
        "a write 6" in text
    )


def test_a_copy_keeps_the_name_of_its_run_and_replays_from_where_it_lies(tmp_path: Path):
    run = judged(tmp_path / "run")
    described = json.loads((run.path / "run.json").read_text())
    described |= {
        "name": "KAFKA-6361",
        "replay": "A='x y' kchaos replay --driver local 'old place/r'",
    }
    (run.path / "run.json").write_text(json.dumps(described))
    copy = tmp_path / "a copy"
    shutil.copytree(run.path, copy)

    text = text_report(RunDirectory.open(copy), width=200)

    assert text.splitlines()[0] == "KAFKA-6361"
    assert f"A='x y' kchaos replay --driver local '{copy}'" in text
    narrow = text_report(RunDirectory.open(copy), width=40)
    command = narrow.split("To run it again:\n")[1].split("\n  To ")[0]
    assert " \\\n" in command
    # A shell takes the lines for a single command; shlex keeps such ends of lines.
    words = shlex.split(command.replace("\\\n", ""))
    assert words == ["A=x y", "kchaos", "replay", "--driver", "local", str(copy)]


def test_a_question_that_repeats_is_one_line(tmp_path: Path):
    run = diverged(tmp_path / "run").seal()
    prediction = prediction_of(run)
    prediction["rounds"] += [prediction["rounds"][0] | {"requested_epoch": 7}] * 3
    lines = text_report(judge_as(run, prediction=prediction)).splitlines()

    (asked,) = (line for line in lines if "epoch 7?" in line)
    assert asked.endswith("* predicted, not seen  (3 times)")
