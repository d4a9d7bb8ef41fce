"""`kchaos versions`: releases compared, played, neither; in the cache or not."""

import json
from pathlib import Path

import pytest

from kchaos.checkers.model.releases.status import Status
from kchaos.harness.commands.cli import run
from kchaos.harness.commands.versions import Known, version_lines


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path / "cache"))


def known(release: str, *, read_at: str | None, played: bool, is_cached: bool = False) -> Known:
    return Known(
        release=release, status=Status(read_at=read_at, played=played), is_cached=is_cached
    )


def test_each_release_line_says_which_of_its_releases_are_known_how_well():
    lines = version_lines(
        [
            known("0.10.2.1", read_at=None, played=False),
            known("0.10.2.2", read_at="tag", played=True, is_cached=True),
            known("2.0.0", read_at="tag", played=False),
            known("2.0.1", read_at=None, played=True),
        ]
    )

    assert [line.split() for line in lines[1:3]] == [
        ["0.10.2", ".2", ".2", ".1", "-", ".2"],
        ["2.0", ".0", ".1", "-", "-", "-"],
    ]


def test_every_release_line_from_0_10_2_to_4_4_is_shown_in_80_columns(
    capsys: pytest.CaptureFixture[str],
):
    assert run(["versions"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    names = [line.split()[0] for line in lines[1 : lines.index("")]]
    assert (names[0], names[1], names[-1], len(names)) == ("0.10.2", "0.11.0", "4.4", 28)


def test_as_json_every_release_has_a_line_of_its_own(capsys: pytest.CaptureFixture[str]):
    assert run(["versions", "--json"]) == 0
    shown = {
        line["release"]: line for line in map(json.loads, capsys.readouterr().out.splitlines())
    }
    assert len(shown) == 76
    assert shown["0.10.2.0"] == {
        "release": "0.10.2.0",
        "compared": True,
        "read_at": "tag",
        "run": False,
        "with_kraft": False,
        "in_cache": False,
    }
    assert shown["4.0.1"]["with_kraft"] is True
    assert shown["0.11.0.3"]["read_at"] == "source jar"
    assert shown["1.1.1"]["run"] is True


def test_two_releases_differ_by_the_rules_that_only_one_of_them_has(
    capsys: pytest.CaptureFixture[str],
):
    assert run(["versions", "--from", "2.8.2", "--to", "3.9.1"]) == 0
    out = capsys.readouterr().out
    gained, lost = out.split("2.8.2 has, and 3.9.1 has not:")
    assert gained.startswith("3.9.1 has, and 2.8.2 has not:")
    assert "KAFKA-15583 (3.7.0 on)" in " ".join(gained.split())
    assert max(map(len, out.splitlines())) <= 80

    assert run(["versions", "--from", "3.9.1", "--to", "2.8.2"]) == 0
    turned = capsys.readouterr().out
    assert lost.split("Kafka's upgrade notes")[0].strip() in turned.split("3.9.1 has, and")[0]
    assert turned.endswith("what clients are promised:\n  nothing\n")

    assert run(["versions", "--from", "2.8.2", "--to", "2.8.2"]) == 0
    assert capsys.readouterr().out.count("nothing that the model knows") == 2


def test_a_fix_that_a_newer_release_lacks_is_told_apart_from_what_went_with_zookeeper(
    capsys: pytest.CaptureFixture[str],
):
    assert run(["versions", "--from", "3.9.1", "--to", "4.0.0"]) == 0
    lost = " ".join(capsys.readouterr().out.split()).split("3.9.1 has, and 4.0.0 has not: ")[1]
    fixes, gone = lost.split("and what is about ZooKeeper's controller: ")
    assert "KAFKA-18723 (3.9.1 to 3.9.2, 4.0.1 on): A follower drops" in fixes
    assert "KIP-380" not in fixes
    assert "KIP-380" in gone
    assert "4.0.0 (KIP-500): There is no ZooKeeper" in gone

    assert run(["versions", "--from", "4.0.0", "--to", "4.0.1", "--json"]) == 0
    (change,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (change["rule"], change["gained"], change["of_zookeeper"]) == (
        "KAFKA-18723",
        True,
        False,
    )


def test_notes_of_what_lies_between_two_releases_name_their_source(
    capsys: pytest.CaptureFixture[str],
):
    assert run(["versions", "--from", "2.4.1", "--to", "2.5.0", "--json"]) == 0
    objects = map(json.loads, capsys.readouterr().out.splitlines())
    (note,) = [each for each in objects if "note" in each]
    assert (note["release"], note["name"]) == ("2.5.0", "KIP-537")
    assert note["source"] == "Kafka's upgrade notes of 2.5, docs/upgrade.html at 2.6.3"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--from", "2.8.2"], "name both"), (["--from", "2.8.2", "--to", "9.0.0"], "9.0.0")],
)
def test_releases_that_cannot_be_compared_are_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
):
    assert run(["versions", *arguments]) == 64
    assert said in capsys.readouterr().err
