"""Mutants of drawn schedules: acts of one that are moved, doubled, left out, new or of another.

A mutant is drawn as any schedule is, but for what is wanted of it: acts of its parents, each of
which is taken where it is legal and left out elsewhere. So faults are healed, names are new, and
gates follow each act as always.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

from kchaos.clusters.links.details import METADATA_TOPIC
from kchaos.clusters.releases import release_of
from kchaos.faults.api import Fault
from kchaos.harness.player.candidates import LOGS, step_weights_of
from kchaos.harness.player.draw import Candidates, Draw
from kchaos.harness.player.drawing import Drawing, played, view_of
from kchaos.harness.player.drawn_settings import title_of
from kchaos.harness.player.legal import after
from kchaos.harness.player.rare import RARE
from kchaos.harness.player.view import View
from kchaos.harness.run.scenario import Scenario
from kchaos.harness.steps.clients import Produce, Read
from kchaos.harness.steps.if_possible import AwaitInSync, AwaitLevel, IfPossible
from kchaos.harness.steps.log_start import AwaitLogStart
from kchaos.harness.steps.scenario_steps import CreateTopic, Heal, Inject, Step, TakeSnapshot

_MOST_CHANGES = 3
_LONGEST_PART = 5
_NODES = ("broker", "source", "target")

Acts = list[Step | None]
"""Acts of a schedule without its gates; None stands for one that is drawn."""


def mutated(
    seed: int, first: Scenario, other: Scenario, *, mix: str, steps: int, gated: bool, release: str
) -> Scenario:
    """Return a mutant of the first schedule, on its cluster, with parts of the other.

    Both were drawn for the same Kafka and mode, `mix` is the first one's, and `release` is the one
    by which the Kafka is judged. The same arguments and version of kchaos give the same mutant.
    """
    random = Random(f"mutant {seed}")
    topic, *_ = first.steps
    assert isinstance(topic, CreateTopic)
    wanted, others = acts_of(first), acts_of(other)
    for _ in range(random.randint(1, _MOST_CHANGES)):
        wanted = random.choice(_CHANGES)(random, wanted, others)
    if any(isinstance(act, Produce) and act.keys for act in wanted):
        # A consumer's record is compared with what was written, whose keys it does not know.
        wanted = [act for act in wanted if not isinstance(act, Read)]
    is_kraft = first.cluster.is_kraft
    weights = {**step_weights_of(mix, is_kraft=is_kraft)}
    names: dict[str, str] = {}
    drawing = Drawing(
        random=random,
        view=after(view_of(first, release_of(release).text), topic),
        weights=weights if mix != RARE else weights | {"read": 0.0},
        configuration=topic.configuration if mix == LOGS else (),
        wanted=[None if act is None else _again(act, names) for act in wanted],
        is_patient=True,
    )
    return replace(
        first,
        title=title_of(f"{steps} steps of a mutant", mix, gated, seed),
        steps=(
            topic,
            *(step for _ in range(steps) for step in played(drawing.next_step(), gated=gated)),
            *drawing.ends(),
        ),
        seed=seed,
    )


def acts_of(scenario: Scenario) -> Acts:
    """Return the acts of a drawn schedule after its first topic and its first write."""
    gates = (AwaitLevel, AwaitInSync)
    tried: list[Step] = [step.do for step in scenario.steps[1:] if isinstance(step, IfPossible)]
    acts: Acts = [act for act in tried if not isinstance(act, gates)]
    return acts[1:]


def _moved(random: Random, acts: Acts, _others: Acts) -> Acts:
    begin, end = _part(random, acts)
    rest = acts[:begin] + acts[end:]
    to = random.randint(0, len(rest))
    return rest[:to] + acts[begin:end] + rest[to:]


def _doubled(random: Random, acts: Acts, _others: Acts) -> Acts:
    begin, end = _part(random, acts)
    return acts[:end] + acts[begin:end] + acts[end:]


def _left_out(random: Random, acts: Acts, _others: Acts) -> Acts:
    begin, end = _part(random, acts)
    return acts[:begin] + acts[end:]


def _spliced(random: Random, acts: Acts, others: Acts) -> Acts:
    return acts[: random.randint(0, len(acts))] + others[random.randint(0, len(others)) :]


def _renewed(random: Random, acts: Acts, _others: Acts) -> Acts:
    to = random.randint(0, len(acts))
    return [*acts[:to], None, *acts[to:]]


_CHANGES: tuple[Callable[[Random, Acts, Acts], Acts], ...] = (
    *(_moved, _doubled, _left_out, _spliced, _renewed),
)


def _part(random: Random, acts: Acts) -> tuple[int, int]:
    begin = random.randint(0, len(acts))
    return begin, min(len(acts), begin + random.randint(1, _LONGEST_PART))


def _again(act: Step, names: dict[str, str]) -> Candidates:
    """Return the act with names of its own turn, as far as the cluster has what it names.

    `names` has the present name of each fault of the parents.
    """

    def candidates(view: View, draw: Draw) -> Iterator[Step]:
        if not _is_there(view, act):
            return
        match act:
            case Inject(name=name, fault=fault):
                new = f"{name.rpartition('-')[0]}-{draw.number}"
                names[name] = new
                yield Inject(name=new, fault=_renamed(fault, name, new))
            case Heal(name=name):
                yield Heal(name=names.get(name, name))
            case Produce():
                yield replace(act, operation=f"p{draw.number}")
            case Read():
                yield replace(act, operation=f"r{draw.number}")
            case TakeSnapshot():
                yield replace(act, label=f"snapshot-{view.snapshots + 1}")
            case _:
                yield act

    return candidates


def _renamed(fault: Fault, name: str, new: str) -> Fault:
    same: Any = fault
    return replace(same, name=new) if getattr(fault, "name", None) == name else fault


def _is_there(view: View, act: Step) -> bool:
    """Return whether the cluster has the brokers, the controllers and the topic that are named."""
    of: Any = act.fault if isinstance(act, Inject) else act
    nodes = {getattr(of, each, None) for each in _NODES} - {None}
    topic = None if isinstance(act, CreateTopic) else getattr(of, "topic", None)
    waits = set(act.brokers) if isinstance(act, AwaitLogStart) else set()
    known = {*view.brokers, *view.quorum}
    return nodes | waits <= known and topic in (None, METADATA_TOPIC, *view.topics)
