"""Schedules by the clock, beside clients that never wait."""

import json

import pytest

import kchaos as k
from kchaos.harness.player.free import FREE_MIXES, FreeRun, draw_free
from kchaos.harness.run.steps_checked import check_steps

MINUTE = FreeRun(for_s=60.0)


@pytest.mark.slow
@pytest.mark.parametrize("mix", FREE_MIXES)
@pytest.mark.parametrize("release", ["0.10.2.2", "2.8.2", "3.9.1"])
def test_a_seed_gives_one_schedule_that_can_be_saved_and_played(release: str, mix: str):
    for seed in range(5):
        scenario = draw_free(seed, MINUTE, kafka=release, mix=mix)

        check_steps(scenario)
        assert draw_free(seed, MINUTE, kafka=release, mix=mix) == scenario
        assert k.Scenario.from_json(json.loads(json.dumps(scenario.to_json()))) == scenario


def test_faults_come_by_the_clock_between_start_and_stop_of_clients():
    for seed in range(20):
        scenario = draw_free(seed, MINUTE, kafka="2.8.2")

        kinds = [type(step) for step in scenario.steps]
        assert kinds.index(k.StartClients) == 1, seed
        assert kinds[-1] is k.StopClients, seed
        clock = [step.until_s for step in scenario.steps if isinstance(step, k.LetClientsRun)]
        assert clock == sorted(clock), seed
        assert clock[-1] == MINUTE.for_s, seed
        assert scenario.cluster.client_links, seed


def test_what_acts_at_the_end_is_healed_while_clients_still_run():
    for seed in range(20):
        scenario = draw_free(seed, MINUTE, kafka="2.8.2", mix="cuts")

        done = [step.do for step in scenario.steps if isinstance(step, k.IfPossible)]
        cuts = [each.name for each in done if isinstance(each, k.Inject)]
        cuts = [name for name in cuts if name.startswith("cut-")]
        healed = [each.name for each in done if isinstance(each, k.Heal)]
        assert set(cuts) <= set(healed), seed
        assert len(healed) == len(set(healed)), seed


def test_a_command_of_one_s_own_runs_in_place_of_clients():
    free = FreeRun(for_s=60.0, workload=("./my_test.sh", "two words"))
    scenario = draw_free(7, free, kafka="2.8.2", mix="cuts")
    usual = draw_free(7, MINUTE, kafka="2.8.2", mix="cuts")

    own = k.StartWorkload(name="clients", command=free.workload)
    assert scenario.steps == (usual.steps[0], own, *usual.steps[2:])
    assert scenario.case.startswith("free-cuts-workload-my_test.sh-")
    assert scenario.title == "./my_test.sh 'two words' beside faults, for 60 s (cuts), seed 7"


def test_a_longer_run_has_more_acts_and_begins_alike():
    short = draw_free(7, MINUTE, kafka="2.8.2").steps
    long = draw_free(7, FreeRun(for_s=300.0), kafka="2.8.2").steps

    assert len(long) > 2 * len(short)
    assert long[:8] == short[:8]


def test_what_clients_cannot_bear_or_do_is_refused():
    with pytest.raises(k.UsageError, match="do not run freely with the mix topics"):
        draw_free(1, MINUTE, kafka="2.8.2", mix="topics")
    with pytest.raises(k.UsageError, match="10 s at least"):
        draw_free(1, FreeRun(for_s=5.0), kafka="2.8.2")
    with pytest.raises(k.UsageError, match="no transactions"):
        draw_free(1, FreeRun(for_s=60.0, transactions=True), kafka="0.10.2.2")


@pytest.mark.parametrize("seed", range(10))
def test_each_producer_has_a_partition(seed: int):
    scenario = draw_free(seed, FreeRun(for_s=60.0, transactions=True), kafka="2.8.2")

    topic, clients = scenario.steps[:2]
    assert isinstance(topic, k.CreateTopic)
    assert isinstance(clients, k.StartClients)
    assert clients.plain + clients.idempotent + clients.transactional == 3
    assert len(topic.assignment) == clients.partitions >= 3


def test_producer_ids_are_asked_for_where_there_are_some():
    def clients(release: str, *, transactions: bool = False) -> k.StartClients:
        free = FreeRun(for_s=60.0, transactions=transactions)
        scenario = draw_free(1, free, kafka=release)
        (start,) = [step for step in scenario.steps if isinstance(step, k.StartClients)]
        return start

    assert (clients("0.10.2.2").plain, clients("0.10.2.2").idempotent) == (1, 0)
    assert (clients("2.8.2").idempotent, clients("2.8.2").transactional) == (1, 0)
    assert clients("2.8.2", transactions=True).transactional == 1
    assert clients("2.8.2", transactions=True).alone_committed == 1
