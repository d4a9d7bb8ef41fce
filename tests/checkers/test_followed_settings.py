"""Settings that the model follows, of brokers and of topics."""

import json
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.judge import judge
from kchaos.checkers.results import Results
from kchaos.checkers.settings import FOLLOWED, HARMLESS, LIMITED, is_listed, not_followed
from kchaos.clusters.releases import release_of
from kchaos.clusters.settings import TOPIC_SETTINGS
from kchaos.clusters.start.broker_settings import _INTERNAL, _known, names_in
from kchaos.clusters.start.configuration import broker_defaults
from tests.support.clean_runs import clean_run, clean_snapshot
from tests.support.run_builder import RunBuilder

_NEITHER = (".class", ".path", "location", "password", "sasl.", "ssl.", "authorizer", "reporters")


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("num.replica.fetchers", "2", ""),
        ("retention.ms", "1000", ""),
        ("local.retention.ms", "1000", "delete records"),
        ("retention.ms", "-1", ""),
        ("retention.ms", "604800000", ""),
        ("replica.fetch.response.max.bytes", "1000", ""),
        ("leader.replication.throttled.rate", "300", ""),
        ("leader.replication.throttled.replicas", "*", ""),
        ("replica.alter.log.dirs.io.max.bytes.per.second", "300", "throttled"),
        ("leader.replication.throttled.replicas", "", ""),
        ("message.timestamp.type", "LogAppendTime", "timestamps"),
        ("message.timestamp.type", "CreateTime", ""),
        ("replica.lag.time.max.ms", "1", ""),
        ("num.io.threads", "3", ""),
        ("metric.reporters", "", "not been examined"),
    ],
)
def test_a_setting_is_followed_or_it_is_said_what_it_changes(name: str, value: str, why: str):
    said = not_followed(name, value)
    assert why in said
    assert bool(said) == bool(why)


def test_retention_of_a_tiered_topic_is_followed():
    assert not_followed("local.retention.ms", "1000")
    assert not not_followed("local.retention.ms", "1000", is_tiered=True)
    assert not_followed("preallocate", "true", is_tiered=True)


def test_every_name_in_the_lists_is_kafkas_and_in_one_of_them():
    # Rates of throttles can be changed while brokers run, and not be set in a file.
    rates = (".throttled.rate", ".bytes.per.second")
    dynamic = {name for name in (*FOLLOWED, *LIMITED) if name.endswith(rates)}
    known = _INTERNAL.union(*_known().values()) | set(TOPIC_SETTINGS) | dynamic
    assert FOLLOWED | HARMLESS | set(LIMITED) <= known
    assert not FOLLOWED & HARMLESS
    assert not (FOLLOWED | HARMLESS) & set(LIMITED)


def test_every_topic_setting_is_in_a_list():
    assert [name for name in TOPIC_SETTINGS if not is_listed(name)] == []


def test_what_names_classes_files_or_secrets_is_in_no_list():
    listed = FOLLOWED | HARMLESS | set(LIMITED)
    assert [name for name in sorted(listed) if any(each in name for each in _NEITHER)] == []


def test_kchaos_gives_its_brokers_nothing_that_the_model_does_not_follow():
    given = broker_defaults(release_of("4.1.2"), is_kraft=False, brokers=3)
    assert {name: why for name, value in given.items() if (why := not_followed(name, value))} == {}


@pytest.mark.parametrize(
    "table",
    [
        "<table><tr>\n<td>log.dirs</td><td>x</td></tr>\n<tr>\n<td>port</td></tr>",
        '<li><h4><a id="log.dirs"></a></h4><li><a id="port">',
        '<a id="brokerconfigs_log.dirs"></a><a id="brokerconfigs_port"></a>',
        "<ul>\n<li><b>log.dirs</b>: text <b>bold</b></li>\n<li><b>port</b>: text",
    ],
)
def test_each_form_of_a_releases_own_table_is_read(table: str):
    assert names_in(table) == {"log.dirs", "port"}


# -- A setting that the model does not follow leaves conformance unknown, and safety judged --


def judged(path: Path, *znodes: tuple[str, dict[str, str]], **properties: str) -> Results:
    given = {name.replace("_", "."): value for name, value in properties.items()}
    build: RunBuilder = clean_snapshot(clean_run(path, properties=given))
    for znode, settings in znodes:
        data = json.dumps({"version": 1, "config": settings}).encode()
        build._put(znode, data, 0x77)
    return judge(build.seal())


def test_a_run_without_such_settings_conforms(tmp_path: Path):
    results = judged(tmp_path / "run", num_io_threads="3")
    assert (results.conforms, results.safe) == (True, True), results.unknown


NOT_FOLLOWED = {
    "in the scenario": (
        [],
        {"log_preallocate": "true"},
        "every broker was given log.preallocate=true, which the model does not follow",
    ),
    "while the broker ran": (
        [("/config/brokers/1", {"log.preallocate": "true"})],
        {},
        "broker 1 was given log.preallocate=true",
    ),
    "min.insync.replicas while all ran": (
        [("/config/brokers/<default>", {"min.insync.replicas": "1"})],
        {},
        "which the model does not follow: it takes that setting from a broker's start",
    ),
    "retention while all ran": (
        [("/config/brokers/<default>", {"log.retention.ms": "1000"})],
        {},
        "brokers may delete records of t, and without links nobody knows when they did",
    ),
    "retention of a topic": (
        [("/config/topics/t", {"retention.ms": "1000"})],
        {},
        "brokers may delete records of t, and without links nobody knows when they did",
    ),
    "of a topic": (
        [("/config/topics/t", {"preallocate": "true"})],
        {},
        "topic t was given preallocate=true",
    ),
}


@pytest.mark.parametrize(("znodes", "properties", "told"), NOT_FOLLOWED.values(), ids=NOT_FOLLOWED)
def test_one_with_such_a_setting_is_unknown_by_name(
    znodes: list[Any], properties: dict[str, str], told: str, tmp_path: Path
):
    results = judged(tmp_path / "run", *znodes, **properties)
    assert results.conforms is None
    assert results.safe is True
    assert told in str(results.unknown)


def test_what_a_broker_is_rolled_with_counts_too(tmp_path: Path):
    fault = {"fault": "RollBroker", "broker": 0, "properties": [["log.preallocate", "true"]]}
    build = clean_snapshot(clean_run(tmp_path / "run"))
    build.steps.append({"step": "IfPossible", "do": {"step": "Inject", "fault": fault}})
    results = judge(build.seal())
    assert results.conforms is None
    assert "broker 0 was given log.preallocate=true" in str(results.unknown)
