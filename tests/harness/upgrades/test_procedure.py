"""Kafka's procedure as a scenario: which rolls, in which order, under which faults."""

import re
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

import kchaos as k
from kchaos.checkers.acts import Mode
from kchaos.clusters.settings import BROKER_FORMAT, PROTOCOL
from kchaos.faults.view import refused_by_mode
from kchaos.harness.commands.upgrade import UPGRADE_MIXES
from kchaos.harness.player.drawing import view_of
from kchaos.harness.run.settings import check_settings, named_kafkas
from kchaos.harness.run.steps_checked import check_modes, check_steps
from kchaos.harness.upgrades.procedure import MIXES, Upgrade, draw_upgrade, phases, require_upgrade

BROKERS = (0, 1, 2)


def upgrade(
    older: str,
    newer: str,
    *,
    back: bool = False,
    finalize: bool = False,
    one_roll: bool = False,
    mix: str = "",
    stepped: bool = False,
    mode: Mode = "zookeeper",
    controllers: int = 1,
    migrates: bool = False,
    back_from: str = "",
) -> Upgrade:
    return Upgrade(
        older=older,
        newer=newer,
        older_release=older,
        newer_release=newer,
        back=back,
        finalize=finalize,
        one_roll=one_roll,
        mix=mix,
        stepped=stepped,
        mode=mode,
        controllers=controllers,
        migrates=migrates,
        back_from=back_from,
    )


def rolls(scenario: k.Scenario) -> list[tuple[str, k.RollBroker]]:
    return [
        (step.name, step.fault)
        for step in scenario.steps
        if isinstance(step, k.Inject) and isinstance(step.fault, k.RollBroker)
    ]


def named(of: Upgrade) -> list[tuple[str, str, dict[str, str]]]:
    return [(phase.name, phase.kafka, dict(phase.properties)) for phase in phases(of)]


def test_the_old_protocol_is_pinned_before_it_is_raised():
    assert named(upgrade("2.8.2", "3.9.1")) == [
        ("binaries", "3.9.1", {PROTOCOL: "2.8"}),
        ("protocol", "", {PROTOCOL: "3.9"}),
    ]


def test_an_old_message_format_is_kept_until_the_protocol_is_raised():
    assert named(upgrade("0.10.2.2", "0.11.0.3")) == [
        ("binaries", "0.11.0.3", {PROTOCOL: "0.10.2", BROKER_FORMAT: "0.10.2"}),
        ("protocol", "", {PROTOCOL: "0.11.0"}),
        ("format", "", {BROKER_FORMAT: "0.11.0"}),
    ]


def test_from_protocol_3_on_the_format_goes_with_the_protocol():
    assert named(upgrade("0.10.2.2", "3.5.2"))[1:] == [
        ("protocol", "", {PROTOCOL: "3.5", BROKER_FORMAT: "3.5"})
    ]


def test_the_way_back_is_before_the_protocol_is_raised():
    assert named(upgrade("2.8.2", "3.9.1", back=True)) == [
        ("binaries", "3.9.1", {PROTOCOL: "2.8"}),
        ("back", "2.8.2", {}),
    ]


def test_within_a_line_and_in_one_roll_nothing_is_pinned():
    assert named(upgrade("2.0.0", "2.0.1")) == [("binaries", "2.0.1", {})]
    assert named(upgrade("2.1.1", "2.2.2", one_roll=True)) == [("binaries", "2.2.2", {})]
    assert named(upgrade("3.9.1", "2.8.2")) == [("binaries", "2.8.2", {})]


def test_every_phase_rolls_every_broker_once_in_an_order_of_the_seed():
    orders = set()
    for seed in range(20):
        scenario = draw_upgrade(seed, upgrade("2.1.1", "2.2.2"))
        rolled = [(name.rpartition("-")[0], fault.broker) for name, fault in rolls(scenario)]
        for phase in ("binaries", "protocol"):
            assert sorted(broker for name, broker in rolled if name == phase) == [*BROKERS]
        orders.add((scenario.cluster.first_broker, *(broker for _, broker in rolled)))
    assert len(orders) > 10


def test_a_seed_draws_the_same_again():
    of = upgrade("2.1.1", "2.2.2", mix="mixed")
    assert draw_upgrade(7, of) == draw_upgrade(7, of)
    assert draw_upgrade(7, of) != draw_upgrade(8, of)
    assert k.Scenario.from_json(draw_upgrade(7, of).to_json()) == draw_upgrade(7, of)


def test_with_kraft_controllers_come_first_and_levels_one_by_one_last():
    of = upgrade("3.9.1", "4.1.2", mode="kraft", controllers=3)
    assert [(phase.name, phase.nodes) for phase in phases(of)] == [
        ("controllers", (100, 101, 102)),
        ("binaries", BROKERS),
        ("features", ()),
    ]
    levels = (
        ("metadata.version", 27),
        ("eligible.leader.replicas.version", 1),
        ("group.version", 1),
        ("transaction.version", 2),
    )
    assert phases(of)[-1].levels == levels
    raised = [
        step.fault
        for step in draw_upgrade(1, of).steps
        if isinstance(step, k.Inject) and isinstance(step.fault, k.UpdateFeatures)
    ]
    assert raised == [k.UpdateFeatures(levels=(level,)) for level in levels]


@pytest.mark.parametrize(
    ("older", "newer", "mode", "back", "allowed"),
    [
        ("4.0.2", "4.1.2", "kraft", False, True),
        ("3.9.1", "4.4.0", "kraft", False, True),
        ("3.9.1", "4.0.2", "kraft", False, False),
        ("4.0.2", "4.1.2", "kraft", True, False),
        ("4.2.1", "4.1.2", "kraft", False, False),
        ("2.8.2", "3.9.1", "zookeeper", False, False),
    ],
)
def test_a_static_quorum_becomes_dynamic_last_and_from_4_1_on(
    older: str, newer: str, mode: Mode, back: bool, allowed: bool
):
    of = replace(upgrade(older, newer, mode=mode, back=back), dynamic_quorum=True)
    if allowed:
        require_upgrade(of, unsupported=False)
        assert phases(of)[-1].levels == (("kraft.version", 1),)
        return
    with pytest.raises(k.UsageError, match="KAFKA-16538"):
        require_upgrade(of, unsupported=False)


def test_a_downgrade_with_kraft_goes_the_other_way_round():
    names = [phase.name for phase in phases(upgrade("4.1.2", "4.0.2", mode="kraft"))]
    assert names == ["features", "binaries", "controllers"]
    first = phases(upgrade("4.1.2", "4.0.2", mode="kraft"))[0]
    assert first.levels == (("eligible.leader.replicas.version", 0), ("metadata.version", 25))
    assert first.is_downgrade


def test_the_way_back_with_kraft_ends_with_the_controllers_and_changes_no_level():
    back = phases(upgrade("3.9.1", "4.0.2", mode="kraft", back=True))
    names = ["controllers", "binaries", "back", "controllers-back"]
    assert [phase.name for phase in back] == names
    assert not any(phase.levels for phase in back)
    within = phases(upgrade("4.1.0", "4.1.2", mode="kraft"))
    assert [phase.name for phase in within] == ["controllers", "binaries"]


@pytest.mark.parametrize(
    ("of", "names"),
    [
        (
            upgrade("4.0.2", "4.1.2", mode="kraft", back=True, finalize=True, mix="mixed"),
            ["controllers", "binaries", "features", "features-back", "back", "controllers-back"],
        ),
        (upgrade("4.1.2", "4.0.2", mode="kraft"), ["features", "binaries", "controllers"]),
    ],
)
def test_every_node_has_a_snapshot_before_an_older_binary_starts(of: Upgrade, names: list[str]):
    assert [phase.name for phase in phases(of)] == names
    scenario = draw_upgrade(2, of)
    interval = scenario.cluster.properties["metadata.log.max.snapshot.interval.ms"]
    levels, older = ("metadata.version", 25), []
    for number, step in enumerate(scenario.steps):
        if isinstance(step, k.AwaitMetadataSnapshots):
            snapshots = number
            assert int(interval) < 1000 * step.timeout_s
        fault = step.fault if isinstance(step, k.Inject) else None
        if isinstance(fault, k.UpdateFeatures) and levels in fault.levels:
            lowered = number
        if isinstance(fault, k.RollBroker) and fault.kafka == "4.0.2":
            older.append(number)
    assert lowered < snapshots < min(older)
    assert len(older) == len(BROKERS) + 1


def test_nothing_waits_for_snapshots_where_no_level_goes_down():
    for back in (False, True):
        scenario = draw_upgrade(2, upgrade("4.0.2", "4.1.2", mode="kraft", back=back))
        assert not [step for step in scenario.steps if isinstance(step, k.AwaitMetadataSnapshots)]
        assert "metadata.log.max.snapshot.interval.ms" not in scenario.cluster.properties


@pytest.mark.parametrize("controllers", [1, 3])
def test_upgrades_with_kraft_can_be_played_under_faults(controllers: int):
    kinds = set()
    for seed in range(6):
        of = upgrade("3.9.1", "4.1.2", mode="kraft", controllers=controllers, mix="mixed")
        scenario = draw_upgrade(seed, of)
        releases = {kafka: kafka for kafka in named_kafkas(scenario)}
        check_steps(scenario)
        check_settings(scenario, releases)
        check_modes(scenario, releases)
        assert k.Scenario.from_json(scenario.to_json()) == scenario
        away: set[str] = set()
        for step in scenario.steps:
            done = step.do if isinstance(step, k.IfPossible) else step
            if isinstance(done, k.Heal):
                away.discard(done.name)
            if not isinstance(done, k.Inject):
                continue
            kinds.add(type(done.fault))
            if isinstance(done.fault, k.UpdateFeatures) or done.name.startswith("controllers-"):
                assert not away, "no controller is away while another is rolled, or levels change"
            elif done.fault.lasting and getattr(done.fault, "broker", 0) in of.quorum:
                away.add(done.name)
    assert len(kinds) > 4


def test_no_broker_is_rolled_while_what_it_tells_the_controllers_is_held():
    """It would not register again before the roll gives up."""
    rolled = 0
    for seed in range(10):
        held: dict[str, k.HoldRequests] = {}
        for step in draw_upgrade(seed, upgrade("4.0.2", "4.1.2", mode="kraft", mix="mixed")).steps:
            match step.do if isinstance(step, k.IfPossible) else step:
                case k.Inject(
                    name=name, fault=k.HoldRequests(api="BrokerHeartbeat" | "Fetch") as hold
                ):
                    held |= {name: hold} if hold.target is None else {}
                case k.Heal(name=name):
                    held.pop(name, None)
                case k.Inject(fault=k.RollBroker(broker=broker)):
                    rolled += len(held)
                    assert broker not in {hold.source for hold in held.values()}
    assert rolled, "others are rolled meanwhile"


@pytest.mark.slow
@pytest.mark.parametrize("stepped", [True, False])
@pytest.mark.parametrize("mix", ["", *MIXES])
def test_what_is_drawn_can_be_played_and_shrunk(mix: str, *, stepped: bool):
    for seed in range(3):
        scenario = draw_upgrade(seed, upgrade("1.1.1", "2.0.1", mix=mix, stepped=stepped))
        releases = {kafka: kafka for kafka in named_kafkas(scenario)}
        check_steps(scenario)
        check_settings(scenario, releases)
        check_modes(scenario, releases)
        assert view_of(scenario).brokers == BROKERS


def test_faults_act_in_each_phase_and_are_healed_before_the_operator_waits():
    scenario = draw_upgrade(3, upgrade("2.1.1", "2.2.2", mix="mixed"))
    plain = draw_upgrade(3, upgrade("2.1.1", "2.2.2"))
    assert len(rolls(scenario)) == len(rolls(plain)) == 6
    drawn = [step for step in scenario.steps if isinstance(step, k.IfPossible)]
    assert any(isinstance(step.do, k.Inject) for step in drawn)
    acting: dict[str, bool] = {}
    for step in scenario.steps:
        match step:
            case k.IfPossible(do=k.Inject(name=name, fault=fault)):
                acting |= {name: True} if fault.lasting else {}
            case k.IfPossible(do=k.Heal(name=name)):
                acting.pop(name, None)
            case k.IfPossible(do=k.AwaitInSync(timeout_s=60)):
                assert not acting
            case _:
                pass


def test_writes_are_under_way_when_a_broker_is_asked_to_stop():
    scenario = draw_upgrade(1, upgrade("2.1.1", "2.2.2", stepped=True))
    assert scenario.case == "2.1.1-to-2.2.2-stepped"
    for number, step in enumerate(scenario.steps):
        if isinstance(step, k.Inject):
            before = scenario.steps[number - 1]
            assert isinstance(before, k.IfPossible)
            assert isinstance(before.do, k.Produce)
            assert (before.do.acks, before.do.await_answer) == (-1, False)
    assert not scenario.cluster.client_links


@pytest.mark.slow
@pytest.mark.parametrize(("older", "idempotent"), [("0.10.2.2", 0), ("2.1.1", 1)])
@pytest.mark.parametrize("mix", ["", *MIXES])
def test_free_clients_run_from_before_the_first_roll_until_after_the_last(
    older: str, idempotent: int, mix: str
):
    scenario = draw_upgrade(1, upgrade(older, "2.2.2", mix=mix))
    kinds = [type(getattr(step, "do", step)).__name__ for step in scenario.steps]
    start = scenario.steps[1]

    assert kinds[0] == "CreateTopic"
    assert isinstance(start, k.StartClients)
    assert (start.plain, start.idempotent, start.alone, start.in_group) == (1, idempotent, 1, 0)
    assert kinds[-1] == "StopClients"
    assert "Inject" in kinds
    assert not {"Produce", "DeleteTopic", "CreateTopic", "TakeSnapshot"} & {*kinds[2:]}
    assert scenario.cluster.client_links


@pytest.mark.parametrize("stepped", [True, False])
def test_a_command_of_ones_own_runs_beside_all_rolls(*, stepped: bool):
    mine = replace(upgrade("2.1.1", "2.2.2", stepped=stepped), workload=("./my_test.sh", "--fast"))
    scenario = draw_upgrade(1, mine)
    workload = k.StartWorkload(command=("./my_test.sh", "--fast"))
    ends = [k.StopClients(name="workload"), *[k.StopClients(name="clients-t")] * (not stepped)]
    rolls = [number for number, step in enumerate(scenario.steps) if isinstance(step, k.Inject)]

    assert scenario.steps.index(workload) < min(rolls)
    assert [*scenario.steps[-len(ends) :]] == ends
    assert scenario.cluster.properties["auto.create.topics.enable"] == "true"
    assert scenario.cluster.client_links
    without = draw_upgrade(1, replace(mine, workload=()))
    assert re.fullmatch(f"{without.case}-workload-my_test.sh-[0-9a-f]{{6}}", scenario.case)
    assert scenario.case == draw_upgrade(2, mine).case
    other = draw_upgrade(1, replace(mine, workload=("./my_test.sh", "--slow")))
    assert other.case != scenario.case
    told = without.title.removesuffix(", seed 1")
    assert scenario.title == f"{told}, beside ./my_test.sh --fast, seed 1"


def test_what_kafka_does_not_support_is_refused_unless_it_is_wanted():
    of = upgrade("3.9.1", "2.8.2")
    with pytest.raises(
        k.UsageError, match=r"Kafka does not support this: .* --unsupported runs it"
    ):
        require_upgrade(of, unsupported=False)
    require_upgrade(of, unsupported=True)


def test_what_makes_no_sense_is_refused_always():
    with pytest.raises(k.UsageError, match="there is nothing to upgrade"):
        require_upgrade(upgrade("2.8.2", "2.8.2"), unsupported=True)
    with pytest.raises(k.UsageError, match="one roll is all there is"):
        require_upgrade(upgrade("2.0.0", "2.0.1", one_roll=True), unsupported=True)
    with pytest.raises(k.UsageError, match="are left out of upgrades"):
        require_upgrade(upgrade("2.1.1", "2.2.2", mix="walks"), unsupported=True)


def test_options_of_one_mode_are_refused_in_the_other():
    for of, why in (
        (upgrade("3.9.1", "4.0.2", mode="kraft", one_roll=True), "kafka-features, and never by"),
        (upgrade("2.8.2", "3.9.1", controllers=3), "say --mode kraft as well"),
        (upgrade("4.1.2", "4.0.2", mode="kraft", back=True), "--back is for upgrades"),
        (upgrade("2.8.2", "3.9.1", back=True, finalize=True), "for --back with KRaft"),
        (upgrade("4.0.2", "4.1.2", mode="kraft", finalize=True), "for --back with KRaft"),
    ):
        with pytest.raises(k.UsageError, match=why):
            require_upgrade(of, unsupported=True)


def test_the_command_line_has_the_same_mixes():
    assert UPGRADE_MIXES == MIXES


@pytest.mark.parametrize(
    ("back_from", "expected"),
    [
        ("", "provision migration:migration kraft:kraft finalize:kraft"),
        ("provision", "provision deprovision"),
        ("migration", "provision migration:migration deprovision back:zookeeper"),
        (
            "kraft",
            "provision migration:migration kraft:kraft kraft-back:migration deprovision "
            "back:zookeeper",
        ),
    ],
)
def test_a_migration_goes_phase_by_phase_and_back_as_it_came(back_from: str, expected: str):
    of = upgrade("3.9.1", "3.9.1", migrates=True, back_from=back_from, controllers=3)
    require_upgrade(of, unsupported=False)
    of_phases = phases(of)
    assert " ".join(filter(None, (f"{p.name}:{p.stage}".strip(":") for p in of_phases))) == expected
    scenario = draw_upgrade(4, of)
    assert [fault.stage for _, fault in rolls(scenario)] == [
        phase.stage for phase in of_phases for _ in phase.nodes
    ]
    # Metadata are in both logs before a broker leaves ZooKeeper.
    awaited = [n for n, step in enumerate(scenario.steps) if isinstance(step, k.AwaitMigration)]
    names = [getattr(scenario.steps[place - 1], "name", "")[:9] for place in awaited]
    assert names == ["migration", "finalize-"][: back_from != "provision" and 1 + (not back_from)]
    check_steps(scenario)
    check_settings(scenario, {"3.9.1": "3.9.1"})
    check_modes(scenario, {"3.9.1": "3.9.1"})
    assert k.Scenario.from_json(scenario.to_json()) == scenario


@pytest.mark.parametrize("mix", MIXES)
def test_each_phase_of_a_migration_draws_faults_of_the_mode_that_decides(mix: str):
    drawn: dict[str, set[str]] = {"zookeeper": set(), "kraft": set()}
    for seed, back_from in product(range(8), ("", "kraft")):
        of = upgrade("3.9.1", "3.9.1", mix=mix, migrates=True, back_from=back_from, controllers=3)
        require_upgrade(of, unsupported=False)
        scenario = draw_upgrade(seed, of)
        check_steps(scenario)
        check_modes(scenario, {"3.9.1": "3.9.1"})
        mode: Mode = "zookeeper"
        acting: set[str] = set()
        for step in scenario.steps:
            inner = step.do if isinstance(step, k.IfPossible) else step
            if isinstance(inner, k.AwaitMigration | k.DeprovisionControllers):
                # The controllers wait for every broker, so nothing acts.
                assert not acting
                mode = "kraft" if isinstance(inner, k.AwaitMigration) else "zookeeper"
            elif isinstance(inner, k.Inject) and not isinstance(inner.fault, k.RollBroker):
                decides = k.ClusterSpec(brokers=scenario.cluster.brokers, mode=mode)
                assert not refused_by_mode(inner.fault, decides, dict.fromkeys(BROKERS, "3.9.1"))
                drawn[mode].add(inner.name.rpartition("-")[0])
                acting |= {inner.name} if inner.fault.lasting else set()
            elif isinstance(inner, k.Heal):
                acting.discard(inner.name)
    assert all(drawn.values())


@pytest.mark.parametrize(
    ("of", "why"),
    [
        ({"back_from": "finalize"}, "finalized cannot go back to ZooKeeper .*docs/ops.html"),
        ({"back": True}, "--back is for binaries: --back-from says"),
        ({"mode": "kraft"}, "--migrate is from ZooKeeper"),
        ({"migrates": False, "back_from": "kraft"}, "--back-from is for --migrate"),
        ({"older": "3.6.2", "back_from": "kraft"}, "the first that has directions is that of 3.7"),
    ],
)
def test_what_a_migration_has_not_is_refused(of: dict[str, Any], why: str):
    older = of.pop("older", "3.9.1")
    with pytest.raises(k.UsageError, match=why):
        require_upgrade(upgrade(older, older, **{"migrates": True, **of}), unsupported=False)


def test_a_controllers_id_is_no_brokers():
    with pytest.raises(k.ReleaseError, match="100 is a controller's id, so no broker can have it"):
        k.ClusterSpec(brokers=k.brokers_of("3.9.1", (0, 100)), migrates=True)
