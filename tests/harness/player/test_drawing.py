"""Drawing: schedules are legal, the same for the same seed, and every kind of step occurs."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kchaos.checkers.model import generation_for
from kchaos.clusters.releases import release_of
from kchaos.clusters.settings import BROKER_FORMAT, PROTOCOL
from kchaos.clusters.start.configuration import BROKER_DEFAULTS
from kchaos.faults import FAULTS, CutLink, FailLogDirectory, KillBroker, PauseBroker, RollBroker
from kchaos.harness.errors import UsageError
from kchaos.harness.player.candidates import (
    ADMIN,
    LOGS,
    MIXES,
    SEVERAL_FOLDERS,
    SHUTDOWNS,
    THROTTLES,
    UPGRADES,
    step_weights_of,
)
from kchaos.harness.player.drawing import draw, no_formats, view_of
from kchaos.harness.player.drawn_settings import CONTROLLED_SHUTDOWN, SMALL_LOGS
from kchaos.harness.player.legal import after, illegal_steps
from kchaos.harness.player.rare import RARE, SLOW_DISKS
from kchaos.harness.player.studied_mixes import WALKS
from kchaos.harness.run.scenario import Scenario
from kchaos.harness.steps.clients import Produce
from kchaos.harness.steps.if_possible import IfPossible
from kchaos.harness.steps.log_start import AwaitLogStart
from kchaos.harness.steps.scenario_steps import CreateTopic, Heal, Inject, Step
from kchaos.studies.explore import ActedBrokers, ActedCluster, walk

pytestmark = pytest.mark.slow

SEEDS = 500
INSIDE = ("FreezeFollower", "HoldController", "HoldPoint", "SlowDisk", "SlowFetchReads")


def plain(scenario: Scenario) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(json.dumps(scenario.to_json()))
    return data


def drawn(seed: int, **more: Any) -> Scenario:
    return draw(seed, **{"kafka": "2.8.2", "steps": 25, **more})


def acts_drawn(seed: int, **more: Any) -> list[dict[str, Any]]:
    """The acts of a schedule without gates, behind the first topic."""
    return [step["do"] for step in plain(drawn(seed, gated=False, **more))["steps"][1:]]


@cache
def acts_of_mix(mix: str) -> list[dict[str, Any]]:
    """The acts of schedules of a mix, each legal, until all that it draws has occurred.

    Gates change no act: they stand between those that are drawn.
    """
    acts: list[dict[str, Any]] = []
    for seed in range(150):
        # Formats can be set before 2.7; an administrator can ask for more from 2.4 on.
        kafka = "2.8.2" if mix == ADMIN else "2.3.1"
        scenario = drawn(seed, mix=mix, gated=False, kafka=kafka)
        assert illegal_steps(view_of(scenario), scenario.steps) == []
        acts += [step["do"] for step in plain(scenario)["steps"][1:]]
        # A member of ZooKeeper fails in several ways, of which one is drawn at a time.
        faults = {act["fault"]["fault"] for act in acts if "fault" in act}
        is_whole = mix != RARE or {name for name in FAULTS if name.endswith("ZooKeeper")} <= faults
        kinds = set(map(kind_of, acts))
        if seed >= SEEDS // len(MIXES) and is_whole and kinds_of_mix(mix) <= kinds:
            break
    return acts


def kinds_of_mix(mix: str) -> set[str]:
    return {kind for kind, weight in step_weights_of(mix, is_kraft=False).items() if weight > 0}


@pytest.mark.xdist_group("drawn mixes")
@pytest.mark.parametrize("mix", MIXES)
def test_no_schedule_has_an_illegal_step_and_every_kind_of_its_mix_occurs(mix: str):
    assert set(map(kind_of, acts_of_mix(mix))) == kinds_of_mix(mix)


def test_gates_change_no_act():
    gated, ungated = (plain(drawn(1, gated=gated))["steps"] for gated in (True, False))
    assert [step for step in gated if step in ungated] == ungated
    assert len(gated) > len(ungated)


@pytest.mark.parametrize(
    ("planted", "why"),
    [
        (Inject(name="x", fault=KillBroker(broker=0)), "is dead"),
        (Inject(name="x", fault=PauseBroker(broker=0)), "is dead"),
        (Inject(name="x", fault=CutLink(source=0, target=1)), "does not run"),
        (Inject(name="down", fault=KillBroker(broker=1)), "was used already"),
        (Heal(name="nobody-injected-this"), "nobody-injected-this"),
        (
            Produce(operation="x", topic="t", partition=0, records=1, acks=1, broker=0),
            "does not run",
        ),
    ],
)
def test_a_planted_illegal_step_is_refused(planted: Step, why: str):
    scenario = drawn(1, steps=1)
    steps = [*scenario.steps, Inject(name="down", fault=KillBroker(broker=0)), planted]

    ((place, reason),) = illegal_steps(view_of(scenario), steps)

    assert place == len(steps) - 1
    assert why in reason


@pytest.mark.xdist_group("drawn mixes")
def test_every_fault_occurs_in_a_mix_but_those_that_the_page_names():
    acts = [act for mix in MIXES for act in acts_of_mix(mix)]
    faults = {act["fault"]["fault"] for act in acts if "fault" in act}
    page = (Path(__file__).parents[3] / "docs/mixes.md").read_text().partition("| never in")[2]
    assert set(FAULTS) - faults == {name for name in FAULTS if f"`{name}`" in page} - faults


def test_walks_and_schedules_draw_by_the_same_function(monkeypatch: pytest.MonkeyPatch):
    def first(_: Random, kinds: Sequence[str], *_rest: object) -> str:
        return kinds[0]

    monkeypatch.setattr("kchaos.harness.player.weighted.drawn_kind", first)
    cluster = ActedCluster(ActedBrokers(generations=dict.fromkeys((0, 1), generation_for("2.8.2"))))
    assert [act.kind for act in walk(cluster, Random(1), steps=3).acts[:3]] == [
        "cut",
        *("expire",) * 2,
    ]
    assert {*map(kind_of, acts_drawn(1, steps=6))} == {"produce"}


@pytest.mark.parametrize("kafka", ["1.1.1", "2.8.2", "4.1.2"])
def test_a_leader_with_a_tail_of_its_own_is_replaced_and_comes_back_as_a_follower(kafka: str):
    begun = led_back = 0
    for seed in range(60):
        acts = acts_drawn(seed, kafka=kafka, steps=15)
        for at, act in enumerate(acts[:-5]):
            if kind_of(act) != "leave-behind":
                continue
            begun += 1
            held, rest = act["fault"], acts[at + 1 :]
            assert (held["direction"], held["source"]) == ("response", None)
            ended = [index for index, each in enumerate(rest) if acts_on(each, held["target"])]
            written = [index for index, each in enumerate(rest) if each["step"] == "Produce"]
            healed = [i for i, each in enumerate(rest) if each.get("name") == act["name"]]
            led_back += any(
                written[0] < end < min(healed, default=end) and end < written[-1] for end in ended
            )
    assert begun > 15
    assert led_back > begun / 2


@pytest.mark.parametrize("kafka", ["2.8.2", "4.1.2"])
def test_a_leader_that_is_in_sync_alone_ends_while_a_follower_out_of_sync_runs(kafka: str):
    begun = alone = 0
    for seed in range(90):
        acts = acts_drawn(seed, kafka=kafka, steps=15)
        for at, act in enumerate(acts[:-7]):
            if kind_of(act) != "lead-alone" or act["step"] != "Inject":
                continue
            begun += 1
            cut, rest = act["fault"], acts[at + 1 :]
            killed, ends = (
                next((i for i, each in enumerate(rest) if acts_on(each, broker)), len(rest) - 1)
                for broker in (cut["target"], cut["source"])
            )
            between = rest[killed:ends]
            is_back = {"step": "Heal", "name": rest[killed].get("name")} in between
            alone += is_back and any(each.get("acks") == -1 for each in between)
    assert begun > 10
    assert alone > begun / 3


def acts_on(act: dict[str, Any], broker: int) -> bool:
    return bool(act["step"] == "Inject" and act["fault"].get("broker") == broker)


def kind_of(act: dict[str, Any]) -> str:
    match act["step"]:
        case "Inject":
            return str(act["name"]).rstrip("0123456789").rstrip("-")
        case "Produce" if act["broker"] is not None:
            return "produce-to-zombie"
        case "Reassign" if not act["is_awaited"]:
            return "reassign-on"
        case name:
            known = {
                "TakeSnapshot": "snapshot",
                "AwaitLogStart": "await-retention",
                "ReorderReplicas": "reorder",
            }
            hyphened = re.sub("(?<!^)([A-Z])", r"-\1", name).lower()
            return str(known.get(name, hyphened))


def test_clusters_and_topics_differ_as_they_are_meant_to():
    brokers, in_sync, unclean, first, partitions, replicas = (set() for _ in range(6))
    for seed in range(60):
        scenario = drawn(seed)
        spec = scenario.cluster
        brokers.add(len(spec.brokers))
        in_sync.add(spec.properties["min.insync.replicas"])
        unclean.add(spec.properties["unclean.leader.election.enable"])
        first.add(spec.first_broker)
        created = scenario.steps[0]
        assert isinstance(created, CreateTopic)
        partitions.add(len(created.assignment))
        replicas |= {len(each) for each in created.assignment}
    assert (brokers, in_sync, unclean) == ({3, 4}, {"1", "2"}, {"true", "false"})
    assert (first, partitions, replicas) == ({0, 1, 2, 3}, {1, 2}, {2, 3})


@pytest.mark.parametrize("mix", [mix for mix in MIXES if mix != RARE])
def test_brokers_ask_before_they_stop_in_the_mix_of_shutdowns_alone(mix: str):
    properties = draw(1, kafka="2.8.2", steps=5, mix=mix).cluster.properties
    asks = {name: value for name, value in properties.items() if "controlled.shutdown" in name}
    assert asks == (CONTROLLED_SHUTDOWN if mix == SHUTDOWNS else {})
    assert BROKER_DEFAULTS["controlled.shutdown.enable"] == "false"


@pytest.mark.parametrize("mix", [mix for mix in MIXES if mix != RARE])
def test_followers_have_several_fetchers_in_the_mix_of_throttles_alone(mix: str):
    properties = draw(1, kafka="2.8.2", steps=5, mix=mix).cluster.properties
    assert properties.get("num.replica.fetchers", "1") == ("2" if mix == THROTTLES else "1")


@pytest.mark.parametrize("mix", MIXES)
def test_logs_are_small_in_one_mix_and_in_two_directories_in_two(mix: str):
    cluster = draw(1, kafka="2.8.2", steps=5, mix=mix).cluster
    is_small = SMALL_LOGS.items() <= cluster.properties.items()
    counts = {broker.log_directories for broker in cluster.brokers}
    assert (is_small, counts) == (mix == LOGS, {2 if mix in SEVERAL_FOLDERS else 1})


@pytest.mark.parametrize(("release", "is_drawn"), [("0.11.0.3", False), ("1.1.1", True)])
def test_log_directories_fail_where_brokers_outlive_it(release: str, is_drawn: bool):
    faults = [
        step.do.fault
        for seed in range(3)
        for step in draw(seed, kafka=release, steps=40, mix=LOGS).steps
        if isinstance(step, IfPossible) and isinstance(step.do, Inject)
    ]
    assert any(isinstance(fault, FailLogDirectory) for fault in faults) is is_drawn


def test_retention_is_awaited_where_enough_was_written_for_it():
    for seed in range(10):
        written = 0
        for step in draw(seed, kafka="2.8.2", steps=40, mix=LOGS).steps:
            act = step.do if isinstance(step, IfPossible) else step
            written += isinstance(act, Produce)
            assert not isinstance(act, AwaitLogStart) or written >= 4


@pytest.mark.parametrize("mix", ["mixed", WALKS])
def test_the_same_seed_draws_the_same_schedule_in_another_process(mix: str):
    code = (
        "import json; from kchaos.harness.player.drawing import draw\n"
        f"scenarios = [draw(seed, kafka='2.8.2', steps=25, mix={mix!r}) for seed in (1, 2)]\n"
        "print(json.dumps([scenario.to_json() for scenario in scenarios]))"
    )
    drawn_there = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    here = [plain(drawn(seed, mix=mix)) for seed in (1, 2)]
    assert [json.loads(text) for text in drawn_there] == [here, here]
    assert here[0]["steps"] != here[1]["steps"]


def test_a_seed_is_recorded_where_it_was_drawn_and_the_scenario_survives_its_json_form():
    scenario = drawn(4711)
    assert scenario.seed == 4711
    assert Scenario.from_json(plain(scenario)) == scenario


def test_nobody_is_asked_for_leader_epochs_before_0_11():
    texts = [json.dumps(plain(drawn(s, kafka="0.10.2.2", mix="holds"))) for s in range(40)]
    assert not any("OffsetForLeaderEpoch" in text for text in texts)
    texts = [json.dumps(plain(drawn(s, kafka="0.11.0.3", mix="holds"))) for s in range(40)]
    assert any("OffsetForLeaderEpoch" in text for text in texts)


def test_without_gates_the_same_acts_follow_each_other_at_once():
    gated, at_once = plain(drawn(7)), plain(drawn(7, gated=False))
    steps = at_once["steps"]
    assert not any(
        step["step"].startswith("Await")
        for drawn_step in steps
        for step in (drawn_step, *inside(drawn_step))
    )
    acts = [
        drawn_step
        for drawn_step in gated["steps"]
        if not any("Await" in each["step"] for each in (drawn_step, *inside(drawn_step)))
    ]
    assert len(acts) < len(gated["steps"])
    assert acts == steps


def test_the_first_act_is_a_produce_with_acks_all():
    for seed in range(50):
        act = plain(drawn(seed))["steps"][1]["do"]
        assert (act["step"], act["acks"], act["broker"]) == ("Produce", -1, None)


def test_clusters_of_rare_schedules_are_wider_and_differ_in_what_they_leave_out():
    drawn_clusters = [drawn(seed, mix=RARE, kafka="3.9.1") for seed in range(80)]
    specs = [scenario.cluster for scenario in drawn_clusters]
    assert {len(spec.brokers) for spec in specs} == {3, 4, 5}
    assert {spec.zookeepers for spec in specs} == {1, 3}
    assert {spec.tiered for spec in specs} == {True, False}
    assert {len({broker.kafka for broker in spec.brokers}) for spec in specs} == {1, 2}
    assert {spec.properties["replica.lag.time.max.ms"] for spec in specs} == {
        *("3000", "10000", "600000")
    }
    mixed = [spec for spec in specs if len({broker.kafka for broker in spec.brokers}) == 2]
    protocols = {spec.properties["inter.broker.protocol.version"] for spec in mixed}
    assert protocols == {"3.6"}
    acts = [step for cluster in drawn_clusters for step in plain(cluster)["steps"]]
    writes = [act["do"] for act in acts if act.get("do", act)["step"] == "Produce"]
    assert {produce["codec"] for produce in writes} == {"none", "gzip"}
    assert {produce["keys"] for produce in writes} == {"", "key"}
    assert {produce["await_answer"] for produce in writes} == {True, False}
    topics = [act for act in acts if act["step"] == "CreateTopic"]
    assert max(len(topic["assignment"]) for topic in topics) == 10
    assert max(len(replicas) for topic in topics for replicas in topic["assignment"]) == 5
    faults = [
        {type(fault).__name__ for fault in faults_of(scenario)} for scenario in drawn_clusters[:20]
    ]
    assert len({frozenset(fault) for fault in faults}) == 20


def faults_of(scenario: Scenario) -> list[Any]:
    steps = [getattr(step, "do", step) for step in scenario.steps]
    return [step.fault for step in steps if hasattr(step, "fault")]


@pytest.mark.parametrize("mix", [RARE, SLOW_DISKS])
def test_what_is_held_inside_a_broker_is_let_go_by_a_step(mix: str):
    for seed in range(40):
        steps = [getattr(step, "do", step) for step in drawn(seed, mix=mix, kafka="2.3.1").steps]
        held = {step.name for step in steps if isinstance(step, Inject) and _is_inside(step.fault)}
        assert held <= {step.name for step in steps if isinstance(step, Heal)}


def _is_inside(fault: Any) -> bool:
    return type(fault).__name__ in INSIDE


def rolls_of(scenario: Scenario) -> list[RollBroker]:
    return [fault for fault in faults_of(scenario) if isinstance(fault, RollBroker)]


@pytest.mark.parametrize(("release", "older"), [("2.8.2", "2.7.2"), ("0.11.0.3", "0.10.2.2")])
def test_a_random_upgrade_begins_on_the_line_before_with_its_protocol_pinned(
    release: str, older: str
):
    scenario = drawn(1, mix=UPGRADES, kafka=release)
    text = release_of(older).protocol_version
    pinned = {PROTOCOL: text} | ({BROKER_FORMAT: text} if release == "0.11.0.3" else {})

    assert {broker.kafka for broker in scenario.cluster.brokers} == {older}
    assert pinned.items() <= scenario.cluster.properties.items()
    assert (BROKER_FORMAT in scenario.cluster.properties) == (BROKER_FORMAT in pinned)


def test_the_protocol_is_raised_only_above_newer_brokers_and_no_broker_goes_back_after_it():
    ways_back = raised_ones = 0
    for seed in range(60):
        scenario = drawn(seed, mix=UPGRADES)
        upgraded: set[int] = set()
        raised: set[int] = set()
        for roll in rolls_of(scenario):
            if roll.kafka == "2.8.2":
                upgraded.add(roll.broker)
            elif roll.kafka:
                assert (roll.kafka, raised) == ("2.7.2", set())
                upgraded.remove(roll.broker)
                ways_back += 1
            else:
                assert roll.properties == ((PROTOCOL, "2.8"),)
                assert upgraded == {broker.id for broker in scenario.cluster.brokers}
                assert roll.broker not in raised
                raised.add(roll.broker)
                raised_ones += 1
    assert ways_back > 10
    assert raised_ones > 10


def test_a_planted_roll_that_kafka_does_not_support_is_refused():
    scenario = drawn(1, mix=UPGRADES, steps=0)
    view = after(view_of(scenario), scenario.steps[0])
    newer = [RollBroker(broker=broker, kafka="2.8.2") for broker in view.brokers]
    raises = RollBroker(broker=0, properties=((PROTOCOL, "2.8"),))

    def refused(*faults: RollBroker) -> str:
        steps = [Inject(name=f"roll-{number}", fault=fault) for number, fault in enumerate(faults)]
        return "; ".join(why for _, why in illegal_steps(view, steps))

    assert refused(*newer, raises) == ""
    assert "whose protocol that is" in refused(*newer[1:], raises)
    assert "there is no way back" in refused(*newer, raises, RollBroker(broker=1, kafka="2.7.2"))
    assert "speaks that protocol already" in refused(*newer, raises, raises)


def test_the_oldest_release_has_no_random_upgrades():
    with pytest.raises(
        UsageError, match=r"not for 0\.10\.2\.2: it begins on the release line before"
    ):
        drawn(1, mix=UPGRADES, kafka="0.10.2.2")


def test_kinds_that_are_left_out_are_never_drawn():
    def kills(left_out: tuple[str, ...]) -> int:
        schedules = [drawn(seed, left_out=left_out) for seed in range(40)]
        return sum(
            type(fault).__name__ == "KillBroker"
            for schedule in schedules
            for fault in faults_of(schedule)
        )

    assert drawn(5, left_out=()) == drawn(5)
    assert kills(()) > 0 == kills(("kill",))


@pytest.mark.parametrize(
    ("release", "why"),
    [
        *(("0.10.2.2", "there is no older one"), ("2.6.3", ""), ("2.7.2", "KAFKA-7601")),
        *(("2.8.2", "KAFKA-7601"), ("3.0.2", "KIP-724")),
    ],
)
def test_the_mix_of_formats_says_where_it_draws_none(release: str, why: str):
    told = no_formats("formats", release)
    assert (why in told) if why else told == ""
    assert no_formats("mixed", release) == ""
    texts = [json.dumps(plain(drawn(s, kafka=release, mix="formats"))) for s in range(20)]
    assert any("message.format" in text for text in texts) == (why == "")


def test_an_unknown_mix_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="mixed, cuts"):
        drawn(1, mix="everything")


def inside(step: dict[str, Any]) -> list[dict[str, Any]]:
    return [step["do"]] if "do" in step else []


@pytest.mark.parametrize("release", ["0.10.2.2", "2.8.2", "3.9.1"])
def test_no_format_is_set_where_it_would_stop_replication_or_mean_nothing(release: str):
    for seed in range(40):
        kinds = {
            kind_of(drawn_step.get("do", drawn_step))
            for drawn_step in plain(drawn(seed, mix="formats", kafka=release, gated=False))["steps"]
        }
        assert not kinds & {"configure-format", "roll-format"}
        assert release != "0.10.2.2" or "forge-epochs" not in kinds


def test_nobody_loses_the_epochs_of_a_tiered_topic():
    """Its leader would delete remote segments, and the model does not follow that."""
    tiered = 0
    for seed in range(SEEDS // 20):
        scenario = plain(drawn(seed, mix=RARE, kafka="3.9.1"))
        steps = [step.get("do", step) for step in scenario["steps"]]
        topics = {
            step["topic"]
            for step in steps
            if step["step"] == "CreateTopic"
            and ["remote.storage.enable", "true"] in step["configuration"]
        }
        tiered += len(topics)
        faults = [step["fault"] for step in steps if step["step"] == "Inject"]
        assert not topics & {each["topic"] for each in faults if each["fault"] == "LoseEpochs"}
    assert tiered, "no topic is tiered"
