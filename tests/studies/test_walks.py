"""Walks as scenarios: each act as steps, with what the model predicts or without."""

import json
from pathlib import Path
from typing import Any

import pytest

import kchaos as k
import tests.support.model as m
from kchaos.checkers.model import generation_for
from kchaos.clusters.releases import release_of
from kchaos.harness.campaign.campaign import judged
from kchaos.harness.player.shrinking import coherent
from kchaos.studies.explore import ActedBrokers, ActedCluster, Schedule
from kchaos.studies.explore.acts import KINDS, waits_for_zookeeper
from kchaos.studies.explore.at_once import PARTITION
from kchaos.studies.explore.moves import ChaosMove
from kchaos.studies.explore.schedules import wrong_at_end
from kchaos.studies.explore.walk import WIDE_WALK_WEIGHTS, conflicts
from kchaos.studies.schedule_scenarios import steps_of, text_of
from kchaos.studies.walks import draw_walk, walk_of, wide_walk_of
from tests.support.drivers import play_options

pytestmark = pytest.mark.slow


def drawn(seed: int, **more: Any) -> k.Scenario:
    return k.draw(seed, **{"kafka": "2.8.2", "steps": 25, "mix": "walks", **more})


def schedule_of(
    *acts: ChaosMove, release: str = "2.8.2", without: tuple[str, ...] = (), brokers: int = 2
) -> Schedule:
    """The schedule of these acts for so many brokers; nothing is healed at the end."""
    generation = generation_for(release, without=without)
    cluster = ActedCluster(ActedBrokers(generations=dict.fromkeys(range(brokers), generation)))
    states = [cluster.begin()]
    for number, act in enumerate(acts):
        state = cluster.after(states[-1], act, f"record-{number}")
        assert state is not None
        states.append(state)
    return Schedule(acts=acts, states=tuple(states), healing=0, message="")


def is_gate(step: k.Step) -> bool:
    return type(step).__name__.startswith("Await")


def test_a_walk_says_what_it_is_and_survives_its_json_form():
    scenario = drawn(4711, gated=False)
    assert (scenario.entry, scenario.case, scenario.seed) == ("chaos", "walks-no-gates", 4711)
    assert scenario.title == "25 acts (walks, without gates), seed 4711"
    assert k.Scenario.from_json(json.loads(json.dumps(scenario.to_json()))) == scenario
    assert drawn(4711).case == "walks"


def test_replicas_and_settings_are_drawn_and_the_controller_is_one_more_broker():
    brokers, in_sync, unclean = set(), set(), set()
    for seed in range(25):
        scenario = drawn(seed, steps=1)
        spec = scenario.cluster
        created = scenario.steps[0]
        assert isinstance(created, k.CreateTopic)
        (replicas,) = created.assignment
        assert spec.first_broker == len(replicas) == len(spec.brokers) - 1
        brokers.add(len(replicas))
        in_sync.add(spec.properties["min.insync.replicas"])
        unclean.add(spec.properties["unclean.leader.election.enable"])
        assert spec.properties["zookeeper.session.timeout.ms"] == "18000"
    assert (brokers, in_sync, unclean) == ({2, 3}, {"1", "2"}, {"true", "false"})


def test_the_model_s_rules_are_those_of_the_distribution_s_release():
    patched = draw_walk(3, kafka="/patched", release="0.10.2.2", steps=25, gated=True)
    assert {broker.kafka for broker in patched.cluster.brokers} == {"/patched"}
    assert patched.steps == drawn(3, kafka="0.10.2.2").steps


def test_gates_are_what_the_model_predicts_after_each_act():
    schedule = schedule_of(
        ChaosMove("cut", 0, 1),
        ChaosMove("prefer", -1),
        ChaosMove("expire", 0),
        ChaosMove("write-one", 1),
    )
    topic, reorder, *steps = steps_of(schedule, gated=True)
    assert topic == k.CreateTopic(topic="t", assignment=((0, 1),))
    assert reorder == k.ReorderReplicas(topic="t", partition=0, replicas=(1, 0))
    assert [step for step in steps if is_gate(step)] == [
        k.AwaitQuiet(),
        k.AwaitQuiet(),
        k.AwaitState(topic="t", partition=0, leader=1, isr=(0, 1)),
        k.AwaitQuiet(),
        k.AwaitState(topic="t", partition=0, leader=1, isr=(1,)),
        k.AwaitQuiet(),
        k.AwaitReplicated(topic="t", partition=0, brokers=(1,), log_end_offset=1),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=(1,), high_watermark=1),
    ]
    assert sum(isinstance(step, k.Tell) for step in steps) == 4


@pytest.mark.parametrize(("release", "gives_up"), [("1.1.1", False), ("2.5.1", True)])
def test_a_follower_that_gave_up_a_held_answer_is_told_its_high_watermark_again(
    release: str, gives_up: bool
):
    """Since 2.1.0 a new leader epoch makes it fetch anew, and then in a new fetch session."""
    schedule = schedule_of(
        ChaosMove("hold-next-answers", 1), ChaosMove("write-all", 0),
        ChaosMove("kill", 2), ChaosMove("release", 1),
        release=release, brokers=3,
    )  # fmt: skip
    steps = steps_of(schedule, gated=True)
    assert (k.AwaitFetches(follower=1, leader=0, count=1) in steps) is gives_up
    assert steps[-1] == k.AwaitHighWatermark(topic="t", partition=0, brokers=(1,), high_watermark=1)


@pytest.mark.parametrize("has_session", [False, True])
def test_nothing_is_written_to_a_leader_that_waits_for_zookeeper_to_expand_its_isr(
    has_session: bool,
):
    cluster = ActedCluster(
        ActedBrokers(generations=dict.fromkeys(range(2), generation_for("2.1.1")))
    )
    state = cluster.begin()
    left_and_caught_up = (
        ChaosMove("cut", 0, 1), ChaosMove("write-one", 0), ChaosMove("expire", 1),
        ChaosMove("register", 1), ChaosMove("expire", 1), ChaosMove("expire", 0),
        ChaosMove("heal", 0, 1),
    )  # fmt: skip
    for number, act in enumerate((*left_and_caught_up, *[ChaosMove("register", 0)] * has_session)):
        after = cluster.after(state, act, f"record-{number}")
        assert after is not None
        state = after
    assert (cluster.after(state, ChaosMove("write-one", 0), "last") is not None) is has_session


@pytest.mark.parametrize(
    ("release", "without", "joins"),
    [("3.2.3", (), True), ("3.3.2", (), False), ("3.3.2", ("KIP-841",), True)],
)
def test_a_follower_whose_session_has_ended_does_not_join_the_isr(
    release: str, without: tuple[str, ...], joins: bool
):
    """Broker 1 knows the leader epoch, and is not alive when it fetches (KIP-841)."""
    left_and_told = ChaosMove("expire", 1), ChaosMove("cut", 0, 1), ChaosMove("register", 1)
    schedule = schedule_of(
        *left_and_told, ChaosMove("expire", 1), ChaosMove("heal", 0, 1), ChaosMove("register", 1),
        release=release, without=without,
    )  # fmt: skip
    isr_after = [state(("state", PARTITION)).isr for state in schedule.states]
    assert isr_after[-2:] == [(0, 1) if joins else (0,), (0, 1)]


@pytest.mark.parametrize(
    ("release", "without", "learns"),
    [
        ("2.0.1", (), True),
        ("2.1.1", (), False),
        ("2.1.1", ("KIP-227",), True),
        ("2.4.1", (), False),
        ("2.5.1", (), True),
    ],
)
def test_a_high_watermark_told_to_a_fetch_of_an_earlier_epoch_is_not_waited_for(
    release: str, without: tuple[str, ...], learns: bool
):
    """Broker 1's fetch waits at the leader when broker 2 leaves the ISR (KAFKA-9338)."""
    schedule = schedule_of(
        ChaosMove("cut", 0, 2), ChaosMove("write-one", 0), ChaosMove("kill", 2),
        release=release, without=without, brokers=3,
    )  # fmt: skip
    gates = [step for step in steps_of(schedule, gated=True) if is_gate(step)]
    waits = k.AwaitHighWatermark(topic="t", partition=0, brokers=(1,), high_watermark=1)
    assert (waits in gates) is learns


def test_a_follower_without_a_session_has_fetched_on_before_it_is_looked_for_in_the_isr():
    schedule = schedule_of(ChaosMove("expire", 1), ChaosMove("register", 1), release="1.1.1")
    _, _, *steps = steps_of(schedule, gated=True)
    assert [step for step in steps if is_gate(step)] == [
        k.AwaitFetches(follower=1, leader=0),
        k.AwaitQuiet(),
        k.AwaitState(topic="t", partition=0, leader=0, isr=(0, 1), leader_epoch=2),
        k.AwaitQuiet(),
    ]


@pytest.mark.parametrize("release", ["2.1.1", "2.8.2"])
def test_a_held_answer_is_given_up_where_the_leader_would_refuse_the_next_fetch(release: str):
    """Broker 1 has no session, and is not told the epoch in which it is out of the ISR."""
    schedule = schedule_of(
        ChaosMove("hold-next-answers", 1), ChaosMove("write-one", 0), ChaosMove("write-one", 0),
        ChaosMove("expire", 1), ChaosMove("release", 1),
        release=release,
    )  # fmt: skip
    end = m.World(schedule.states[-1]).known_replica(1, PARTITION).log.end_offset_on_disk()
    assert end == 1
    assert k.AwaitFetches(follower=1, leader=0, count=1) in steps_of(schedule, gated=True)


@pytest.mark.parametrize(("release", "waits"), [("2.2.2", True), ("2.8.2", False)])
def test_no_high_watermark_is_waited_for_where_the_leader_waits_for_zookeeper(
    release: str, waits: bool
):
    """Neither broker has a session, and the leader is to take broker 1 into the ISR."""
    schedule = schedule_of(
        ChaosMove("cut", 0, 1), ChaosMove("write-one", 0), ChaosMove("expire", 1),
        ChaosMove("register", 1), ChaosMove("expire", 1), ChaosMove("expire", 0),
        ChaosMove("heal", 0, 1),
        release=release,
    )  # fmt: skip
    assert waits_for_zookeeper(m.World(schedule.states[-1]), 0) is waits
    told = k.AwaitHighWatermark(topic="t", partition=0, brokers=(1,), high_watermark=1)
    assert (told in steps_of(schedule, gated=True)) is not waits


@pytest.mark.parametrize("release", ["2.1.1", "2.8.2", "3.9.1"])
def test_a_follower_whose_answers_are_held_asks_anew_in_a_newer_leader_epoch(release: str):
    """Its time is over some time after it was told, and the leader takes it into the ISR again."""
    schedule = schedule_of(
        ChaosMove("hold-answers", 2), ChaosMove("expire", 2), ChaosMove("register", 2),
        release=release, brokers=3,
    )  # fmt: skip
    isr_after = [state(("state", PARTITION)).isr for state in schedule.states]
    assert isr_after == [(0, 1, 2), (0, 1, 2), (0, 1), (0, 1, 2)]
    gates = [step for step in steps_of(schedule, gated=True) if is_gate(step)]
    assert gates[-3:] == [
        k.AwaitQuiet(),
        k.AwaitFetches(follower=2, leader=0, count=1),
        k.AwaitState(topic="t", partition=0, leader=0, isr=(0, 1, 2)),
    ]


def test_without_gates_each_act_is_tried_at_once_after_what_an_election_needs():
    schedule = schedule_of(
        ChaosMove("cut", 0, 1), ChaosMove("prefer", -1), ChaosMove("write-one", 1)
    )
    _, _, *steps = steps_of(schedule, gated=False)
    needed = k.AwaitState(topic="t", partition=0, leader=0, isr=(0, 1), timeout_s=3.0)
    write = k.Produce(
        operation="record-2", topic="t", partition=0, records=1, acks=1, broker=1,
        accept_error=True, timeout_s=3.0,
    )  # fmt: skip
    assert steps == [
        k.IfPossible(do=k.Inject(name="link-0-1", fault=k.CutLink(source=0, target=1))),
        k.IfPossible(do=needed),
        k.IfPossible(do=k.Inject(name="elect", fault=k.PreferredElection(topic="t", partition=0))),
        k.IfPossible(do=write),
    ]


def test_what_is_held_is_what_the_model_holds():
    schedule = schedule_of(
        ChaosMove("write-pair", 0), ChaosMove("hold-next-answers", 1), ChaosMove("release", 1)
    )
    acts = [step for step in steps_of(schedule, gated=True) if isinstance(step, k.Inject | k.Heal)]
    held = k.HoldRequests(
        name="hold-1", api="Fetch", source=1, direction="response", fetch_offset_at_least=3
    )
    assert acts == [k.Inject(name="hold-1", fault=held), k.Heal(name="hold-1")]


@pytest.mark.parametrize("seed", range(8))
def test_with_gates_and_without_the_same_is_done_and_all_of_it_is_healed(seed: int):
    gated, at_once = (
        [
            step.do if isinstance(step, k.IfPossible) else step
            for step in drawn(seed, gated=each).steps
        ]
        for each in (True, False)
    )

    def done(steps: list[Any]) -> list[Any]:
        kinds = k.Inject | k.Heal | k.ReorderReplicas
        writes = [step.operation if isinstance(step, k.Produce) else step for step in steps]
        return [step for step in writes if isinstance(step, kinds | str)]

    assert done(gated) == done(at_once)
    acting = set()
    for step in gated:
        if isinstance(step, k.Inject) and step.fault.lasting:
            assert step.name not in acting
            acting.add(step.name)
        if isinstance(step, k.Heal):
            acting.remove(step.name)
    assert acting == set()


def test_a_bounce_is_over_before_the_controller_goes_on():
    _, _, *steps = steps_of(schedule_of(ChaosMove("bounce", 1), release="2.1.1"), gated=True)
    assert [step for step in steps if isinstance(step, k.Inject | k.Heal | k.AwaitHeld)] == [
        k.Inject(name="controller-record-0", fault=k.HoldController(broker=2)),
        k.Inject(name="bounce-record-0", fault=k.FastBounce(broker=1)),
        k.AwaitHeld(name="controller-record-0"),
        k.Heal(name="controller-record-0"),
    ]


@pytest.mark.parametrize(
    ("release", "told"), [("2.1.1", [(), (1,), (1,), ()]), ("2.2.2", [()] * 4)]
)
def test_quiet_waits_for_no_broker_that_the_model_says_is_told_nothing(
    release: str, told: list[tuple[int, ...]]
):
    acts = [
        ChaosMove("write-all", 0),
        ChaosMove("bounce", 1),
        ChaosMove("write-one", 0),
        ChaosMove("kill", 1),
    ]
    steps = steps_of(schedule_of(*acts, release=release), gated=True)
    assert [step.untold for step in steps if isinstance(step, k.AwaitQuiet)] == told


def wide(seed: int, **more: Any) -> k.Scenario:
    return drawn(seed, **{"mix": "wide-walks", "steps": 8, **more})


def formats_in(scenario: k.Scenario) -> set[str | None]:
    """What brokers write, the controller's own not."""
    return {
        broker.properties.get("log.message.format.version") for broker in scenario.cluster.brokers
    } - {None}


@pytest.fixture
def one_walk_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No choice among the walks of a seed, which is tested by itself and takes long."""
    monkeypatch.setattr("kchaos.studies.walks._FIRST_WALKS", 1)
    monkeypatch.setattr("kchaos.studies.walks._MOST_WALKS", 1)


@pytest.mark.usefixtures("one_walk_a_seed")
def test_a_wide_walk_is_the_same_each_time_and_another_one_than_the_walk_of_its_seed():
    assert wide(3) == wide(3)
    assert wide(3).case == "wide-walks"
    assert wide(3).steps != drawn(3, steps=8).steps


@pytest.mark.usefixtures("one_walk_a_seed")
def test_wide_walks_have_more_replicas_and_clean_elections_alone():
    clusters = [wide(seed, kafka="2.2.0", steps=2).cluster for seed in range(25)]
    assert {len(cluster.brokers) for cluster in clusters} == {3, 4, 5}
    unclean = {cluster.properties["unclean.leader.election.enable"] for cluster in clusters}
    assert unclean == {"false"}


@pytest.mark.usefixtures("one_walk_a_seed")
def test_wide_walks_write_two_message_formats_where_a_release_has_two():
    written = [formats_in(wide(seed, kafka="2.2.0", steps=2)) for seed in range(12)]
    assert {"0.10.2", "0.11.0"} in written
    assert [formats_in(wide(seed, kafka="2.8.2", steps=2)) for seed in range(3)] == [set()] * 3


@pytest.mark.parametrize(("release", "steps"), [("1.1.1", 15), ("3.9.1", 3)])
def test_of_the_walks_of_a_seed_one_that_goes_wrong_is_taken_else_the_one_with_most_conflicts(
    release: str, steps: int, monkeypatch: pytest.MonkeyPatch
):
    kept: list[Schedule] = []

    def counted(schedule: Schedule) -> int:
        kept.append(schedule)
        return conflicts(schedule)

    monkeypatch.setattr("kchaos.studies.walks.conflicts", counted)
    schedule, _, _ = wide_walk_of(2, release=release, steps=steps)
    wrong = [each for each in kept if wrong_at_end(each)]
    assert len(kept) == 40 or wrong
    assert len(kept) == 8 or not wrong[:-1]
    assert conflicts(schedule) == max(map(conflicts, wrong or kept))
    assert schedule in (wrong or kept)


@pytest.mark.usefixtures("one_walk_a_seed")
def test_wide_walks_bounce_brokers_except_where_a_controller_reads_before_it_is_held(
    monkeypatch: pytest.MonkeyPatch,
):
    """Nothing else is drawn as often here, so that short walks have it."""
    weights = {**WIDE_WALK_WEIGHTS, "bounce": 1000}
    monkeypatch.setattr("kchaos.studies.walks.WIDE_WALK_WEIGHTS", weights)

    def bounces(release: str) -> int:
        drawn_walks = [wide_walk_of(seed, release=release, steps=2)[0] for seed in range(12)]
        return sum(act.kind == "bounce" for walked in drawn_walks for act in walked.acts)

    assert bounces("2.1.1") > 5
    assert bounces("0.10.2.2") == 0


def test_every_kind_of_act_can_be_said():
    said = {text_of(ChaosMove(kind, 0, 1)) for kind in KINDS}
    assert len(said) == len(KINDS)


def test_a_part_of_a_walk_can_be_played():
    scenario = drawn(5)
    assert coherent(scenario.steps) == scenario.steps


def test_a_walk_that_ends_early_says_so_in_its_title(monkeypatch: pytest.MonkeyPatch):
    schedule, settings = walk_of(1, release="2.8.2", steps=1)
    early = Schedule(
        acts=schedule.acts, states=schedule.states, healing=schedule.healing,
        message="1 acts, for nothing was possible after 1",
    )  # fmt: skip
    monkeypatch.setattr("kchaos.studies.walks.walk_of", lambda *_, **__: (early, settings))
    assert "nothing was possible after 1" in drawn(1, steps=5).title


@pytest.mark.cluster
@pytest.mark.parametrize("release", ["2.8.2", "4.1.2"])
def test_a_walk_goes_on_real_brokers_as_the_model_predicts(release: str, tmp_path: Path):
    said: list[str] = []
    scenario = drawn(21033, kafka=release, steps=5)
    run_directory = k.play(scenario, options=play_options(tmp_path), say=said.append)
    results = judged(run_directory, said.append)
    shown = [str(results.unknown), results.reason, *map(str, results.findings)]
    assert (results.conforms, results.safe, results.expected) == (True, True, True), shown


def test_a_walk_of_a_quorum_has_no_broker_besides_and_cuts_brokers_off_from_controllers():
    scenario = drawn(21033, kafka="4.1.2", steps=40)
    faults = {type(step.fault) for step in scenario.steps if isinstance(step, k.Inject)}

    assert scenario.case == "walks"
    assert drawn(1, kafka="3.9.1", steps=1, mode="kraft").case == "walks-kraft"
    assert (scenario.cluster.mode, scenario.cluster.first_broker) == ("kraft", None)
    (created,) = (step for step in scenario.steps if isinstance(step, k.CreateTopic))
    assert {broker.id for broker in scenario.cluster.brokers} == {*created.assignment[0]}
    assert {k.CutControllers, k.FenceBroker} <= faults
    assert not faults & {k.CutZooKeeper, k.ExpireSession, k.FastBounce}


def quorum_after(release: str, *acts: ChaosMove, min_isr: int = 1) -> list[m.World]:
    """Return the states of three brokers with KRaft, before these acts and after each."""
    generation = generation_for(release, mode="kraft")
    levels = release_of(release).feature_levels
    brokers = ActedBrokers(
        generations=dict.fromkeys(range(3), generation), levels=levels, min_insync_replicas=min_isr
    )
    cluster, states = ActedCluster(brokers), list[m.State]()
    states.append(cluster.begin())
    for number, act in enumerate(acts):
        state = cluster.after(states[-1], act, f"record-{number}")
        assert state is not None
        states.append(state)
    return [m.World(state) for state in states]


@pytest.mark.parametrize(("release", "raised"), [("3.5.2", 1), ("3.6.2", 0)])
def test_who_leaves_the_isr_raises_the_leader_epoch_until_3_6(release: str, raised: int):
    before, after = quorum_after(release, ChaosMove("expire", 2))
    known, then = (world.partition_state(PARTITION) for world in (before, after))
    assert known is not None
    assert then is not None

    assert (then.leader, sorted(then.isr)) == (known.leader, [0, 1])
    assert then.leader_epoch - known.leader_epoch == raised


def test_a_broker_that_is_cut_off_reads_all_that_was_decided_at_once_when_it_is_back():
    *_, away, back = quorum_after(
        "4.1.2",
        ChaosMove("expire", 0), ChaosMove("write-all", 1), ChaosMove("expire", 2),
        ChaosMove("register", 0),
    )  # fmt: skip
    first, then = (world.known_replica(0, PARTITION) for world in (away, back))
    state = back.partition_state(PARTITION)
    assert state is not None

    assert first.role is m.Role.LEADER
    assert away.known_replica(1, PARTITION).role is m.Role.LEADER
    assert then.role is m.Role.FOLLOWER
    assert (then.leader, then.leader_epoch) == (1, state.leader_epoch)
    assert then.log.log_end_offset == 1


@pytest.mark.parametrize(
    ("release", "kind", "leader"),
    [("4.0.2", "terminate", -1), ("4.1.2", "terminate", 0), ("4.1.2", "kill", -1)],
)
def test_who_was_killed_is_not_eligible_any_more(release: str, kind: str, leader: int):
    """Its broker epoch says that it may have lost records; 4.0 keeps no eligible replicas."""
    *_, last = quorum_after(
        release,
        ChaosMove("expire", 2), ChaosMove(kind, 0), ChaosMove("expire", 1), ChaosMove("restart", 0),
        min_isr=2,
    )  # fmt: skip
    state = last.partition_state(PARTITION)
    assert state is not None
    assert state.leader == leader
