"""Tiered clusters: what is refused before anything starts, and how steps are read back."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import kchaos as k
from kchaos.clusters.kafka.distribution import Distribution
from kchaos.clusters.releases import release_of
from kchaos.clusters.start import tiered
from kchaos.clusters.start.host import Node
from kchaos.harness.campaign.cases import cases_shown
from kchaos.harness.catalogue import entry_named
from kchaos.harness.catalogue.kip_405_control import without_tiering
from kchaos.harness.run.scenario import step_from_json, step_to_json
from kchaos.harness.run.settings import check_settings

REMOTE = (("remote.storage.enable", "true"),)
COMPACT = (("cleanup.policy", "compact"),)


def scenario(*steps: k.Step, release: str = "3.9.1", **cluster: Any) -> k.Scenario:
    spec = k.ClusterSpec(brokers=k.brokers_of(release, (0,)), **{"tiered": True, **cluster})
    return k.Scenario(entry="test", case="one", release=release, cluster=spec, steps=steps)


def node(*inner_ports: int) -> Node:
    port = SimpleNamespace(number=4711)
    return Node(
        name="broker 0",
        directory=Path("/work"),
        listen_host="0.0.0.0",
        host="10.0.0.2",
        client_port=cast(Any, port),
        client_listen_port=9092,
        inner_ports=inner_ports,
        reserved=(),
    )


def created(*configuration: tuple[str, str]) -> k.CreateTopic:
    return k.CreateTopic(topic="t", assignment=((0,),), configuration=configuration)


REFUSED = {
    "release": (
        scenario(release="3.3.2"),
        "broker 0: 3.3.2 has no tiered storage: it came with 3.6.0",
    ),
    "protocol": (
        scenario(properties={"inter.broker.protocol.version": "2.7"}),
        "broker 0: tiered storage needs topic ids, .* and the broker speaks 2.7",
    ),
    "own-folder": (
        scenario(properties={"rsm.config.dir": "/tmp/elsewhere"}),
        "broker 0: rsm.config.dir is kchaos's to set",
    ),
    "switched-off": (
        scenario(properties={"remote.log.storage.system.enable": "false"}),
        "broker 0: remote.log.storage.system.enable is kchaos's to set",
    ),
    "compacted": (
        scenario(created(*REMOTE, *COMPACT)),
        r"step 0 \(CreateTopic\): a topic with cleanup.policy compact cannot be tiered",
    ),
    "compacted-later": (
        scenario(
            created(*COMPACT),
            k.Inject(name="x", fault=k.ConfigureTopic(topic="t", configuration=REMOTE)),
        ),
        r"step 1 \(ConfigureTopic\): a topic with cleanup.policy compact cannot be tiered",
    ),
    "untiered": (
        scenario(created(*REMOTE), tiered=False),
        r"step 0 \(CreateTopic\): remote.storage.enable needs a cluster with tiered=True",
    ),
}


@pytest.mark.parametrize(("made", "why"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_tiered_is_refused_with_the_reason(made: k.Scenario, why: str):
    with pytest.raises(k.ScenarioError, match=why):
        check_settings(made, {broker.kafka: broker.kafka for broker in made.cluster.brokers})


def test_a_tiered_topic_on_a_tiered_cluster_is_taken():
    check_settings(scenario(created(*REMOTE)), {"3.9.1": "3.9.1"})


def test_a_missing_test_jar_is_named_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path))
    with pytest.raises(k.MachineError, match=r"kafka-storage:3\.9\.1:test is not in the cache"):
        tiered.tiered_storage_jar(release_of("3.9.1"), offline=True)


def test_the_kafka_of_an_image_cannot_be_tiered():
    distribution = Distribution(release="3.9.1", class_path=(), source="image:apache/kafka:3.9.1")
    with pytest.raises(k.ReleaseError, match="its class path is its own"):
        tiered.with_tiered_storage(distribution)


def at_link(spec: k.ClusterSpec, *ports: int) -> Mapping[str, tuple[str, str]]:
    place = node(*ports)
    known = place.listeners(("link", 1), place.client_address)
    return tiered.listeners_with_tiering(spec, place, known)


def test_an_untiered_cluster_has_no_setting_of_tiering(tmp_path: Path):
    spec = k.ClusterSpec(brokers=(k.BrokerSpec(id=0, kafka="3.9.1"),))
    assert tiered.properties_of_tiering(spec, tmp_path, at_link(spec, 9091, 9093)) == {}
    assert "METADATA" not in at_link(spec, 9091, 9093)


def test_brokers_that_do_not_reach_each_other_as_clients_do_have_a_listener_for_metadata(
    tmp_path: Path,
):
    spec = k.ClusterSpec(brokers=(k.BrokerSpec(id=0, kafka="3.9.1"),), tiered=True)
    alone, apart = at_link(spec, 9091), at_link(spec, 9091, 9093)
    named = "remote.log.metadata.manager.listener.name"
    for listeners, wanted in ((alone, "CLIENT"), (apart, "METADATA")):
        assert tiered.properties_of_tiering(spec, tmp_path, listeners)[named] == wanted
    assert [*alone] == ["INTERNAL", "CLIENT"]
    assert apart["METADATA"][1] == "10.0.0.2:9093"


@pytest.mark.parametrize(
    "step",
    [
        k.AwaitTiered(topic="t", partition=0, segments=((0, 2, 0), (3, 5, None))),
        k.TierRead(operation="r", topic="t", partition=0, broker=1, manner="descending"),
    ],
    ids=lambda step: type(step).__name__,
)
def test_steps_about_tiers_are_read_back_as_they_were(step: k.Step):
    assert step_from_json(step_to_json(step)) == step


def test_without_tiering_only_what_is_about_the_remote_tier_is_left_out():
    kept = k.Tell(text="kept")
    steps = (
        created(*REMOTE, ("segment.bytes", "168"), ("local.retention.bytes", "84")),
        k.AwaitTiered(topic="t", partition=0, segments=()),
        k.TierRead(operation="r", topic="t", partition=0, broker=0),
        k.Inject(
            name="x",
            fault=k.ConfigureTopic(topic="t", configuration=(("local.retention.bytes", "1"),)),
        ),
        kept,
    )
    assert list(without_tiering(steps)) == [created(("segment.bytes", "168")), kept]


def test_of_the_cases_those_that_a_release_can_show_are_played_and_the_others_are_named():
    said: list[str] = []
    assert cases_shown(entry_named("KIP-405-4"), "3.6.2", said.append) == ["never-uploaded"]
    assert cases_shown(entry_named("KIP-405-4"), "3.9.1", said.append) == ["uploaded"]
    assert [line.partition(":")[0] for line in said] == [
        "KIP-405-4 uploaded is left out",
        "KIP-405-4 never-uploaded is left out",
    ]


def test_where_a_release_can_show_no_case_all_are_tried_so_that_it_says_why():
    entry = replace(entry_named("KIP-405-4"), cannot_show=lambda case, release: "never")
    assert cases_shown(entry, "3.9.1", print) == list(entry.cases)


@pytest.mark.parametrize(
    ("name", "case", "release", "why"),
    [
        ("KIP-405-4", "uploaded", "3.6.2", "3.6 ships nothing there"),
        ("KIP-405-3", "never-uploaded", "3.9.1", "KAFKA-15241 is fixed from 3.7.0 on"),
    ],
)
def test_a_case_that_a_release_cannot_show_says_which_can(
    name: str, case: str, release: str, why: str
):
    with pytest.raises(k.UsageError, match=why):
        k.scenario_of(k.CATALOGUE[name], case, release)
