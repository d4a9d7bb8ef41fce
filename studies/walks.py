"""The mixes whose schedules are random walks over what the model's machine says may happen next."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from kchaos.checkers.acts import Mode
from kchaos.checkers.model import generation_for
from kchaos.clusters.releases import release_of
from kchaos.clusters.settings import BROKER_FORMAT
from kchaos.harness.catalogue.kraft_form import kraft_cluster, kraft_steps
from kchaos.harness.player.drawing import has_kraft
from kchaos.harness.player.drawn_settings import (
    ENTRY,
    DrawnSettings,
    case_of,
    draw_settings,
    message_formats,
    title_of,
)
from kchaos.harness.player.rare import swarm
from kchaos.harness.player.studied_mixes import WALKS, WIDE_WALKS
from kchaos.harness.run.scenario import Scenario
from kchaos.studies.explore import ActedBrokers, ActedCluster, Schedule, walk
from kchaos.studies.explore.schedules import wrong_at_end
from kchaos.studies.explore.walk import WIDE_WALK_WEIGHTS, conflicts
from kchaos.studies.schedule_scenarios import cluster_of, steps_of

_REPLICAS = (2, 3)
_WIDE_REPLICAS = (2, 3, 4)
_ALWAYS = ("write-one", "write-pair", "write-all", "restart", "register", "heal", "release")
"""Kinds that no wide walk leaves out: there is data to lose, and damage is healed."""
_FIRST_WALKS, _MOST_WALKS = 8, 40
_READS_WHEN_IT_LOOKS = (0, 11)
"""Up to 0.10.2 a controller has read who is registered before it can be held (KAFKA-5502)."""


def draw_walk(
    seed: int,
    *,
    kafka: str,
    release: str,
    steps: int,
    gated: bool,
    mix: str = WALKS,
    mode: Mode | None = None,
) -> Scenario:
    """Draw the walk of a seed; as `drawing.draw`.

    `kafka` is a release, or a path to a distribution; the model follows the rules of `release`.
    `steps` counts acts without the final healing and the gates, which follow each act if `gated`.
    `mix` is `WALKS` or `WIDE_WALKS`, and `mode` the release's usual one if None. With KRaft
    elections are clean, as in wide walks.

    Raises:
        ReleaseError: There is no such release.
    """
    formats: Mapping[int, str] = {}
    is_kraft = has_kraft(release_of(release), mode)
    used: Mode = "kraft" if is_kraft else "zookeeper"
    if mix == WIDE_WALKS:
        schedule, settings, formats = wide_walk_of(seed, release=release, steps=steps, mode=used)
    else:
        schedule, settings = walk_of(seed, release=release, steps=steps, mode=used)
    own = {broker: {BROKER_FORMAT: text} for broker, text in formats.items()}
    cluster = cluster_of(schedule, [kafka], settings.properties(), own)
    done = steps_of(schedule, gated=gated)
    return Scenario(
        entry=ENTRY,
        case=case_of(mix, gated, mode),
        title=title_of(schedule.message, mix, gated, seed),
        release=kafka,
        cluster=kraft_cluster(cluster) if is_kraft else cluster,
        steps=kraft_steps(done, release) if is_kraft else done,
        seed=seed,
    )


def walk_of(
    seed: int, *, release: str, steps: int, mode: Mode = "zookeeper"
) -> tuple[Schedule, DrawnSettings]:
    """Return the acts of a seed, with the model's states and the brokers' settings."""
    random = Random(seed)
    replicas = range(random.choice(_REPLICAS))
    settings = draw_settings(random)
    if mode == "kraft":
        settings = replace(settings, is_unclean=False)
    setup = ActedBrokers(
        generations=dict.fromkeys(replicas, generation_for(release, mode=mode)),
        is_unclean=settings.is_unclean,
        min_insync_replicas=settings.min_insync_replicas,
        levels=release_of(release).feature_levels,
    )
    return walk(ActedCluster(setup), random, steps=steps), settings


WideWalk = tuple[Schedule, DrawnSettings, Mapping[int, str]]
"""The acts, what all brokers are set to, and the message format of each that has its own."""


def wide_walk_of(seed: int, *, release: str, steps: int, mode: Mode = "zookeeper") -> WideWalk:
    """Return a walk of a seed after which the model says that something is wrong, if it has any.

    `_FIRST_WALKS` are drawn, and more up to `_MOST_WALKS` as long as none goes wrong. If none does,
    the walk is taken in which replicas had different records at most offsets. Each walk leaves out
    about half of the kinds of acts (as the mix `rare`). Elections are clean, since unclean ones may
    lose records by design. Where a release writes several message formats, each broker has one of
    them, as during an upgrade.
    """
    random = Random(f"wide {seed}")
    ranked: list[tuple[bool, int, WideWalk]] = []
    while len(ranked) < _FIRST_WALKS or not any(is_wrong for is_wrong, _, _ in ranked):
        if len(ranked) == _MOST_WALKS:
            break
        walked = _wide_walk(random, release, steps, mode)
        ranked.append((wrong_at_end(walked[0]) != "", conflicts(walked[0]), walked))
    *_, taken = max(ranked, key=lambda walked: walked[:2])
    return taken


def _wide_walk(random: Random, release: str, steps: int, mode: Mode) -> WideWalk:
    number = release_of(release).number
    replicas = range(random.choice(_WIDE_REPLICAS))
    settings = replace(draw_settings(random), is_unclean=False)
    known = () if mode == "kraft" else message_formats(number)
    formats = {broker: random.choice(known) for broker in replicas} if known else {}
    weights = swarm(random, WIDE_WALK_WEIGHTS, _ALWAYS)
    if number < _READS_WHEN_IT_LOOKS or mode == "kraft":
        weights["bounce"] = 0
    setup = ActedBrokers(
        generations={
            broker: generation_for(release, message_format=formats.get(broker), mode=mode)
            for broker in replicas
        },
        min_insync_replicas=settings.min_insync_replicas,
        levels=release_of(release).feature_levels,
    )
    schedule = walk(ActedCluster(setup), random, steps=steps, weights=weights)
    return schedule, settings, formats
