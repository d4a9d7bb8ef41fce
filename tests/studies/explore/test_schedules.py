"""Schedules: what breaks a cluster for good and can be forced upon it from outside."""

import pytest

from kchaos.checkers.model import generation_for
from kchaos.checkers.model.state.world import World
from kchaos.studies.explore import Schedule, Schedules, find_schedule
from kchaos.studies.explore.at_once import PARTITION
from kchaos.studies.explore.moves import ChaosMove

pytestmark = pytest.mark.slow


def schedule_of(release: str, *, most_states: int) -> Schedule | None:
    schedules = Schedules(
        generations=dict.fromkeys((0, 1), generation_for(release)), records=3, leader_epoch=3
    )
    schedule, exploration = find_schedule(schedules, most_states=most_states)
    assert (schedule is not None) is (exploration.violation is not None)
    return schedule


def test_the_story_of_kafka_6361_is_found_for_1_1_1():
    schedule = schedule_of("1.1.1", most_states=10_000)
    assert schedule is not None
    assert schedule.message == "broker 1 differs from leader 0 after all is healed"
    acts = schedule.acts[: len(schedule.acts) - schedule.healing]
    assert len(acts) == 6
    assert acts[0] == ChaosMove("cut", 0, 1)
    assert {act.kind for act in acts[1:]} >= {"prefer", "expire", "write-one"}
    assert schedule.acts[-2:] == (ChaosMove("register", 1), ChaosMove("heal", 0, 1))
    assert len(schedule.states) == len(schedule.acts) + 1
    logs = [World(schedule.states[-1]).known_replica(broker, PARTITION).log for broker in (0, 1)]
    assert logs[0].batches != logs[1].batches


def test_nothing_is_found_for_2_8_2_within_as_many_states_as_1_1_1_needs_for_five_acts():
    assert schedule_of("2.8.2", most_states=1_500) is None
