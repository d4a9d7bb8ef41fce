"""Times without service are found where they were planted, are 0 in a clean run, else unknown."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import kchaos as k
from kchaos.checkers.acts import PauseBroker, ResumeBroker, StartBroker, StopBroker
from kchaos.checkers.availability import Availability, Outage, bounds_of, measure
from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.clients import CLIENTS, ClientBatch, ClientLine, ClientPartition
from kchaos.checkers.evidence.history import record_payloads
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.json_form import from_json, to_json
from kchaos.checkers.observations import Healed, Injected, Standstill, StoodStill
from kchaos.checkers.results import write_judgement
from kchaos.checkers.run_line import is_unknown, line_of
from kchaos.harness.exits import FINDING, UNKNOWN, exit_code_for_lines
from kchaos.harness.report.text import text_report
from tests.support.clean_runs import clean_run, clean_snapshot
from tests.support.rule_evidence import client_line
from tests.support.run_builder import RunBuilder

T = k.TopicPartition("t", 0)


def measured(build: RunBuilder) -> Availability:
    return measure(RunEvidence(clean_snapshot(build).seal()))


def seconds(availability: Availability, kind: Any) -> list[float]:
    return [outage.seconds for outage in availability.outages if outage.kind == kind]


# -- leaders and ISRs: the builder's clock moves by a second with each line ------------------------


def test_a_clean_run_was_never_without_leader_or_under_min_isr(tmp_path: Path):
    availability = measured(clean_run(tmp_path / "run"))

    (partition,) = availability.partitions
    assert (partition.without_leader_s, partition.under_min_isr_s) == (0.0, 0.0)
    assert partition.measured_s > 0
    assert availability.outages == ()


def test_the_time_without_a_leader_is_that_between_two_decisions(tmp_path: Path):
    build = clean_run(tmp_path / "run").state(-1, 2, [0, 1])
    build.clock += 6
    build.state(1, 3, [0, 1])

    availability = measured(build)

    assert seconds(availability, "no-leader") == [7.0]
    assert availability.partitions[0].without_leader_s == 7.0


def test_a_leader_that_is_dead_leads_nobody_before_that_is_decided(tmp_path: Path):
    build = clean_run(tmp_path / "run").act(StopBroker(broker=0, clean=False))
    build.clock += 3
    build.close_session(0x10).state(1, 2, [1])

    assert seconds(measured(build), "no-leader") == [5.0]


def test_a_leader_that_was_back_at_once_leads_when_it_is_registered_again(tmp_path: Path):
    build = clean_run(tmp_path / "run").act(StopBroker(broker=0, clean=False))
    build.act(StartBroker(broker=0, release="1.1.1"))
    build.clock += 2
    build.register(0, 0x12)

    assert seconds(measured(build), "no-leader") == [4.0]


def test_a_leader_that_stands_still_leads_nobody_meanwhile(tmp_path: Path):
    build = clean_run(tmp_path / "run").act(PauseBroker(broker=0))
    build.clock += 2
    build.act(ResumeBroker(broker=0))

    assert seconds(measured(build), "no-leader") == [3.0]


def test_a_follower_that_dies_leaves_its_partition_a_leader(tmp_path: Path):
    build = clean_run(tmp_path / "run").act(StopBroker(broker=1, clean=False))

    assert seconds(measured(build), "no-leader") == []


def test_what_lasts_to_the_end_is_not_over(tmp_path: Path):
    availability = measured(clean_run(tmp_path / "run").state(-1, 2, [0, 1]))

    (outage,) = availability.outages
    assert (outage.kind, outage.is_over) == ("no-leader", False)
    assert outage.seconds > 0


@pytest.mark.parametrize(("min_isr", "expected"), [(1, []), (2, [4.0])])
def test_an_isr_that_is_too_small_counts_from_its_decision(
    min_isr: int, expected: list[float], tmp_path: Path
):
    build = RunBuilder(tmp_path / "run").begin_with(2, min_insync_replicas=min_isr)
    build.topic("t", [0, 1]).state(0, 1, [0, 1]).state(0, 1, [0])
    build.clock += 3
    build.state(0, 1, [0, 1])
    build.produce("both", 0, [f"both-{index}" for index in range(11)], acks=-1, base_offset=0)

    assert seconds(measured(build), "under-min-isr") == expected


def test_seconds_of_a_part_of_a_run_are_those_in_it_and_count_once():
    def outage(partition: int, began: float, ended: float) -> Outage:
        return Outage(
            kind="no-leader", topic="t", partition=partition, began=began, ended=ended, is_over=True
        )

    availability = Availability(outages=(outage(0, 10, 20), outage(1, 15, 30)))

    assert availability.seconds_between("no-leader", 0, 100) == 20
    assert availability.seconds_between("no-leader", 12, 17) == 5
    assert availability.seconds_between("no-leader", 0, 100, k.TopicPartition("t", 1)) == 15
    assert availability.seconds_between("under-min-isr", 0, 100) == 0


# -- what links saw of clients --------------------------------------------------------------------


def line(api: str, direction: Any, time: float, **fields: Any) -> ClientLine:
    return client_line(api, direction, time=time, **fields)


def sent(offset: int) -> ClientBatch:
    return ClientBatch(
        base_offset=offset,
        last_offset=offset,
        magic=2,
        codec="none",
        payloads=record_payloads([f"value-{offset}"]),
    )


def write(
    offset: int, asked: float, answered: float | None, *, acks: int = -1, error_code: int = 0
) -> list[ClientLine]:
    """A write and its answer, at seconds after the run's first leader."""
    named = ClientPartition(topic="t", partition=0, batches=(sent(offset),))
    base_offset = -1 if error_code else offset
    told = ClientPartition(topic="t", partition=0, base_offset=base_offset, error_code=error_code)
    lines = [line("Produce", "request", asked, acks=acks, partitions=(named,))]
    if answered is not None:
        lines.append(line("Produce", "response", answered, partitions=(told,)))
    return lines


def read(offset: int, asked: float, answered: float, *, count: int = 1) -> list[ClientLine]:
    wanted = ClientPartition(topic="t", partition=0, fetch_offset=offset)
    came = ClientPartition(
        topic="t",
        partition=0,
        high_watermark=100,
        batches=tuple(sent(each) for each in range(offset, offset + count)),
    )
    group = {"group": "readers"}
    return [
        line("Fetch", "request", asked, partitions=(wanted,), **group),
        line("Fetch", "response", answered, partitions=(came,), **group),
    ]


def with_clients(path: Path, *exchanges: list[ClientLine], **fields: Any) -> k.RunDirectory:
    """A run in which clients wrote and read what these lines say, on their own clock."""
    build = clean_run(path, client_links=True, **fields)
    zero = build.clock
    build.run.begin(CLIENTS)
    number = 0
    for correlation, exchange in enumerate(exchanges, start=1):
        for each in exchange:
            number += 1
            moved = replace(
                each, sequence=number, correlation_id=correlation, time=zero + each.time
            )
            build.run.append(CLIENTS, to_json(moved))
    build.clock += 100
    return clean_snapshot(build).seal()


def of_clients(path: Path, *exchanges: list[ClientLine]) -> Availability:
    return measure(RunEvidence(with_clients(path, *exchanges)))


def test_writes_that_are_acknowledged_at_once_are_no_outage(tmp_path: Path):
    availability = of_clients(tmp_path / "run", write(11, 1, 1.01), write(12, 60, 60.01))

    (partition,) = availability.partitions
    assert (partition.writes, partition.without_acknowledged_write_s) == (2, 0.0)


@pytest.mark.parametrize(
    "failed", [write(12, 10, 10.1, error_code=6), write(12, 10, None), write(12, 10, 17)]
)
def test_no_write_is_acknowledged_from_the_first_that_failed_to_the_next_that_did_not(
    failed: list[ClientLine], tmp_path: Path
):
    availability = of_clients(
        tmp_path / "run", write(11, 1, 1.01), failed, write(13, 12, None), write(14, 16, 17)
    )

    assert availability.partitions[0].without_acknowledged_write_s == 7.0


def test_writes_that_fail_to_the_end_are_an_outage_that_is_not_over(tmp_path: Path):
    availability = of_clients(
        tmp_path / "run", write(11, 10, 11, error_code=19), write(11, 20, 21, error_code=19)
    )

    # Settling's own write is acknowledged long after: it shows that the partition works again.
    (outage,) = [each for each in availability.outages if each.kind == "no-acknowledged-write"]
    assert outage.is_over
    assert outage.seconds > 80


def test_a_write_with_acks_1_says_nothing_of_writes_to_all(tmp_path: Path):
    availability = of_clients(tmp_path / "run", write(11, 1, None, acks=1))

    (partition,) = availability.partitions
    assert (partition.writes, partition.without_acknowledged_write_s) == (0, None)


def test_without_links_for_clients_nothing_is_said_of_writes(tmp_path: Path):
    availability = measured(clean_run(tmp_path / "run"))

    (partition,) = availability.partitions
    assert (partition.writes, partition.without_acknowledged_write_s) == (None, None)
    assert "client_links" in availability.not_measured[0]


def test_what_no_link_could_read_leaves_writes_unmeasured(tmp_path: Path):
    secret = line("", "response", 5, answered_bytes=7, not_judged="TLS")

    availability = of_clients(tmp_path / "run", write(11, 1, 1.01), [secret])

    assert availability.partitions[0].without_acknowledged_write_s is None
    assert "TLS" in availability.not_measured[0]


def test_a_consumer_that_gets_everything_at_once_never_stalls(tmp_path: Path):
    availability = of_clients(
        tmp_path / "run",
        write(11, 1, 1.01),
        read(11, 0.5, 1.02),
        write(12, 60, 60.01),
        read(12, 1.03, 60.02),
    )

    (consumer,) = availability.consumers
    assert (consumer.consumer, consumer.records) == ("group 'readers'", 2)
    assert consumer.longest_stall_s == 0.0


def test_a_stall_is_from_the_acknowledged_record_to_its_reader(tmp_path: Path):
    availability = of_clients(
        tmp_path / "run",
        write(11, 1, 1.01),
        read(11, 0.5, 1.02),
        write(12, 30, 31),
        write(13, 32, 33),
        read(12, 40, 43, count=2),
    )

    (consumer,) = availability.consumers
    assert consumer.longest_stall_s == 12.0
    assert (consumer.topic, consumer.partition) == ("t", 0)


def test_of_a_consumer_that_reads_what_nobody_wrote_nothing_is_said(tmp_path: Path):
    nothing = replace(read(50, 1, 2)[0])
    lines = line("Fetch", "request", 1, partitions=nothing.partitions)
    elsewhere = replace(
        lines, partitions=(ClientPartition(topic="other", partition=0, fetch_offset=0),)
    )

    availability = of_clients(tmp_path / "run", [elsewhere])

    (consumer,) = availability.consumers
    assert (consumer.consumer, consumer.longest_stall_s) == ("client 'mine' at 127.0.0.1", None)


# -- faults ---------------------------------------------------------------------------------------


DOWN = Injected(name="down", fault="KillBroker", lasting=True, before={}, effect={})


def with_fault(path: Path, *, leaderless: bool, heals: bool = True) -> Availability:
    build = clean_run(path)
    injected = build.tick()
    build.observe(DOWN, 0, injected)
    if leaderless:
        build.state(-1, 2, [0, 1])
        build.clock += 4
    if heals:
        build.state(1, 3, [0, 1])
        build.observe(Healed(name="down"))
    return measured(build)


def test_the_time_until_service_was_back_is_counted_from_the_fault(tmp_path: Path):
    (fault,) = with_fault(tmp_path / "run", leaderless=True).faults

    assert (fault.name, fault.is_back, fault.service_back_s) == ("down", True, 6.0)


def test_a_fault_that_interrupts_nothing_is_back_at_once(tmp_path: Path):
    (fault,) = with_fault(tmp_path / "run", leaderless=False).faults

    assert (fault.is_back, fault.service_back_s) == (True, 0.0)


def test_a_service_that_never_came_back_has_no_time(tmp_path: Path):
    (fault,) = with_fault(tmp_path / "run", leaderless=True, heals=False).faults

    assert (fault.is_back, fault.service_back_s) == (False, None)


# -- bounds ---------------------------------------------------------------------------------------


def bounded(
    path: Path, expectation: dict[str, Any], stood_s: float = 0.0, **bounds: float
) -> k.Results:
    """A run whose leader stood still for three seconds, and its machine for some."""
    build = clean_run(path, expectation=expectation | {"availability": bounds})
    build.act(PauseBroker(broker=0))
    still = Standstill(began=build.clock, ended=build.clock + 2, seconds=stood_s)
    build.observe(StoodStill(times=(still,) if stood_s else ()), 0, build.clock)
    build.clock += 2
    return k.judge(clean_snapshot(build.act(ResumeBroker(broker=0))).seal())


@pytest.mark.parametrize("expectation", [{}, {"safe": True}])
def test_a_bound_that_is_kept_is_as_expected(expectation: dict[str, Any], tmp_path: Path):
    results = bounded(tmp_path / "run", expectation, without_leader_s=3.0)

    assert (results.expected, results.reason, results.findings) == (True, "", ())


@pytest.mark.parametrize("expectation", [{}, {"safe": True}])
def test_a_bound_that_is_passed_is_a_finding_and_not_as_expected(
    expectation: dict[str, Any], tmp_path: Path
):
    results = bounded(tmp_path / "run", expectation, without_leader_s=2.5)

    (passed,) = results.findings
    assert (passed.kind, passed.topic, passed.partition) == ("unavailable", "t", 0)
    assert passed.message == "t-0 was without a leader for 3 s; the scenario allows 2.5 s"
    assert (results.safe, results.conforms, results.expected) == (True, True, False)
    assert results.reason == passed.message
    assert exit_code_for_lines([line_of(results)]) == FINDING


def test_a_bound_that_is_passed_while_the_machine_stood_still_is_unknown(tmp_path: Path):
    results = bounded(tmp_path / "run", {"safe": True}, stood_s=1.5, without_leader_s=2.5)

    assert (results.findings, results.safe, results.expected) == ((), True, False)
    assert results.unknown == (
        "t-0 was without a leader for 3 s; the scenario allows 2.5 s, and the machine stood still "
        "for 1.5 s"
    )
    assert exit_code_for_lines([line_of(results)]) == UNKNOWN


def test_a_service_that_never_came_back_passes_every_bound(tmp_path: Path):
    build = clean_run(
        tmp_path / "run", expectation={"safe": True, "availability": {"service_back_s": 1e6}}
    )
    build.observe(DOWN)
    results = k.judge(clean_snapshot(build.state(-1, 2, [0, 1])).seal())

    (passed,) = [finding for finding in results.findings if finding.kind == "unavailable"]
    assert "after KillBroker 'down' the service was not back at all" in passed.message


def test_a_bound_of_what_nobody_could_measure_is_unknown(tmp_path: Path):
    build = clean_run(
        tmp_path / "run",
        expectation={"safe": True, "availability": {"without_acknowledged_write_s": 60}},
    )

    results = k.judge(clean_snapshot(build).seal())

    assert (results.safe, results.expected) == (True, False)
    assert "without_acknowledged_write_s was given, and could not be measured" in (
        results.unknown or ""
    )
    assert is_unknown(line_of(results))
    assert exit_code_for_lines([line_of(results)]) == UNKNOWN


@pytest.mark.parametrize(
    "bounds", [{"forever_s": 1}, {"without_leader_s": "1"}, {"service_back_s": -1}, 7]
)
def test_bounds_of_another_form_are_refused(bounds: Any, scenario: k.Scenario):
    with pytest.raises(ScenarioDataError, match="availability"):
        bounds_of({"safe": True, "availability": bounds})
    with pytest.raises(k.ScenarioError, match="availability"):
        k.Scenario.from_json(scenario.to_json() | {"expectation": {"availability": bounds}})


def test_a_scenario_may_bound_availability_alone(scenario: k.Scenario):
    told = scenario.to_json() | {"expectation": {"availability": {"service_back_s": 30}}}

    assert k.Scenario.from_json(told).expectation == {"availability": {"service_back_s": 30}}


@pytest.fixture
def scenario() -> k.Scenario:
    from tests.golden.scenario import scenario_of

    return scenario_of("2.8.2")


# -- where it is shown ----------------------------------------------------------------------------


def test_it_stands_in_results_and_in_the_report(tmp_path: Path):
    run = with_clients(tmp_path / "run", write(11, 1, 1.01), write(11, 10, 15), read(11, 16, 17))
    results = k.judge(run)

    folder = write_judgement(run, results)

    assert results.availability is not None
    told = json.loads((folder / "results.json").read_text())["availability"]
    assert from_json(Availability, told) == results.availability
    assert json.loads(json.dumps(asdict(results.availability))) == told
    report = text_report(run, width=200)
    assert "without acknowledged write 5.0" in report
    assert "group 'readers': records 1, longest stall in s 1.0, of t-0" in report


def test_a_report_says_not_measured_and_never_0(tmp_path: Path):
    run = clean_snapshot(clean_run(tmp_path / "run")).seal()
    write_judgement(run, k.judge(run))

    report = text_report(run, width=200)

    assert "without acknowledged write not measured" in report
    assert "Not measured: times without an acknowledged write" in report
