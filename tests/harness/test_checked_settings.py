"""Settings that brokers would refuse: said before anything starts."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kchaos.clusters.spec import BrokerSpec, ClusterSpec
from kchaos.faults import ConfigureTopic, FormatDowngrade, RollBroker
from kchaos.harness.commands.cli import run
from kchaos.harness.errors import ScenarioError
from kchaos.harness.run.runner import RunOptions, play
from kchaos.harness.run.scenario import Scenario
from kchaos.harness.run.settings import check_settings, kafkas_of
from kchaos.harness.steps.scenario_steps import CreateTopic, Inject, Step
from tests.support.stand_ins import StandInCluster

FORMAT, PROTOCOL = "log.message.format.version", "inter.broker.protocol.version"


def scenario(
    *steps: Step, properties: dict[str, str] | None = None, release: str = "2.0.1"
) -> Scenario:
    brokers = (
        BrokerSpec(id=0, kafka="1.1.1"),
        BrokerSpec(id=1, kafka=release, properties=properties or {}),
    )
    return Scenario(
        entry="test", case="one", release=release, cluster=ClusterSpec(brokers=brokers), steps=steps
    )


def inject(fault: Any) -> Inject:
    return Inject(name="fault", fault=fault)


RELEASES = {"1.1.1": "1.1.1", "2.0.1": "2.0.1", "patched": "2.0.2"}


def rolled(broker: int, **fields: Any) -> Inject:
    return Inject(name=f"roll-{broker}", fault=RollBroker(broker=broker, **fields))


def test_a_roll_without_a_pinned_protocol_is_told_once_before_the_start():
    brokers = tuple(BrokerSpec(id=number, kafka="1.1.1") for number in (0, 1, 2))
    unpinned = ClusterSpec(brokers=brokers)
    rolls = tuple(rolled(broker, kafka="2.0.1") for broker in (1, 2))
    made = Scenario(entry="test", case="", release="1.1.1", cluster=unpinned, steps=rolls)

    (told,) = check_settings(made, RELEASES)
    assert told == (
        "from step 0 (RollBroker) on: broker 1 (2.0.1) speaks inter.broker.protocol.version 2.0, "
        "its own, since none is set, which broker 0 (1.1.1) cannot read, so that replication "
        "between them may stop. Set it to 1.1 on every broker until all run 2.0.1"
    )

    pinned = replace(made, cluster=replace(unpinned, properties={PROTOCOL: "1.1"}))
    assert check_settings(pinned, RELEASES) == ()
    raised = rolled(2, properties=((PROTOCOL, "2.0"),))
    too_soon = replace(pinned, steps=(rolls[0], rolled(2, kafka="2.0.1"), raised))
    (told,) = check_settings(too_soon, RELEASES)
    assert "step 2 (RollBroker)" in told
    assert "its own" not in told
    whole = replace(too_soon, steps=(rolled(0, kafka="2.0.1"), *too_soon.steps))
    assert check_settings(whole, RELEASES) == ()


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (scenario(properties={FORMAT: "2.0"}), r"broker 1: .*2\.0, which .*1\.1 forbids"),
        (
            scenario(CreateTopic(topic="t", assignment=((0, 1),), configuration=(("x", "1"),))),
            r"step 0 \(CreateTopic\): broker 0: no topic setting is named 'x'",
        ),
        (
            scenario(inject(RollBroker(broker=0, properties=((PROTOCOL, "2.0"),)))),
            r"step 0 \(RollBroker\): broker 0: .* which 1\.1\.1 does not know",
        ),
        (
            scenario(properties={"replica.lag.time.max": "1000"}),
            r"broker 1: no broker setting is named 'replica.lag.time.max': did you mean "
            r"replica.lag.time.max.ms\?",
        ),
        (
            scenario(properties={"fetch.max.bytes": "1000000"}),
            r"broker 1: 2\.0\.1 does not know the broker setting fetch.max.bytes: it came with",
        ),
        (
            scenario(inject(RollBroker(broker=0, properties=(("num.replica.fetcher", "2"),)))),
            r"step 0 \(RollBroker\): broker 0: no .* did you mean num.replica.fetchers\?",
        ),
        (
            scenario(inject(RollBroker(broker=7))),
            r"step 0 \(RollBroker\): the cluster has no broker 7",
        ),
        (
            scenario(
                inject(
                    ConfigureTopic(
                        topic="t", configuration=(("message.downconversion.enable", "false"),)
                    )
                )
            ),
            r"broker 0: 1\.1\.1 does not know the topic setting message.downconversion.enable",
        ),
        (
            scenario(inject(FormatDowngrade(topic="t", message_format="2.1"))),
            r"step 0 \(FormatDowngrade\): broker 0: message.format.version is 2\.1",
        ),
    ],
    ids=lambda first: first if isinstance(first, str) else "",
)
def test_a_setting_that_is_refused_names_the_step_and_the_broker(made: Scenario, why: str):
    with pytest.raises(ScenarioError, match=why):
        check_settings(made, RELEASES)


def test_what_a_broker_was_restarted_with_counts_for_what_comes_later():
    raised = RollBroker(broker=0, kafka="patched", properties=((PROTOCOL, "2.0"),))
    again = RollBroker(broker=0, properties=((FORMAT, "2.0"),))
    check_settings(scenario(inject(raised), inject(again)), RELEASES)
    with pytest.raises(ScenarioError, match=r"step 0 \(RollBroker\)"):
        check_settings(scenario(inject(again)), RELEASES)


def test_a_build_of_somebodys_own_may_have_settings_of_its_own():
    made = scenario(properties={"quite.my.own": "1"}, release="patched")
    check_settings(made, RELEASES)
    with pytest.raises(ScenarioError, match="no broker setting is named 'quite"):
        check_settings(scenario(properties={"quite.my.own": "1"}), RELEASES)


def test_every_kafka_of_a_scenario_is_known_before_it_starts():
    upgrade = inject(RollBroker(broker=0, kafka="patched"))
    assert kafkas_of(scenario(upgrade, upgrade)) == ("1.1.1", "2.0.1", "patched")


def test_a_scenario_that_is_refused_makes_no_run(tmp_path: Path):
    refused = scenario(inject(FormatDowngrade(broker=1, message_format="2.1")), release="1.1.1")
    with pytest.raises(ScenarioError, match=r"which 1\.1\.1 does not know"):
        play(refused, options=RunOptions(runs_directory=tmp_path), say=lambda _text: None)
    assert list(tmp_path.iterdir()) == []


def test_a_topic_made_by_hand_with_a_setting_that_a_broker_lacks_is_not_made():
    cluster = StandInCluster(brokers=(0,))
    cluster.brokers[0].release = "1.1.1"
    play_of = cast(Any, SimpleNamespace(cluster=cluster))
    unknown = CreateTopic(
        topic="t", assignment=((0,),), configuration=(("max.compaction.lag.ms", "1"),)
    )
    with pytest.raises(ScenarioError, match=r"topic t: broker 0: 1\.1\.1 does not know the topic"):
        unknown.perform(play_of)


@pytest.mark.parametrize(
    ("properties", "configuration", "said"),
    [
        ({FORMAT: "0.11.0", PROTOCOL: "0.10.2"}, (), "version 0.10.2 forbids: raise that first"),
        ({FORMAT: "2.1"}, (), "broker 1: log.message.format.version is 2.1, which 2.0.1 does not"),
        ({}, (("max.compaction.lag.ms", "1"),), "topic setting max.compaction.lag.ms: it came wi"),
    ],
    ids=["forbidden by the protocol", "newer than the binary", "unknown to the release"],
)
def test_on_the_command_line_they_are_refused_as_usage_and_make_no_run(
    properties: dict[str, str],
    configuration: tuple[tuple[str, str], ...],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    topic = CreateTopic(topic="t", assignment=((0, 1),), configuration=configuration)
    file = tmp_path / "scenario.json"
    file.write_text(json.dumps(scenario(topic, properties=properties).to_json()))
    assert run(["replay", str(file), "--runs-dir", str(tmp_path / "runs")]) == 64
    assert said in capsys.readouterr().err
    assert [*tmp_path.glob("runs/*")] == []
