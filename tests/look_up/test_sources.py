"""Rules in Kafka's source: probes, a repository with tags, source jars, and what differs."""

import subprocess
import zipfile
from pathlib import Path

import pytest

from kchaos.checkers.errors import ModelError
from kchaos.checkers.model.releases.every_rule import EVERY_RULE, RANGES
from kchaos.checkers.model.releases.rule import Rule
from tests.look_up import probes, sources
from tests.look_up.probes import PROBES, Probe, SourceLine, find
from tests.look_up.sources import SourcesRead, differences, look_up, table

CACHE = ("storage/src/main/java/kafka/Cache.java", "core/src/main/scala/kafka/Cache.scala")
NEW, OLD = CACHE

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

ASKS = {"file": "Cache", "within": r"ask\(", "present": "epoch"}
LIVES_ON = {"file": "Cache", "absent": "exit"}


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> tuple[Rule, ...]:
    monkeypatch.setattr(probes, "KAFKA_FILES", {"Cache": CACHE})
    for name, probe in (("asks", ASKS), ("does not exit", LIVES_ON)):
        monkeypatch.setitem(PROBES, name, (Probe(**probe),))
    return rule("asks"), rule("does not exit")


def rule(name: str) -> Rule:
    return Rule(name=name, since=("3.8.0",), source="kafka.Cache, 3.8.0", meaning="It does.")


def test_a_probe_looks_in_the_method_that_it_names_only(rules: tuple[Rule, ...]):
    assert find(PROBES["asks"], {OLD: SCALA}) is None
    asking = SCALA.replace("    a\n", "    a.epoch\n")
    assert find(PROBES["asks"], {OLD: asking}) == SourceLine(path=OLD, line=4)


def test_a_class_is_found_where_it_moved_to(rules: tuple[Rule, ...]):
    java = "class Cache {\n    int ask(int a) {\n        return epoch;\n    }\n}\n"
    assert find(PROBES["asks"], {NEW: java}) == SourceLine(path=NEW, line=3)


def test_what_must_be_absent_is_absent_from_a_file_that_exists(rules: tuple[Rule, ...]):
    assert find(PROBES["does not exit"], {OLD: SCALA}) == SourceLine(path=OLD, line=1)
    assert find(PROBES["does not exit"], {OLD: SCALA + "exit"}) is None
    assert find(PROBES["does not exit"], {}) is None


@pytest.mark.parametrize(
    "damage", [{"absent": "epoch"}, {"present": None}, {"file": "Nothing"}, {"file": ""}]
)
def test_a_probe_that_looks_nowhere_or_for_nothing_is_refused(
    rules: tuple[Rule, ...], damage: dict[str, str]
):
    with pytest.raises(ModelError, match="Probe"):
        Probe(**{**ASKS, **damage})


def test_a_probe_that_cannot_be_read_is_named(rules: tuple[Rule, ...]):
    with pytest.raises(ModelError, match=r"the probe 'epoch\(' cannot be read"):
        find((Probe(**{**ASKS, "present": "epoch("}),), {OLD: SCALA})


def _git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=kchaos", "-c", "user.email=kchaos@localhost"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.mark.needs("git")
def test_a_tag_is_read_from_git_and_what_has_none_from_the_source_jars(
    tmp_path: Path, rules: tuple[Rule, ...]
):
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
    looked_up = look_up(rules, clone / ".git", tmp_path / "jars")
    assert looked_up.read_at == {"3.8.0": "tag", "3.8.1": "source jar"}
    assert looked_up.places["asks"] == {"3.8.1": SourceLine(path=NEW, line=2)}
    assert set(looked_up.places["does not exit"]) == {"3.8.0", "3.8.1"}
    assert "?.x?" in table(looked_up).splitlines()[1]


@pytest.mark.needs("git")
def test_a_folder_that_is_no_repository_is_an_error(tmp_path: Path, rules: tuple[Rule, ...]):
    with pytest.raises(ModelError, match="git tag"):
        look_up(rules, tmp_path, None)


@pytest.mark.needs("git")
def test_the_command_says_what_it_could_not_read_and_ends_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert sources.main([str(tmp_path)]) == 2
    assert "not a git repository" in capsys.readouterr().err


def _as_declared(release: str) -> dict[str, dict[str, SourceLine]]:
    here = SourceLine(path=OLD, line=1)
    return {
        name: {release: here} if release in range_.released() else {}
        for name, range_ in RANGES.items()
    }


def test_what_agrees_with_the_rules_has_no_differences():
    seen = SourcesRead(read_at={"3.4.1": "tag"}, places=_as_declared("3.4.1"))
    assert differences(EVERY_RULE, seen) == []


def test_a_rule_that_is_declared_and_missing_or_found_and_not_declared_is_named():
    places = _as_declared("3.4.0")
    places["KAFKA-14704"] = {"3.4.0": SourceLine(path=OLD, line=7)}
    places["KIP-101"] = {}
    assert differences(EVERY_RULE, SourcesRead(read_at={"3.4.0": "tag"}, places=places)) == [
        "KIP-101: declared for 3.4.0, and not in its source",
        "KAFKA-14704: in 3.4.0 at Cache.scala:7, and not declared for it",
    ]


def test_a_rule_is_looked_up_in_the_class_that_it_names():
    assert PROBES.keys() == RANGES.keys()
    for rule in EVERY_RULE:
        file = rule.source.partition(", ")[0].replace(".", "/")
        probed = [path for probe in PROBES[rule.name] for path in probe.paths]
        of_class = [path for path in probed if path.rpartition(".")[0].endswith(file)]
        assert of_class != [], rule.name
        assert find(PROBES[rule.name], {}) is None, rule.name
