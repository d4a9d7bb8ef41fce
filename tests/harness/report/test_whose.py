"""Whose an unsafe run is, which known bugs are decided alike, and the commands that come next."""

import re
from pathlib import Path

import pytest

from kchaos.checkers.model.releases.versions import parse_version
from kchaos.checkers.run_directory import RunDirectory
from kchaos.harness import similar_bugs
from kchaos.harness.catalogue import CATALOGUE
from kchaos.harness.commands.cli import run as kchaos
from kchaos.harness.report import text_report
from kchaos.harness.report.answers import held
from kchaos.harness.report.loading import load
from kchaos.harness.report.page import render
from kchaos.harness.report.sections import sections_of
from kchaos.harness.report.whose import last_words, next_commands, whose
from kchaos.harness.similar_bugs import DECISIVE, gone_in
from tests.golden.stored import BORDERS, ENTRIES, unpacked
from tests.support.report_runs import DIVERGENCE, diverged, judge_as, prediction_of


def unsafe(folder: Path, **answers: bool | None) -> RunDirectory:
    run = diverged(folder / "run").seal()
    return judge_as(run, findings=[DIVERGENCE], prediction=prediction_of(run), **answers)


@pytest.mark.parametrize(
    ("conforms", "sentence"),
    [
        (True, "Kafka's own: Kafka 1.1.1 does this by its rules"),
        (False, "Not by the rules of Kafka 1.1.1"),
        (None, "Whether Kafka 1.1.1 does this by its rules is unknown"),
    ],
)
def test_an_unsafe_run_says_whose_it_is(conforms: bool | None, sentence: str, tmp_path: Path):
    run = unsafe(tmp_path, conforms=conforms)
    assert sentence in whose(load(run))
    assert sentence in " ".join(text_report(run).split())
    assert sentence.replace("'", "&#39;") in render(run)


def test_known_bugs_of_the_release_line_with_that_finding_and_fact_are_named(tmp_path: Path):
    run = unsafe(tmp_path)
    (section,) = (each for each in sections_of(load(run)) if each.name == "alike")
    assert "KIP-279-3 (gone in 2.0.1)" in [row.text for row in section.rows]
    assert "KAFKA-6361" not in [row.group for row in section.rows]
    assert "KIP-279-3 (gone in 2.0.1)" in render(run)
    commands = {purpose: command for command, purpose in next_commands(load(run))}
    assert commands["list known bugs that end so"] == "kchaos list divergence"
    assert commands["make one small file to attach"] == f"kchaos pack {run.path}"


@pytest.mark.parametrize(
    ("release", "is_named"), [("1.1.1", True), ("2.1.1", True), ("2.2.2", False), ("2.8.2", False)]
)
def test_a_bug_is_named_on_releases_before_the_first_that_shows_it_but_not_after(
    release: str, is_named: bool
):
    entry = CATALOGUE["KIP-380-missed-bounce"]
    kinds = {"generation-not-initialised"}
    assert similar_bugs._is_red(entry, parse_version(release)[:2], kinds) == is_named


@pytest.mark.slow
def test_a_bug_that_ends_alike_for_another_reason_is_not_named(tmp_path: Path):
    """Of KAFKA-14010, on the same line, a leader's request for an ISR decides."""
    run = unpacked("recreated-3.0.2", tmp_path, runs=BORDERS)
    stopped = DIVERGENCE | {"kind": "replication-stopped", "brokers": [1], "first_offset": -1}
    loaded = load(judge_as(run, findings=[stopped]))
    kinds = {
        each[0] for each in CATALOGUE["KAFKA-14010"].expectations["session-ends", "3.0.2"].findings
    }
    assert kinds == {"replication-stopped"}
    assert [each.name for each in sections_of(loaded) if each.name == "alike"] == []


def test_the_decisive_fact_of_each_stored_entry_is_recognised():
    assert DECISIVE.keys() <= CATALOGUE.keys()
    for cause in ENTRIES.glob("*/cause.txt"):
        _, _, fact = cause.read_text().partition("decisive: ")
        name = cause.parent.name
        # Of an election alone no bug is recognised.
        if name in DECISIVE:
            assert re.search(DECISIVE[name], fact.partition("\n")[0]), name
        else:
            assert "was elected leader" in fact or not fact, name


def test_a_run_that_conforms_says_which_rule_of_which_release_would_have_spared_it(tmp_path: Path):
    run = diverged(tmp_path / "run").seal()
    names = ("topic", "partition", "brokers", "first_offset", "last_offset")
    since = {name: DIVERGENCE[name] for name in names} | {"step": "", "time": None}
    since |= {"spared_in": "2.0.0", "spared_by": ["KIP-279"]}
    prediction = prediction_of(run) | {"unavoidable": [since]}
    judge_as(run, findings=[DIVERGENCE], prediction=prediction, conforms=True)
    sentence = (
        "By the rules of Kafka 2.0.0 this schedule ends without that harm. KIP-279 decides it."
    )
    assert sentence in " ".join(text_report(run).split())
    said, commands = last_words([None, str(tmp_path), str(run.path)])
    assert sentence in said
    assert commands.startswith("next: kchaos replay ")
    judge_as(run, findings=[DIVERGENCE], prediction=prediction, conforms=None)
    assert sentence not in text_report(run)


def test_a_bug_is_gone_only_after_the_last_release_that_shows_it():
    # 2.0.0 has a case that is green beside one that is red, and so has 3.9.1.
    names = ("KIP-279-3", "KAFKA-12315", "KAFKA-9144")
    gone = {name: gone_in(CATALOGUE[name]) for name in names}
    assert gone == {"KIP-279-3": "2.0.1", "KAFKA-12315": "", "KAFKA-9144": "2.5.1"}


def test_a_safe_run_is_nobody_s_and_resembles_none(tmp_path: Path):
    loaded = load(unsafe(tmp_path, safe=True))
    assert whose(loaded) == ""
    assert [each for each in sections_of(loaded) if each.name == "alike"] == []
    assert [purpose for _, purpose in next_commands(loaded)] == ["run it again"]


def test_the_comment_for_a_ticket_has_outcome_cause_and_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run = unsafe(tmp_path)
    assert kchaos(["report", "--jira", str(run.path)]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.startswith("h3. ")
    assert "brokers 0 and 1 hold different records of t-0" in heading
    assert lines[-3:] == [
        "{noformat}",
        "kchaos unpack run.tar.xz && kchaos replay run",
        "{noformat}",
    ]
    assert len(lines) < 15
    assert any(line.endswith("*This decided it.*") for line in lines)
    assert kchaos(["report", "--jira", "--text", str(run.path)]) == 64


def test_a_page_has_the_kinds_that_were_looked_for_and_not_found(tmp_path: Path):
    names = [kind.name for kind in held(load(unsafe(tmp_path, conforms=None)))]
    assert "committed-loss" in names
    assert {"divergence", "tier-orphan", "fenced-leader", "not-as-predicted"} & {*names} == set()
    text = f"Looked for and not found: {len(names)} kinds of findings"
    run = RunDirectory.open(tmp_path / "run")
    assert text in render(run)
    assert text in text_report(run)
    assert held(load(judge_as(run, safe=None, conforms=None))) == ()
