"""States of each broker, and of each link between two of them, over time."""

import contextlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kchaos.checkers.acts import (
    CutLink,
    CutZooKeeper,
    HealLink,
    HealZooKeeper,
    Hold,
    HoldPoint,
    PauseBroker,
    ReleaseHold,
    ReleasePoint,
    ResumeBroker,
    StartBroker,
    StopBroker,
    TopicPartition,
)
from kchaos.checkers.errors import CheckError
from kchaos.checkers.evidence.observed import lines_of
from kchaos.checkers.model.values.events import (
    BrokerRegistered,
    BrokerRegistrationChanged,
    BrokerUnregistered,
)
from kchaos.checkers.observations import Act
from kchaos.harness.report.leadership import Decisions
from kchaos.harness.report.loading import Loaded
from kchaos.harness.report.placement import style_of_epoch

_LETTER = re.compile(r"[A-Z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """From when to when something was so.

    Attributes:
        began: Seconds since 1970.
        ended: Likewise; None if it lasted to the end.
        label: What is written on it, where there is room; else the first of `shorter` that fits.
        title: What it is, in full.
        style: Names for the style sheet.
        brokers: The brokers between which it is; empty for one that is in one broker's lane.
    """

    began: float
    label: str
    title: str
    style: str
    ended: float | None = None
    shorter: tuple[str, ...] = ()
    brokers: tuple[int, ...] = ()


Stretches = Mapping[int, tuple[Stretch, ...]]


def broker_stretches(
    loaded: Loaded, decisions: Decisions, partition: TopicPartition | None
) -> tuple[Stretches, Stretches, Stretches]:
    """Return by broker its process and session, its role in the partition, and its holds.

    Roles are as they were decided; a broker may not have heard of them yet.
    """
    acts = acts_of(loaded)
    decided = [(timed.time, timed.event) for timed in decisions.events]
    events = sorted([*acts, *decided], key=lambda each: each[0])
    brokers = sorted({*loaded.run.brokers, *_registered(decisions)})
    started = loaded.started_at
    lives = {
        broker: tuple(_lives(broker, events, started, decisions.is_kraft)) for broker in brokers
    }
    roles = {broker: tuple(_roles(broker, decisions, partition)) for broker in brokers}
    held = {broker: tuple(_held(broker, acts)) for broker in brokers}
    return lives, roles, held


def link_stretches(loaded: Loaded) -> tuple[Stretch, ...]:
    """Return cuts between two brokers, and held requests or responses between them."""
    open_: list[tuple[object, Stretch]] = []
    done: list[Stretch] = []
    for time, act in acts_of(loaded):
        match act:
            case CutLink() as cut:
                between = (
                    f"{cut.source}→{cut.target}" if cut.one_way else f"{cut.source}-{cut.target}"
                )
                way = f"from {cut.source} to {cut.target}" if cut.one_way else "both ways"
                stretch = Stretch(
                    began=time,
                    label=f"{between} cut",
                    title=f"brokers {cut.source} and {cut.target} are cut off from each other "
                    f"({way}, {cut.style})",
                    style="cut",
                    brokers=(cut.source, cut.target),
                )
                open_.append((cut, stretch))
            case HealLink() as heal:
                ended = [
                    pair for pair in open_ if isinstance(pair[0], CutLink) and heal.heals(pair[0])
                ]
                done += [replace(stretch, ended=time) for _, stretch in ended]
                open_ = [pair for pair in open_ if pair not in ended]
            case Hold(source=int(source), target=int(target)) as hold:
                what = f"{hold.api} {hold.direction}s"
                stretch = Stretch(
                    began=time,
                    label=f"{source}→{target} {hold.api} held",
                    title=f"{what} from broker {source} to {target} are kept back",
                    style="kept",
                    brokers=(source, target),
                )
                open_.append((hold.name, stretch))
            case ReleaseHold(name=name):
                ended = [pair for pair in open_ if pair[0] == name]
                done += [replace(stretch, ended=time) for _, stretch in ended]
                open_ = [pair for pair in open_ if pair not in ended]
            case _:
                pass
    return tuple(sorted([*done, *(stretch for _, stretch in open_)], key=lambda each: each.began))


def story_names(loaded: Loaded) -> Mapping[int, str]:
    """Return the brokers' names in the story: the letters in its faults' names.

    A fault "B-down" on broker 1 says that B is broker 1, and a cut "A-B" between 0 and 1 who both
    are. Letters that two brokers would have are no names.
    """
    candidates: dict[str, set[int]] = {}
    for step in loaded.scenario.steps:
        step = step.get("do") or step
        fault = step.get("fault")
        if step.get("step") != "Inject" or not isinstance(fault, Mapping):
            continue
        parts = [part for part in str(step.get("name")).split("-") if _LETTER.fullmatch(part)]
        if fault.get("fault") == "CutLink":
            whom = [fault.get("source"), fault.get("target")]
        else:
            whom = [fault.get("broker")]
        if len(parts) != len(whom):
            continue
        for letter, broker in zip(parts, whom, strict=True):
            if isinstance(broker, int):
                candidates.setdefault(letter, set()).add(broker)
    named = {letter: brokers.pop() for letter, brokers in candidates.items() if len(brokers) == 1}
    return {broker: letter for letter, broker in sorted(named.items())}


def acts_of(loaded: Loaded) -> tuple[tuple[float, object], ...]:
    """Return the harness's acts, with their times; none if the file is unreadable.

    Cuts from ZooKeeper are no actions of the model, and stand only among the observations.
    """
    acts: list[tuple[float, object]] = [
        (line.time, begun.act)
        for line, begun in lines_of(loaded.evidence.observed, Act)
        if isinstance(begun.act, CutZooKeeper | HealZooKeeper)
    ]
    with contextlib.suppress(CheckError):  # The judgement says what cannot be read.
        acts += [(timed.time, timed.event) for timed in loaded.evidence.actions]
    return tuple(sorted(acts, key=lambda act: act[0]))


def _registered(decisions: Decisions) -> Iterable[int]:
    for timed in decisions.events:
        if isinstance(timed.event, BrokerRegistered):
            yield timed.event.broker


def _lives(
    broker: int, events: Iterable[tuple[float, object]], started: float, is_kraft: bool
) -> Iterable[Stretch]:
    """Yield process and session of one broker; each stretch ends where the next begins."""
    process, registered = "up", False
    last: Stretch | None = None
    generation = ""
    for time, event in events:
        match event:
            case StartBroker(broker=named) if named == broker:
                process = "up"
            case StopBroker(broker=named) if named == broker:
                process = "down"
            case PauseBroker(broker=named) if named == broker:
                process = "paused"
            case ResumeBroker(broker=named) if named == broker:
                process = "up"
            case BrokerRegistered(broker=named, czxid=czxid) if named == broker:
                registered = not is_kraft
                generation = f"{'epoch' if is_kraft else 'generation'} {czxid}"
            case BrokerUnregistered(broker=named) if named == broker:
                registered = False
            case BrokerRegistrationChanged(broker=named) as changed if named == broker:
                registered = not changed.is_fenced
            case _:
                continue
        state = _life(process, registered, generation, is_kraft)
        stretch = replace(
            state, began=max(time, started), title=f"broker {broker} is {state.title}"
        )
        if last is None:
            last = stretch
        elif (last.label, last.title) != (stretch.label, stretch.title):
            yield replace(last, ended=stretch.began)
            last = stretch
    if last is not None:
        yield last


def _life(process: str, registered: bool, generation: str, is_kraft: bool) -> Stretch:
    session = "unfenced" if is_kraft else "registered"
    without = "fenced" if is_kraft else "not registered"
    known = f"{session}, {generation}" if registered else without
    shorter: tuple[str, ...] = ()
    if process == "up" and registered:
        label = f"up, {known}" if is_kraft else f"up, {generation}"
        shorter, style = (f"up, {generation}", "up"), "up"
    elif process == "up":
        label, shorter, style = f"up, {without}", (without,), "lost"
    elif process == "paused":
        label, style = "paused", "paused"
    else:
        label = "down, still registered" if registered and not is_kraft else "down"
        shorter, style = ("down",), "down"
    return Stretch(
        began=0.0, label=label, shorter=shorter, style=style, title=f"{process} and {known}"
    )


def _roles(
    broker: int, decisions: Decisions, partition: TopicPartition | None
) -> Iterable[Stretch]:
    states = [
        (timed.time, state)
        for timed, state in decisions.states
        if partition == TopicPartition(state.topic, state.partition)
    ]
    last: Stretch | None = None
    for time, state in states:
        epoch, name = state.leader_epoch, f"{state.topic}-{state.partition}"
        stretch: Stretch | None = None
        if state.leader == broker:
            stretch = Stretch(
                began=time,
                label=f"leads {name} in e{epoch}",
                shorter=(f"leads e{epoch}", f"e{epoch}"),
                title=f"broker {broker} leads {name} in leader epoch {epoch}",
                style=f"leads {style_of_epoch(epoch)}",
            )
        elif broker in state.isr:
            stretch = Stretch(
                began=time,
                label="in sync",
                title=f"broker {broker} is in the ISR of {name}",
                style="in-sync",
            )
        if last is not None and (stretch is None or stretch.title != last.title):
            yield replace(last, ended=time)
            last = None
        if last is None:
            last = stretch
    if last is not None:
        yield last


def _held(broker: int, acts: Iterable[tuple[float, object]]) -> Iterable[Stretch]:
    """Yield cuts of one broker from ZooKeeper, and the points at which its threads were held."""
    open_: dict[str, Stretch] = {}
    for time, act in acts:
        match act:
            case CutZooKeeper(broker=named, name=name) if named == broker:
                open_[name] = Stretch(
                    began=time,
                    label="cut from ZooKeeper",
                    title=f"broker {broker} is cut off from ZooKeeper",
                    style="cut",
                )
            case HoldPoint(broker=named, name=name, point=point, manner=manner) if named == broker:
                open_[name] = Stretch(
                    began=time,
                    label=f"{point}: {manner}",
                    title=f"threads of broker {broker} at {point}: {manner}",
                    style="kept",
                )
            case HealZooKeeper() | ReleasePoint() as end if end.name in open_:
                yield replace(open_.pop(end.name), ended=time)
            case _:
                pass
    yield from open_.values()
