"""Rules in Kafka's source: probes, a repository with tags, source jars, and what differs."""

import subprocess
import zipfile
from pathlib import Path

import pytest

from kchaos.checkers.errors import ModelError
from kchaos.checkers.model.releases import sources
from kchaos.checkers.model.releases.composition import generation_for, parse_protocol
from kchaos.checkers.model.releases.generation import Rule
from kchaos.checkers.model.releases.probes import Place, RuleEntry, find, read_entries
from kchaos.checkers.model.releases.ranges import RANGES
from kchaos.checkers.model.releases.rules.order import OF_RELEASES, PROPOSED
from kchaos.checkers.model.releases.sources import Found, differences, look_up, table
from kchaos.clusters.releases import KNOWN_RELEASES

ENTRIES = """
[files]
Cache = ["storage/src/main/java/kafka/Cache.java", "core/src/main/scala/kafka/Cache.scala"]

[[rule]]
name = "asks"
meaning = "It asks."
[[rule.probe]]
file = "Cache"
within = 'ask\\('
present = 'epoch'

[[rule]]
name = "does not exit"
meaning = "It lives on."
[[rule.probe]]
file = "Cache"
absent = 'exit'
"""

SCALA = """class Cache {
  def ask(a: Int,
          b: Int): Int = {
    a
  }

  def other(): Int = {
    epoch
  }
}
"""

OLD, NEW = "core/src/main/scala/kafka/Cache.scala", "storage/src/main/java/kafka/Cache.java"


@pytest.fixture
def entries(tmp_path: Path) -> tuple[RuleEntry, ...]:
    file = tmp_path / "entries.toml"
    file.write_text(ENTRIES)
    return read_entries(file)


def test_a_probe_looks_in_the_method_that_it_names_only(entries: tuple[RuleEntry, ...]) -> None:
    assert find(entries[0], {OLD: SCALA}) is None
    asking = SCALA.replace("    a\n", "    a.epoch\n")
    assert find(entries[0], {OLD: asking}) == Place(path=OLD, line=4)


def test_a_class_is_found_where_it_moved_to(entries: tuple[RuleEntry, ...]) -> None:
    java = "class Cache {\n    int ask(int a) {\n        return epoch;\n    }\n}\n"
    assert find(entries[0], {NEW: java}) == Place(path=NEW, line=3)


def test_what_must_be_absent_is_absent_from_a_file_that_exists(
    entries: tuple[RuleEntry, ...],
) -> None:
    assert find(entries[1], {OLD: SCALA}) == Place(path=OLD, line=1)
    assert find(entries[1], {OLD: SCALA + "exit"}) is None
    assert find(entries[1], {}) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("present = 'epoch'", "present = '('"),
        ("present = 'epoch'", "present = 'epoch'\nabsent = 'epoch'"),
        ("present = 'epoch'", ""),
        ('file = "Cache"', 'file = "Nothing"'),
    ],
)
def test_a_damaged_probe_is_refused(tmp_path: Path, old: str, new: str) -> None:
    file = tmp_path / "entries.toml"
    file.write_text(ENTRIES.replace(old, new, 1))
    with pytest.raises(ModelError):
        read_entries(file)


def _git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=kchaos", "-c", "user.email=kchaos@localhost"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def test_a_tag_is_read_from_git_and_what_has_none_from_the_source_jars(
    tmp_path: Path, entries: tuple[RuleEntry, ...]
) -> None:
    clone = tmp_path / "clone"
    (clone / OLD).parent.mkdir(parents=True)
    (clone / OLD).write_text(SCALA)
    _git(clone, "init", "--quiet")
    _git(clone, "add", "--all")
    _git(clone, "commit", "--quiet", "--message", "old")
    _git(clone, "tag", "3.8.0")
    jar = tmp_path / "jars/org/apache/kafka/kafka-storage/3.8.1/kafka-storage-3.8.1-sources.jar"
    jar.parent.mkdir(parents=True)
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("kafka/Cache.java", "    int ask() {\n    epoch\n    }\n")
    found = look_up(entries, clone / ".git", tmp_path / "jars")
    assert found.read_at == {"3.8.0": "tag", "3.8.1": "source jar"}
    assert found.places["asks"] == {"3.8.1": Place(path=NEW, line=2)}
    assert set(found.places["does not exit"]) == {"3.8.0", "3.8.1"}
    assert table(found).splitlines()[1].endswith("?.x??? 3.8.1")


def test_a_folder_that_is_no_repository_is_an_error(
    tmp_path: Path, entries: tuple[RuleEntry, ...]
) -> None:
    with pytest.raises(ModelError, match="git tag"):
        look_up(entries, tmp_path, None)


def test_the_command_says_what_it_could_not_read_and_ends_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sources.main([str(tmp_path)]) == 2
    assert "not a git repository" in capsys.readouterr().err


def _as_declared(release: str) -> dict[str, dict[str, Place]]:
    here = Place(path=OLD, line=1)
    return {
        name: {release: here} if release in range_.released() else {}
        for name, range_ in RANGES.items()
    }


def test_what_agrees_with_the_ranges_has_no_differences() -> None:
    assert differences(Found(read_at={"3.4.1": "tag"}, places=_as_declared("3.4.1"))) == []


def test_a_rule_that_is_declared_and_missing_or_found_and_not_declared_is_named() -> None:
    places = _as_declared("3.4.0")
    places["KAFKA-14704"] = {"3.4.0": Place(path=OLD, line=7)}
    places["KIP-101"] = {}
    places["unheard of"] = {}
    del places["KIP-279"]
    assert differences(Found(read_at={"3.4.0": "tag"}, places=places)) == [
        "KIP-279: declared, and sources.toml has no probes for it",
        "KIP-101: declared for 3.4.0, and not in its source",
        "KAFKA-14704: in 3.4.0 at Cache.scala:7, and not declared for it",
        "unheard of: has probes, and ranges.py does not declare it",
    ]


def test_every_declared_rule_has_probes_and_every_probe_can_be_read() -> None:
    assert {entry.name for entry in read_entries(sources.ENTRIES_FILE)} == set(RANGES)


@pytest.mark.parametrize("rule", OF_RELEASES, ids=lambda rule: rule.name)
def test_a_rule_of_a_release_says_releases_class_and_protocol_as_its_probes_do(rule: Rule) -> None:
    entries = {entry.name: entry for entry in read_entries(sources.ENTRIES_FILE)}
    entry = entries[rule.name]
    assert RANGES[rule.name].released() != ()
    file = rule.source.replace(".", "/")
    probed = [path for probe in entry.probes for path in probe.files]
    assert [path for path in probed if path.rpartition(".")[0].endswith(file)] != []
    assert rule.protocol == (parse_protocol(entry.protocol) if entry.protocol else None)


def test_what_only_a_document_says_is_in_no_release() -> None:
    for rule in PROPOSED:
        assert rule.name not in RANGES
        assert rule.source.startswith(("KIP-", "KAFKA-"))
        assert [one for one in KNOWN_RELEASES if rule.name in generation_for(one).rules] == []
