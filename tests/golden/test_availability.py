"""Availability of stored runs of real clusters: as it was, and with an outage that was planted."""

import json
from pathlib import Path

from kchaos.checkers.availability import Availability, measure
from kchaos.checkers.evidence.clients import CLIENTS
from kchaos.checkers.evidence.run import RunEvidence
from tests.golden.stored import unpacked

CLIENT_RUNS = Path(__file__).with_name("clients")


def test_a_healthy_run_with_clients_was_always_available(tmp_path: Path):
    availability = measure(RunEvidence(unpacked("1.1.1", tmp_path, runs=CLIENT_RUNS)))

    assert availability.outages == ()
    assert availability.not_measured == ()
    assert {each.topic for each in availability.partitions} == {"java", "librdkafka", "python"}
    assert {each.without_acknowledged_write_s for each in availability.partitions} == {0.0}
    assert [each.longest_stall_s for each in availability.consumers] == [0.0]


def test_an_answer_that_comes_seven_seconds_later_is_an_outage_of_its_partition(tmp_path: Path):
    run = unpacked("1.1.1", tmp_path, runs=CLIENT_RUNS)
    lines = [json.loads(line) for line in (run.path / CLIENTS).read_text().splitlines()]
    late = next(
        line
        for line in reversed(lines)
        if (line["api"], line["direction"]) == ("Produce", "response")
        and line["partitions"][0]["topic"] == "python"
    )
    late["time"] += 7
    (run.path / CLIENTS).write_text("".join(json.dumps(line) + "\n" for line in lines))

    availability = measure(RunEvidence(run))

    (outage,) = [each for each in availability.outages if each.kind == "no-acknowledged-write"]
    assert (outage.topic, outage.is_over) == ("python", True)
    assert 7 <= outage.seconds < 8


def test_leaders_that_were_killed_leave_their_partition_without_one(tmp_path: Path):
    availability = measure(RunEvidence(unpacked("0.10.2.2-lost", tmp_path, runs=CLIENT_RUNS)))

    (partition,) = availability.partitions
    assert 0 < partition.without_leader_s < partition.measured_s
    assert _killed(availability) == [("X-down", True), ("B-down", True)]


def _killed(availability: Availability) -> list[tuple[str, bool]]:
    kills = [fault for fault in availability.faults if fault.fault == "KillBroker"]
    assert all(fault.service_back_s for fault in kills)
    return [(fault.name, fault.is_back) for fault in kills]


def test_a_run_without_client_links_says_nothing_of_writes(tmp_path: Path):
    availability = measure(RunEvidence(unpacked("2.8.2", tmp_path)))

    assert {each.writes for each in availability.partitions} == {None}
    assert {each.without_acknowledged_write_s for each in availability.partitions} == {None}
    assert "client_links" in availability.not_measured[0]
