import subprocess
from pathlib import Path

import pytest

from kchaos.clusters.disk import mounting
from kchaos.clusters.front.doctor import examine
from kchaos.clusters.kafka import java


def test_the_doctor_answers_every_question_on_a_machine_where_nothing_was_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    answers = {answer.name: answer for answer in examine()}

    assert {"Python", "cache", "memory", "ports", "Java for brokers"} <= answers.keys()
    assert answers["Java for brokers"].ok is None
    assert answers["Java for Spark"].ok is None
    assert all(answer.detail for answer in answers.values())


def test_the_doctor_says_when_the_cache_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path / "file" / "cache"))
    answers = {answer.name: answer for answer in examine()}
    assert answers["cache"].ok is False
    assert "set KCHAOS_CACHE" in answers["cache"].detail


def test_the_doctor_says_why_no_disk_can_be_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mounting, "_DEVICE", tmp_path / "no-fuse")
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path / "cache"))
    answer = next(answer for answer in examine() if answer.name == "slow disks")
    assert answer.ok is None
    assert "no-fuse is not there" in answer.detail
    assert "SlowDisk" in answer.remedy


def test_the_java_for_spark_drops_the_one_flag_that_it_cannot_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    real = tmp_path / "a folder" / "bin" / "java"
    real.parent.mkdir(parents=True)
    real.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    real.chmod(0o755)
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    monkeypatch.setattr(java, "java_home", lambda line, *, offline: real.parent.parent)

    shim = java.spark_java_home() / "bin" / "java"
    arguments = ["-Da=x y", "--add-modules=jdk.incubator.vector", "-version", ""]
    said = subprocess.run([shim, *arguments], capture_output=True, text=True, check=True).stdout

    assert said == "-Da=x y\n-version\n\n"
