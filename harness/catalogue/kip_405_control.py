"""KIP-405, scenarios 3 and 4 without a remote tier: the logs must be the same."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import kchaos as k
from kchaos.harness.catalogue import kip_405_3, kip_405_4
from kchaos.harness.catalogue.kip_405 import UPLOADED, as_printed, epochs

_HARD_FAILURES, _UNCLEAN_ELECTION = "hard-failures", "unclean-election"
_OF_TIERING = (k.AwaitLocalStart, k.AwaitOffsets, k.AwaitTiered, k.TierRead)
_SETTINGS = ("remote.", "local.")


def without_tiering(steps: Iterable[k.Step]) -> Iterator[k.Step]:
    """Yield the steps of a tiered scenario, as for a cluster without a remote tier."""
    for step in steps:
        if isinstance(step, _OF_TIERING):
            continue
        if isinstance(step, k.CreateTopic):
            step = replace(step, configuration=_kept(step.configuration))
        if isinstance(step, k.Inject) and isinstance(step.fault, k.ConfigureTopic):
            kept = _kept(step.fault.configuration)
            if not kept:
                continue
            step = replace(step, fault=replace(step.fault, configuration=kept))
        yield step


def _kept(configuration: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return tuple(setting for setting in configuration if not setting[0].startswith(_SETTINGS))


def _steps(case: str) -> tuple[k.Step, ...]:
    tiered = kip_405_3.steps_of if case == _HARD_FAILURES else kip_405_4.steps_of
    return tuple(without_tiering(tiered(UPLOADED)))


def _hard_failures(kafka: str) -> k.ClusterSpec:
    return kip_405_3.cluster_of(kafka, tiered=False)


def _unclean_election(kafka: str) -> k.ClusterSpec:
    return kip_405_4.cluster_of(kafka, tiered=False)


KIP_405_CONTROL = k.Entry(
    name="KIP-405-control",
    title="Scenarios 3 and 4 of KIP-405 without a remote tier leave the same logs",
    story=(
        "The document promises for its scenarios 3 and 4 that tiered storage changes nothing of "
        "what brokers do about lost tails and unclean elections. The same steps are run without "
        "a remote tier. At each step of the page the brokers' logs and epoch caches are the same, "
        "record by record. They are so until a tiered log lets go of what it has shipped."
    ),
    source="KIP-405, follower replication, scenarios 3 and 4; KIP-101",
    cases={
        _HARD_FAILURES: "scenario 3: both replicas lose power",
        _UNCLEAN_ELECTION: "scenario 4: a replica that is out of sync is elected",
    },
    cluster=_hard_failures,
    case_clusters={_UNCLEAN_ELECTION: _unclean_election},
    steps=_steps,
    expectations={
        (_HARD_FAILURES, "3.9.1"): k.Expectation(
            safe=True, witness=(*as_printed(3, "3.9.1", local_until=4),)
        ),
        (_UNCLEAN_ELECTION, "3.9.1"): k.Expectation(
            safe=True,
            witness=(
                kip_405_4.DIVERGED,
                # In the third step the tiered log lets go of what it has shipped.
                *as_printed(4, "3.9.1", local_until=2),
                epochs("step-3", kip_405_4.B, 0, 1),
                epochs("final", kip_405_4.A, 0, 1),
            ),
        ),
    },
)
