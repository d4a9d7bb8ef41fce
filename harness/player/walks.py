"""The mix whose schedules are random walks over what the model's machine says may happen next."""

from random import Random

from kchaos.checkers.model import generation_for
from kchaos.checkers.model.explore import ActedBrokers, ActedCluster, Schedule, walk
from kchaos.harness.player.drawn_settings import (
    ENTRY,
    DrawnSettings,
    case_of,
    draw_settings,
    title_of,
)
from kchaos.harness.run.scenario import Scenario
from kchaos.harness.schedule_scenarios import cluster_of, steps_of

WALKS = "walks"
_REPLICAS = (2, 3)


def draw_walk(seed: int, *, kafka: str, release: str, steps: int, gated: bool) -> Scenario:
    """The walk of a seed; as `drawing.draw`.

    Args:
        kafka: A release, or a path to a distribution.
        release: Whose rules the model follows.
        steps: How many acts; healing at the end and the gates do not count.
        gated: Whether each act is followed by what the model predicts of it.

    Raises:
        ReleaseError: There is no such release.
    """
    schedule, settings = walk_of(seed, release=release, steps=steps)
    return Scenario(
        entry=ENTRY,
        case=case_of(WALKS, gated),
        title=title_of(schedule.message, WALKS, gated, seed),
        release=kafka,
        cluster=cluster_of(schedule, [kafka], settings.properties),
        steps=steps_of(schedule, gated=gated),
        seed=seed,
    )


def walk_of(seed: int, *, release: str, steps: int) -> tuple[Schedule, DrawnSettings]:
    """The acts of a seed, with the model's states, and what its brokers are set to."""
    random = Random(seed)
    replicas = range(random.choice(_REPLICAS))
    settings = draw_settings(random)
    setup = ActedBrokers(
        generations=dict.fromkeys(replicas, generation_for(release)),
        is_unclean=settings.is_unclean,
        min_insync_replicas=settings.min_insync_replicas,
    )
    return walk(ActedCluster(setup), random, steps=steps), settings
