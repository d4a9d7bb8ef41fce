"""The sign-off of stored runs: what is counted, and what makes it green, red or unknown."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from kchaos.checkers.findings import Finding
from kchaos.checkers.judge import judge
from kchaos.checkers.results import Results, write_judgement
from kchaos.checkers.verdict import MIGRATION_NOT_FOLLOWED
from kchaos.harness.campaign.upgrade import command_of, exit_code_of_upgrade, rules_of
from kchaos.harness.upgrades.procedure import Upgrade
from kchaos.harness.upgrades.rendering import (
    bound_text,
    headline,
    html_of,
    json_of,
    markdown_of,
    reason,
    write_sign_off,
)
from kchaos.harness.upgrades.sign_off import RunOfUpgrade, SignOff, run_of
from tests.golden.stored import unpacked

# The run is judged once, by a single process.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("signed upgrade")]

UPGRADE = Upgrade(older="2.1.1", newer="2.2.2", older_release="2.1.1", newer_release="2.2.2")
LOSS = Finding(
    kind="committed-loss",
    topic="t",
    partition=1,
    brokers=(0,),
    first_offset=5,
    last_offset=9,
    message="lost <b>",
    fingerprint="abc",
)


@cache
def stored() -> Path:
    """The stored run of 2.1.1 to 2.2.2, judged."""
    run = unpacked("upgrade-2.1.1", Path(mkdtemp()))
    write_judgement(run, results())
    return run.path


@cache
def results() -> Results:
    return judge(unpacked("upgrade-2.1.1", Path(mkdtemp())))


@cache
def one_run() -> RunOfUpgrade:
    return run_of(stored(), UPGRADE)


def told(runs: Sequence[RunOfUpgrade], wanted: int | None = None) -> SignOff:
    return SignOff(
        upgrade=UPGRADE,
        command=command_of(UPGRADE, runs=1, seed=1),
        runs=runs,
        wanted=len(runs) if wanted is None else wanted,
        digests={"2.1.1": "sha256:12"},
    )


def red() -> RunOfUpgrade:
    return replace(one_run(), safe=False, findings=[LOSS], lost=5)


def test_a_run_that_went_all_the_way_is_green_and_told_phase_by_phase():
    run = one_run()
    assert (run.answer, run.unknown, run.promised, run.kept) == ("green", "", 190, 190)
    assert [phase.name for phase in run.phases] == ["before", "binaries", "protocol", "settling"]
    binaries = run.phases[1]
    assert [roll.broker for roll in binaries.rolls] == [2, 0, 1]
    assert [roll.was_controller for roll in binaries.rolls] == [False, True, False]
    assert (binaries.promised, binaries.refused, binaries.leader_moves) == (85, 1, 5)
    assert binaries.generations == {0: [118], 1: [140], 2: [92]}


def test_seconds_without_service_are_told_or_said_to_be_not_measured():
    run = one_run()
    assert [phase.without_leader_s for phase in run.phases] == [0.0, 0.0, 0.0, 0.0]
    # No link stood in front of its brokers.
    assert [phase.without_write_s for phase in run.phases] == [None] * 4
    silent = run_of(unpacked("upgrade-2.1.1", Path(mkdtemp())).path, UPGRADE)
    assert [phase.without_leader_s for phase in silent.phases] == [None] * 4


def test_after_each_roll_it_is_told_what_every_broker_runs_and_speaks():
    rolls = [roll for phase in one_run().phases for roll in phase.rolls]
    seen = [[(at.release, at.protocol) for _, at in sorted(roll.brokers.items())] for roll in rolls]
    old, pinned, new = ("2.1.1", "2.1"), ("2.2.2", "2.1"), ("2.2.2", "2.2")
    assert seen == [
        [old, old, pinned],
        [pinned, old, pinned],
        [pinned, pinned, pinned],
        [new, pinned, pinned],
        [new, new, pinned],
        [new, new, new],
    ]


def test_the_generation_of_every_broker_is_told_after_each_roll():
    rolls = [roll for phase in one_run().phases for roll in phase.rolls]
    seen = [[at.czxid for _, at in sorted(roll.brokers.items())] for roll in rolls]
    assert None not in {czxid for row in seen for czxid in row}
    for before, after, roll in zip(seen, seen[1:], rolls[1:], strict=False):
        changed = [broker for broker in range(3) if before[broker] != after[broker]]
        # Nothing but the rolls ended a process or a session in this run.
        assert changed == [roll.broker]


def test_the_worst_run_stands_first_with_what_led_to_it(tmp_path: Path):
    lost = replace(red(), name="the-red-one", cause=("Broker 0 lost <it>.",))
    unknown = replace(one_run(), name="the-unknown-one", conforms=None, unknown="who knows")
    whole = told([replace(one_run(), name="the-green-one"), unknown, lost])
    for text in (html_of(whole, tmp_path), markdown_of(whole, tmp_path)):
        places = [text.index(f"the-{answer}-one") for answer in ("red", "unknown", "green")]
        assert places == sorted(places)
        assert "Broker 0 lost" in text
        assert "<it>" not in text
    assert json_of(whole)["runs"][2]["cause"] == ["Broker 0 lost <it>."]
    assert one_run().cause == ()


def test_the_reason_counts_runs_and_says_why_nothing_is_known():
    unknown = replace(one_run(), safe=None, conforms=None, unknown="who knows")
    assert reason(told([red()])) == "The one run is red, by committed-loss."
    assert reason(told([one_run(), red()])) == "1 of 2 runs is red, by committed-loss."
    said = reason(told([unknown]))
    assert said == "The one run is unknown, so nobody can say: who knows."
    assert reason(told([unknown, unknown, one_run()])).startswith("2 of 3 runs are unknown")
    page = html_of(told([unknown]), stored().parent)
    assert "190 records were promised; how many are kept is unknown" in page


@pytest.mark.parametrize(
    "other", [replace(UPGRADE, newer="2.3.1", newer_release="2.3.1"), replace(UPGRADE, back=True)]
)
def test_a_run_of_another_upgrade_signs_nothing_off(other: Upgrade):
    run = run_of(stored(), other)
    assert (run.answer, run.unknown) == ("unknown", f"it is no run of {other.pair}")


def test_a_run_that_nobody_judged_is_unknown(tmp_path: Path):
    run = run_of(unpacked("upgrade-2.1.1", tmp_path).path, UPGRADE)
    assert (run.answer, run.kept) == ("unknown", None)
    assert "nobody judged it" in run.unknown


def test_a_run_in_which_a_broker_was_not_rolled_is_unknown(tmp_path: Path):
    path = shutil.copytree(stored(), tmp_path / "run")
    file = path / "observations.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if '"name":"protocol-1"' not in line))
    run = run_of(path, UPGRADE)
    said = "in the phase protocol the brokers [1] were not rolled"
    assert (run.answer, run.unknown) == ("unknown", said)


def test_a_phase_in_which_nothing_was_promised_shows_nothing(tmp_path: Path):
    path = shutil.copytree(stored(), tmp_path / "run")
    named = [f'"operation":"w{number}-' for number in range(8, 14)]
    for name in ("history.jsonl", "actions.jsonl"):
        lines = (path / name).read_text().splitlines(keepends=True)
        left = [line for line in lines if not any(operation in line for operation in named)]
        (path / name).write_text("".join(left))
    run = run_of(path, UPGRADE)
    said = "nothing was promised to a client in the phase protocol"
    assert (run.answer, run.unknown) == ("unknown", said)


@pytest.mark.parametrize(
    ("conforms", "kinds"),
    [(False, ["committed-loss", "not-as-predicted"]), (None, ["committed-loss"])],
)
def test_what_a_model_that_gave_up_did_not_predict_is_no_finding(
    tmp_path: Path, conforms: bool | None, kinds: list[str]
):
    run = unpacked("upgrade-2.1.1", tmp_path)
    unlike = replace(LOSS, kind="not-as-predicted", message="predicted was nothing")
    judged = replace(results(), conforms=conforms, unknown="it gave up", findings=(LOSS, unlike))
    write_judgement(run, judged)
    assert [finding.kind for finding in run_of(run.path, UPGRADE).findings] == kinds


def test_one_red_run_makes_the_whole_red_and_an_unknown_one_is_no_pass():
    unknown = replace(one_run(), conforms=None, unknown="who knows")
    assert told([one_run(), red(), unknown]).answer == "red"
    assert told([one_run(), unknown]).answer == "unknown"
    assert told([one_run(), one_run()]).answer == "green"
    assert told([]).answer == "unknown"
    assert told([one_run()], wanted=2).answer == "unknown"
    assert "1 of 2 runs are missing" in reason(told([one_run()], wanted=2))


def test_what_is_lost_is_not_kept():
    assert red().kept == 185
    assert replace(red(), safe=None).kept is None


def test_the_page_the_markdown_and_the_json_say_the_same():
    folder = stored().parent / "page"
    whole = told([one_run(), red()])
    html, markdown, data = html_of(whole, folder), markdown_of(whole, folder), json_of(whole)
    for text in (html, markdown):
        for said in ("2.1.1 to 2.2.2", "committed-loss", "not measured", "abc", "185"):
            assert said in text, said
        assert "<b>" not in text
    assert (data["answer"], data["runs"][1]["kept"]) == ("red", 185)
    assert headline(whole) in html
    assert 'src="' not in html
    assert json.loads(json.dumps(data)) == json.loads(json.dumps(data))


def test_green_runs_bound_what_may_go_wrong_and_the_page_says_what_is_not_covered(tmp_path: Path):
    assert "At most 14 % of such upgrades" in bound_text(20)
    assert "At most 95 % of such upgrades" in bound_text(1)
    green = told([one_run()])
    html, markdown = html_of(green, tmp_path), markdown_of(green, tmp_path)
    for text in (html, markdown):
        assert "At most 95 % of such upgrades go wrong" in text
        assert "Transactions, consumer groups and share groups" in text
        assert "min.insync.replicas" in text
    assert '<h2 id="signed">' in html
    assert "kchaos shrink" not in html
    assert "kchaos shrink" in html_of(told([red()]), tmp_path)


def test_every_row_of_a_table_in_markdown_has_a_cell_for_each_column(tmp_path: Path):
    tables = [
        block.splitlines()
        for block in markdown_of(told([one_run(), red()]), tmp_path).split("\n\n")
        if block.startswith("| ")
    ]
    assert len(tables) == 4
    for table in tables:
        assert len({line.count("|") for line in table}) == 1, table


@pytest.mark.parametrize(
    ("stepped", "said"),
    [
        (False, "Clients wrote 5 records a second, and read, without a pause"),
        (True, "Clients wrote between the rolls alone (--stepped)."),
    ],
)
def test_the_page_says_what_clients_did(said: str, tmp_path: Path, *, stepped: bool):
    upgrade = replace(UPGRADE, stepped=stepped)
    page, markdown, data = write_sign_off(SignOff(upgrade=upgrade, runs=[], wanted=1), tmp_path)
    assert said in page.read_text()
    assert said in markdown.read_text()
    assert json.loads(data.read_text())["clients"].startswith(said)


def test_three_files_are_written(tmp_path: Path):
    files = write_sign_off(told([one_run()]), tmp_path)
    assert [file.name for file in files] == ["sign-off.html", "sign-off.md", "sign-off.json"]
    assert json.loads(files[2].read_text())["answer"] == "green"


def test_rules_that_the_newer_release_lacks_are_told():
    gained, missing = rules_of(UPGRADE)
    assert any(rule.startswith("KIP-380") for rule in gained)
    assert missing == []
    assert rules_of(replace(UPGRADE, newer_release="4.9.0")) == ([], [])


def test_a_run_that_is_safe_and_never_judged_otherwise_is_safe_and_not_green():
    run = replace(one_run(), conforms=None, not_judged=MIGRATION_NOT_FOLLOWED)
    assert (run.answer, told([run]).answer, exit_code_of_upgrade(told([run]))) == (
        "safe",
        "safe",
        0,
    )
    assert "stands on safety alone: conformance is unknown" in reason(told([run]))
    assert "safe; conformance not judged" in html_of(told([run]), Path("/"))
    assert (replace(run, unknown="no rolls").answer, replace(run, safe=False).answer) == (
        "unknown",
        "red",
    )
    assert told([run, red()]).answer == "red"
