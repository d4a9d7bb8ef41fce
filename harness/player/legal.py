"""Preconditions and effects of drawn steps, on the view that a schedule is drawn from."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Any

import kchaos as k
from kchaos.checkers.model.controller.decisions import (
    elect_for_new,
    elect_for_offline,
    elect_for_reassignment,
    elect_preferred,
)
from kchaos.checkers.model.values.events import NO_LEADER
from kchaos.clusters.links.details import METADATA_TOPIC
from kchaos.clusters.settings import PROTOCOL
from kchaos.harness.player.view import (
    PartitionInView,
    back,
    elected,
    gone,
    is_linked,
    settled,
    without_disk,
)

MOST_SNAPSHOTS = 3
MOST_TOPICS = 2
_FEW_VOTERS = 2
"""Of so many voters each is needed for a majority."""
_MOST_PARTITIONS = 3
_OF_ZOOKEEPER = (k.IsolateZooKeeper, k.KillZooKeeper, k.PauseZooKeeper, k.StopZooKeeper)


def refusal(view: k.View, step: k.Step) -> str:
    """Return why the step is not legal in this view, or "". Gates are always legal."""
    match step:
        case k.IfPossible(do=inner):
            return refusal(view, inner)
        case k.Inject(name=name, fault=fault):
            if name in view.names:
                return f"{name} was used already"
            rule = _FAULTS.get(type(fault))
            # One's own fault is proposed where whoever wrote it says that it is possible.
            return "" if rule is None else rule(view, fault)
        case k.Heal(name=name):
            return _heal(view, name)
        case _:
            rule = _STEPS.get(type(step))
            return "" if rule is None else rule(view, step)


def after(view: k.View, step: k.Step) -> k.View:
    """Return the view after a legal step and the reaction of controller and followers."""
    match step:
        case k.IfPossible(do=inner):
            return after(view, inner)
        case k.Inject(name=name, fault=fault):
            view = replace(view, names=view.names | {name})
            if fault.lasting:
                view = replace(view, acting=(*view.acting, (name, fault)))
            if isinstance(fault, k.AddController | k.RemoveController):
                return replace(view, voters=view.voters ^ {fault.controller})
            if getattr(fault, "broker", None) in view.quorum:
                return _rolled(view, fault) if isinstance(fault, k.RollBroker) else view
            return settled(_injected(view, fault))
        case k.Heal(name=name):
            return settled(_healed(view, name))
        case _:
            effect = _EFFECTS.get(type(step))
            return view if effect is None else effect(view, step)


def illegal_steps(view: k.View, steps: Sequence[k.Step]) -> list[tuple[int, str]]:
    """Return index and reason of each step that is not legal at its place."""
    refusals = []
    for index, step in enumerate(steps):
        why = refusal(view, step)
        if why:
            refusals.append((index, why))
        else:
            view = after(view, step)
    return refusals


# -- faults -----------------------------------------------------------------------------------


def _end_process(view: k.View, fault: Any) -> str:
    if fault.broker in view.quorum:
        return _not_all_controllers(view)
    return _not_whole(view, fault.broker) or _last_one(view, fault.broker)


def _cut_off(view: k.View, fault: Any) -> str:
    """Return why a pause or a cut from ZooKeeper is illegal: it would delay an awaited return."""
    if any(session.broker == fault.broker for session in _sessions(view)):
        return f"the session of broker {fault.broker} is about to return"
    if any(_is_held(view, fault.broker, api) for api in ("BrokerHeartbeat", "Fetch")):
        return f"what broker {fault.broker} says to the controllers is held"
    return _end_process(view, fault)


def _expire(view: k.View, fault: k.ExpireSession) -> str:
    broker = fault.broker
    if broker not in view.registered or broker not in view.running:
        return f"broker {broker} has no session that a live process owns"
    if any(session.broker == broker for session in _sessions(view)):
        return f"the session of broker {broker} is about to return"
    if fault.await_return and broker not in view.whole:
        return f"broker {broker} cannot register again while it is cut off or paused"
    return _last_one(view, broker)


def _fence(view: k.View, fault: k.FenceBroker) -> str:
    broker = fault.broker
    if broker not in view.registered or broker not in view.running:
        return f"broker {broker} is fenced, or no live process"
    return _last_one(view, broker)


def _cut(view: k.View, fault: k.CutLink) -> str:
    ends = (fault.source, fault.target)
    if fault.source == fault.target:
        return "a broker cannot be cut from itself"
    if not is_linked(view, *ends):
        return f"brokers {ends} are cut from each other already"
    return "" if set(ends) <= view.running else f"one of brokers {ends} does not run"


def _hold(view: k.View, fault: k.HoldRequests) -> str:
    if fault.api == "OffsetForLeaderEpoch" and not view.has_epochs:
        return "before 0.11 nobody asks for leader epochs"
    held = ((hold.api, hold.source, hold.target) for hold in view.faults(k.HoldRequests))
    if (fault.api, fault.source, fault.target) in held:
        return "such a hold acts already"
    ends = {node for node in (fault.source, fault.target) if node is not None}
    return "" if ends <= view.running else f"one of brokers {sorted(ends)} does not run"


def _forge(view: k.View, fault: k.ForgeAnswers) -> str:
    if not view.has_epochs:
        return "before 0.11 nobody asks for leader epochs"
    if view.faults(k.ForgeAnswers):
        return "answers are forged already"
    ends = {fault.source, fault.target}
    return "" if ends <= view.running else f"one of brokers {sorted(ends)} does not run"


def _disturb(view: k.View, fault: k.DisturbClients) -> str:
    if any(acts.broker == fault.broker for acts in view.faults(k.DisturbClients)):
        return f"clients of broker {fault.broker} are disturbed already"
    is_up = fault.broker is None or fault.broker in view.running
    return "" if is_up else f"broker {fault.broker} does not run"


def _configure(view: k.View, fault: k.ConfigureTopic) -> str:
    return _unheard(view, fault.topic) or _new_format(view, fault)


def _unheard(view: k.View, topic: str) -> str:
    if topic not in view.topics:
        return f"there is no topic {topic}"
    away = sorted(view.running - view.whole)
    return f"broker {away[0]} would not hear of it" if away else ""


def _throttle(view: k.View, fault: k.ThrottleReplication) -> str:
    throttled = ((acts.broker, acts.side) for acts in view.faults(k.ThrottleReplication))
    is_same = (fault.broker, fault.side) in throttled
    return "it is throttled already" if is_same else _unheard(view, fault.topic)


def _new_format(view: k.View, fault: k.ConfigureTopic | k.RollBroker) -> str:
    settings = fault.configuration if isinstance(fault, k.ConfigureTopic) else fault.properties
    return "" if all(text in view.formats for _, text in settings) else "no such format may be set"


def _roll(view: k.View, fault: k.RollBroker) -> str:
    if PROTOCOL in dict(fault.properties):
        return _end_process(view, fault) or _new_protocol(view, fault)
    return _end_process(view, fault) or _new_format(view, fault)


def _new_protocol(view: k.View, fault: k.RollBroker) -> str:
    if dict(fault.properties) != {PROTOCOL: view.asked_protocol}:
        return "no such protocol may be spoken"
    if left := sorted({*view.brokers} - view.upgraded):
        return f"brokers {left} do not run {view.asked} yet, whose protocol that is"
    same = fault.broker in view.raised
    return f"broker {fault.broker} speaks that protocol already" if same else ""


def _roll_release(view: k.View, fault: k.RollBroker) -> str:
    if fault.kafka not in view.kafkas:
        return f"{fault.kafka} is none of the releases of the cluster"
    if fault.kafka != view.asked and view.raised:
        raised = sorted(view.raised)
        return f"brokers {raised} speak the protocol of {view.asked}: there is no way back"
    if view.quorum and (why := _out_of_order(view, fault)):
        return why
    if fault.broker in view.quorum:
        return _controller_away(view)
    return _end_process(view, fault)


def _out_of_order(view: k.View, fault: k.RollBroker) -> str:
    """Return why a roll is not in Kafka's order: controllers first, and last on the way back."""
    is_controller, is_back = fault.broker in view.quorum, fault.kafka != view.asked
    if is_controller and is_back:
        upgraded = sorted(view.upgraded.intersection(view.brokers))
        return f"brokers {upgraded} go back before the controllers" if upgraded else ""
    left = sorted({*view.quorum} - view.upgraded)
    if is_controller or is_back or not left:
        return ""
    return f"controllers {left} are rolled before the brokers"


def _raise_features(view: k.View, fault: k.UpdateFeatures) -> str:
    if not view.asked_levels or fault.levels != view.asked_levels:
        return "no such levels may be set"
    if left := sorted({*view.brokers, *view.quorum} - view.upgraded):
        return f"{left} do not run {view.asked} yet, whose levels these are"
    if view.raised:
        return "they are set already"
    return _controller_away(view)


def _downgrade(view: k.View, fault: k.FormatDowngrade) -> str:
    if fault.message_format not in view.formats:
        return "no such format may be set"
    return _unheard(view, fault.topic or "")


def _isolate(view: k.View, fault: k.IsolateBroker) -> str:
    is_cut = any(fault.broker in (cut.source, cut.target) for cut in view.faults(k.CutLink))
    if is_cut or view.faults(k.IsolateBroker):
        return f"something of broker {fault.broker} is cut already, or another broker is alone"
    return _cut_off(view, fault)


def _killed(view: k.View, broker: int) -> str:
    """Return why the broker's disk cannot have lost anything: it runs, or stopped cleanly."""
    killed = any(fault.broker == broker for fault in view.faults(k.KillBroker))
    return "" if killed and broker not in view.running else f"broker {broker} was not killed"


def _partition_at(
    view: k.View, fault: k.LoseTail | k.TearEpochs | k.LoseEpochs | k.FailLogDirectory
) -> PartitionInView | None:
    """Return the partition of a fault, or None if its broker does not host it."""
    partition = view.partition(fault.topic, fault.partition)
    return partition if partition is not None and fault.broker in partition.replicas else None


def _lose_tail(view: k.View, fault: k.LoseTail) -> str:
    if fault.broker in view.quorum:
        return _killed(view, fault.broker)
    partition = _partition_at(view, fault)
    if partition is None:
        return f"broker {fault.broker} has no such replica"
    if fault.log_end_offset not in partition.starts:
        return f"no batch begins at {fault.log_end_offset}"
    return _killed(view, fault.broker)


def _tear(view: k.View, fault: k.TearEpochs) -> str:
    if not view.has_epochs:
        return "before 0.11 nobody keeps leader epochs"
    partition = _partition_at(view, fault)
    if partition is None:
        return f"broker {fault.broker} has no such replica"
    return _killed(view, fault.broker)


def _lose_file(view: k.View, fault: k.LoseFile) -> str:
    return "" if fault.broker not in view.running else f"broker {fault.broker} runs"


def _end_member(view: k.View, fault: Any) -> str:
    """Return why a member cannot end: more than half of them must go on."""
    if view.quorum or view.zookeepers < 3:
        return "there is no member that could be missed"
    return "a member is away already" if view.faults(*_OF_ZOOKEEPER) else ""


def _hold_point(view: k.View, fault: Any) -> str:
    """Return why a hold is illegal: two of a kind could block the whole broker."""
    if view.faults(*_POINT_FAULTS):
        return "something inside a broker is held already"
    return _not_whole(view, fault.broker)


def _hold_controller(view: k.View, fault: k.HoldController) -> str:
    if view.controllers != {fault.broker}:
        return f"broker {fault.broker} may not be the controller"
    return _hold_point(view, fault)


def _stale(view: k.View, fault: k.StaleRequest) -> str:
    if view.faults(k.StaleRequest):
        return "a request is late already"
    if not view.controllers or not view.controllers <= view.whole:
        return "there may be no controller that could make it"
    return _not_whole(view, fault.broker)


def _lose_epochs(view: k.View, fault: k.LoseEpochs) -> str:
    if not view.has_epochs:
        return "before 0.11 nobody keeps leader epochs"
    partition = _partition_at(view, fault)
    if partition is None:
        return f"broker {fault.broker} has no such replica"
    if partition.is_tiered:
        return "a leader deletes remote segments of lost epochs, which the model does not follow"
    return f"broker {fault.broker} runs" if fault.broker in view.running else ""


def _wipe(view: k.View, fault: k.WipeLogDirectory) -> str:
    if fault.broker in view.quorum:
        return _killed(view, fault.broker)
    if fault.broker in view.running:
        return f"broker {fault.broker} runs"
    if any(failed.broker == fault.broker for failed in view.faults(k.FailLogDirectory)):
        return f"a log directory of broker {fault.broker} has failed, and comes back as it was"
    needed = any(fault.broker in partition.isr for partition in view.partitions)
    return f"broker {fault.broker} may have the only records" if needed else ""


def _add_controller(view: k.View, fault: k.AddController) -> str:
    if not view.voters or fault.controller in view.voters:
        return f"controller {fault.controller} votes already"
    return _controller_away(view)


def _remove_controller(view: k.View, fault: k.RemoveController) -> str:
    if not view.voters - {fault.controller} or fault.controller not in view.voters:
        return f"controller {fault.controller} does not vote, or alone"
    return _controller_away(view)


def _fail_directory(view: k.View, fault: k.FailLogDirectory) -> str:
    if not view.outlives_disks:
        return "its brokers have one log directory, or end where a disk fails"
    partition = _partition_at(view, fault)
    if partition is None:
        return f"broker {fault.broker} has no such replica"
    if any(failed.broker == fault.broker for failed in view.faults(k.FailLogDirectory)):
        return f"a log directory of broker {fault.broker} has failed already"
    if not partition.isr - {fault.broker}:
        return f"broker {fault.broker} is the last one in the ISR"
    return _not_whole(view, fault.broker)


def _elect(view: k.View, fault: k.PreferredElection) -> str:
    partition = view.partition(fault.topic, fault.partition)
    if partition is None:
        return "there is no such partition"
    preferred = partition.replicas[0]
    if partition.leader in (preferred, NO_LEADER):
        return f"broker {preferred} leads already, or nobody does"
    if preferred not in partition.isr or preferred in partition.offline:
        return f"broker {preferred} is not in the ISR"
    return _not_whole(view, preferred) or _controller_cannot(view, partition.replicas)


def _move(view: k.View, _fault: k.MoveController) -> str:
    if view.quorum:
        return _not_all_controllers(view)
    return "" if view.whole else "nobody can be elected"


_POINT_FAULTS = (k.FreezeFollower, k.HoldController, k.HoldPoint, k.SlowDisk, k.SlowFetchReads)
_FAULTS: Mapping[type[Any], Callable[[k.View, Any], str]] = {
    k.KillBroker: _end_process,
    k.StopBroker: _end_process,
    k.FastBounce: _end_process,
    k.PauseBroker: _cut_off,
    k.CutZooKeeper: _cut_off,
    k.CutControllers: _cut_off,
    k.FenceBroker: _fence,
    k.UnregisterBroker: _end_process,
    k.UpdateFeatures: _raise_features,
    k.AddController: _add_controller,
    k.RemoveController: _remove_controller,
    k.ExpireSession: _expire,
    k.CutLink: _cut,
    k.HoldRequests: _hold,
    k.DisturbClients: _disturb,
    k.ForgeAnswers: _forge,
    k.ConfigureTopic: _configure,
    k.RollBroker: lambda view, fault: (
        _roll_release(view, fault) if fault.kafka else _roll(view, fault)
    ),
    k.FormatDowngrade: _downgrade,
    k.IsolateBroker: _isolate,
    k.LoseTail: _lose_tail,
    k.TearEpochs: _tear,
    k.FreezeFollower: _hold_point,
    k.HoldPoint: _hold_point,
    k.SlowDisk: _hold_point,
    k.SlowFetchReads: _hold_point,
    k.HoldController: _hold_controller,
    k.StaleRequest: _stale,
    k.ThrottleReplication: _throttle,
    k.LoseEpochs: _lose_epochs,
    k.LoseFile: _lose_file,
    **dict.fromkeys(_OF_ZOOKEEPER, _end_member),
    k.WipeLogDirectory: _wipe,
    k.FailLogDirectory: _fail_directory,
    k.PreferredElection: _elect,
    k.MoveController: _move,
}


def _rolled(view: k.View, fault: k.FastBounce | k.RollBroker) -> k.View:
    """Release and protocol of each broker after a roll."""
    if isinstance(fault, k.RollBroker) and PROTOCOL in dict(fault.properties):
        return replace(view, raised=view.raised | {fault.broker})
    if isinstance(fault, k.FastBounce) or not fault.kafka:
        return view
    upgraded = view.upgraded - {fault.broker}
    if fault.kafka == view.asked:
        upgraded |= {fault.broker}
    return replace(view, upgraded=upgraded)


def _injected(view: k.View, fault: k.Fault) -> k.View:
    match fault:
        case k.UpdateFeatures():
            return replace(view, raised=frozenset(view.brokers))
        case k.KillBroker(broker=broker) | k.StopBroker(broker=broker):
            return gone(replace(view, running=view.running - {broker}), broker)
        case k.FastBounce(broker=broker) | k.RollBroker(broker=broker):
            return back(gone(_rolled(view, fault), broker), broker)
        case k.PauseBroker(broker=broker):
            return replace(view, paused=view.paused | {broker})
        case k.CutZooKeeper(broker=broker) | k.CutControllers(broker=broker):
            return replace(view, cut_off=view.cut_off | {broker})
        case k.IsolateBroker(broker=broker, zookeeper=True):
            return replace(view, cut_off=view.cut_off | {broker})
        case k.UnregisterBroker(broker=broker):
            return gone(view, broker)
        case k.FailLogDirectory(broker=broker, topic=topic, partition=partition):
            return without_disk(view, broker, topic, partition)
        case k.FenceBroker(broker=broker) | k.ExpireSession(broker=broker):
            returns = broker in view.whole and not _is_held(view, broker, "BrokerHeartbeat")
            view = gone(view, broker)
            return back(view, broker) if returns else view
        case k.PreferredElection(topic=topic, partition=partition):
            led = tuple(
                elected(view, there, elect_preferred)
                if (there.topic, there.partition) == (topic, partition)
                else there
                for there in view.partitions
            )
            return replace(view, partitions=led)
        case k.MoveController() if not view.quorum:
            return replace(view, controllers=view.whole)
        case _:
            return view


# -- healing ----------------------------------------------------------------------------------


def _heal(view: k.View, name: str) -> str:
    fault = dict(view.acting).get(name)
    if fault is None:
        return f"no fault named {name!r} acts"
    if isinstance(fault, k.FailLogDirectory) and fault.broker in view.running:
        # It is killed and started again.
        return _not_whole(view, fault.broker)
    return ""


def _healed(view: k.View, name: str) -> k.View:
    fault = dict(view.acting)[name]
    view = replace(view, acting=tuple(named for named in view.acting if named[0] != name))
    if getattr(fault, "broker", None) in view.quorum:
        return view
    match fault:
        case k.UnregisterBroker(broker=broker):
            return back(view, broker)
        case k.FailLogDirectory(broker=broker):
            restored = tuple(
                replace(partition, offline=partition.offline - {broker})
                for partition in view.partitions
            )
            view = replace(view, partitions=restored)
            return back(gone(view, broker), broker) if broker in view.running else view
        case k.HoldRequests(api="BrokerHeartbeat", source=int(broker)) if broker in view.running:
            return back(view, broker)
        case k.KillBroker(broker=broker) | k.StopBroker(broker=broker):
            return back(replace(view, running=view.running | {broker}), broker)
        case k.PauseBroker(broker=broker):
            return back(replace(view, paused=view.paused - {broker}), broker)
        case k.CutZooKeeper(broker=broker) | k.CutControllers(broker=broker):
            return back(replace(view, cut_off=view.cut_off - {broker}), broker)
        case k.IsolateBroker(broker=broker, zookeeper=True):
            return back(replace(view, cut_off=view.cut_off - {broker}), broker)
        case _:
            return view


# -- topics and clients -----------------------------------------------------------------------


def _create(view: k.View, step: k.CreateTopic) -> str:
    if step.topic in view.topics or len(view.topics) >= MOST_TOPICS:
        return f"{step.topic} exists, or there are enough topics"
    replicas = {broker for assigned in step.assignment for broker in assigned}
    if view.faults(k.FailLogDirectory):
        return "a broker whose log directory has failed may make no log of a new topic"
    return _undecided(view, replicas)


def _delete(view: k.View, step: k.DeleteTopic) -> str:
    """Return why a deletion is illegal: another topic must stay, and all replicas must live."""
    if step.topic not in view.topics or len(view.topics) < MOST_TOPICS:
        return f"there is no {step.topic}, or nothing else"
    replicas = {
        broker
        for partition in view.partitions
        if partition.topic == step.topic
        for broker in partition.replicas
    }
    return _undecided(view, replicas)


def _created(view: k.View, step: k.CreateTopic) -> k.View:
    is_tiered = ("remote.storage.enable", "true") in step.configuration
    return _with_partitions(view, step.topic, step.assignment, is_tiered=is_tiered)


def _deleted(view: k.View, step: k.DeleteTopic) -> k.View:
    left = tuple(partition for partition in view.partitions if partition.topic != step.topic)
    return replace(view, partitions=left)


def _snapshot(view: k.View, _step: k.TakeSnapshot) -> str:
    return "enough snapshots" if view.snapshots >= MOST_SNAPSHOTS else ""


def _read(view: k.View, step: k.Read) -> str:
    return _name_used(view, step.operation) or _unled(view, step)


def _cancel(view: k.View, step: k.CancelReassignment) -> str:
    return _not_asked(view) or _unled(view, step)


def _with_partitions(
    view: k.View, topic: str, assignment: Iterable[tuple[int, ...]], *, is_tiered: bool = False
) -> k.View:
    there = [partition for partition in view.partitions if partition.topic == topic]
    made = (
        PartitionInView(
            topic=topic,
            partition=index,
            replicas=replicas,
            leader=NO_LEADER,
            isr=frozenset(),
            is_tiered=is_tiered or any(partition.is_tiered for partition in there),
        )
        for index, replicas in enumerate(assignment, start=len(there))
    )
    led = (elected(view, each, lambda context, _: elect_for_new(context)) for each in made)
    return replace(view, partitions=(*view.partitions, *led))


def _reassign(view: k.View, step: k.Reassign) -> str:
    partition = view.partition(step.topic, step.partition)
    if partition is None or partition.leader == NO_LEADER:
        return "there is no such partition, or nobody leads it"
    if step.replicas == partition.replicas:
        return "it has these replicas"
    same = {*step.replicas} == {*partition.replicas}
    if same != isinstance(step, k.ReorderReplicas):
        return "another order is for ReorderReplicas, other brokers are for Reassign"
    if step.by == "api" and (why := _not_asked(view)):
        return why
    return _undecided(view, {*step.replicas, *partition.replicas})


def _reassigned(view: k.View, step: k.Reassign) -> k.View:
    def changed(partition: PartitionInView) -> PartitionInView:
        if (partition.topic, partition.partition) != (step.topic, step.partition):
            return partition
        in_sync = replace(
            partition, replicas=step.replicas, isr=frozenset(step.replicas), zombies=frozenset()
        )
        return elected(view, in_sync, partial(elect_for_reassignment, wanted=step.replicas))

    return replace(view, partitions=tuple(map(changed, view.partitions)))


def _not_asked(view: k.View) -> str:
    return "" if view.is_asked else "controllers before 2.4 know no such request"


def _add(view: k.View, step: k.AddPartitions) -> str:
    there = [partition for partition in view.partitions if partition.topic == step.topic]
    if not there or len(there) >= _MOST_PARTITIONS:
        return "there is no such topic, or it has many partitions"
    return _undecided(view, {broker for each in step.assignment for broker in each})


def _elect_uncleanly(view: k.View, step: k.ElectUncleanly) -> str:
    partition = view.partition(step.topic, step.partition)
    if partition is None or partition.leader != NO_LEADER:
        return "there is no such partition, or somebody leads it"
    able = view.whole.intersection(partition.replicas) - partition.offline
    why = _not_asked(view) or ("" if able else "none of its replicas can lead")
    return why or _controller_cannot(view, tuple(sorted(able)))


def _elected_uncleanly(view: k.View, step: k.ElectUncleanly) -> k.View:
    allowed = replace(view, unclean=True)
    partitions = tuple(
        elected(allowed, each, elect_for_offline)
        if (each.topic, each.partition) == (step.topic, step.partition)
        else each
        for each in view.partitions
    )
    return replace(view, partitions=partitions)


def _move_replica(view: k.View, step: k.MoveReplica) -> str:
    if not view.moves_replicas:
        return "brokers have one log directory, or cannot move a replica to another"
    if view.faults(k.FailLogDirectory):
        return "a log directory has failed"
    partition = view.partition(step.topic, step.partition)
    if partition is None or step.broker not in partition.replicas:
        return f"broker {step.broker} holds no such partition"
    return _not_whole(view, step.broker)


def _unled(view: k.View, step: k.Read | k.DeleteRecords | k.CancelReassignment) -> str:
    partition = view.partition(step.topic, step.partition)
    if partition is None or partition.leader == NO_LEADER:
        return "there is no such partition, or nobody leads it"
    return _not_whole(view, partition.leader)


def _delete_records(view: k.View, step: k.DeleteRecords) -> str:
    if not view.has_epochs:
        return "before 0.11 nobody can ask for that"
    partition = view.partition(step.topic, step.partition)
    if partition is not None and step.before_offset > partition.end:
        return f"offset {step.before_offset} is beyond the log"
    return _unled(view, step)


def _name_used(view: k.View, operation: str) -> str:
    return f"{operation} was used already" if operation in view.names else ""


def _produced(view: k.View, step: k.Produce) -> k.View:
    """Return the view after a leader's append; a zombie's append is lost to it in the end."""

    def grown(partition: PartitionInView) -> PartitionInView:
        is_it = (partition.topic, partition.partition) == (step.topic, step.partition)
        if not is_it or step.broker not in (None, partition.leader):
            return partition
        end = partition.end + step.records
        begun = tuple(range(partition.end, end)) if step.one_record_batches else (partition.end,)
        return replace(partition, starts=(*partition.starts, *begun), end=end)

    names = view.names | {step.operation}
    return replace(view, names=names, partitions=tuple(map(grown, view.partitions)))


def _produce(view: k.View, step: k.Produce) -> str:
    if used := _name_used(view, step.operation):
        return used
    partition = view.partition(step.topic, step.partition)
    if partition is None:
        return "there is no such partition"
    broker = partition.leader if step.broker is None else step.broker
    if broker not in view.running or broker in view.paused:
        return f"broker {broker} does not run, or stands still"
    if step.broker is not None and broker != partition.leader and broker not in partition.zombies:
        return f"broker {broker} does not believe that it leads"
    return ""


# -- what several rules ask -------------------------------------------------------------------


def _not_whole(view: k.View, broker: int) -> str:
    if broker in view.whole:
        return ""
    return f"broker {broker} is dead, paused, cut off from ZooKeeper or without a session"


def _last_one(view: k.View, broker: int) -> str:
    return "" if view.whole - {broker} else f"broker {broker} is the last whole one"


def _sessions(view: k.View) -> list[k.ExpireSession]:
    """Return session expiries whose healing awaits the broker's return."""
    return [fault for fault in view.faults(k.ExpireSession) if fault.await_return]


def _not_all_controllers(view: k.View) -> str:
    """Return why a KRaft controller is needed: too few vote, or another is away."""
    voters = view.voters or view.quorum
    few = "" if len(voters) > _FEW_VOTERS else f"of {len(voters)} voters none can be missed"
    return _controller_away(view) or few


def _controller_away(view: k.View) -> str:
    """Return which KRaft controller is away."""
    away = [name for name, fault in view.acting if getattr(fault, "broker", None) in view.quorum]
    return f"a controller is away already: {away[0]}" if away else ""


def _is_held(view: k.View, broker: int, api: str) -> bool:
    """Return whether the broker's requests of this API to KRaft controllers are held."""
    return any(
        (fault.api, fault.source) == (api, broker) and fault.topic in (None, METADATA_TOPIC)
        for fault in view.faults(k.HoldRequests)
        if view.quorum
    )


def _undecided(view: k.View, brokers: Set[int]) -> str:
    """Return which of these brokers is not whole, or why no controller could decide about them."""
    whys = (_not_whole(view, broker) for broker in sorted(brokers))
    return next(filter(None, whys), "") or _controller_cannot(view, tuple(sorted(brokers)))


def _controller_cannot(view: k.View, brokers: tuple[int, ...]) -> str:
    """Return why no controller could decide about these brokers at once."""
    if view.quorum:
        return "requests are held" if view.faults(k.HoldRequests) else ""
    if not view.controllers or not view.controllers <= view.whole:
        return "the controller may be dead or cut off"
    concerned = {*brokers, *view.controllers}
    if any(not is_linked(view, a, b) for a in concerned for b in concerned if a != b):
        return "a cut lies between the controller and replicas"
    return "requests are held" if view.faults(k.HoldRequests) else ""


_STEPS: Mapping[type[Any], Callable[[k.View, Any], str]] = {
    k.CreateTopic: _create,
    k.DeleteTopic: _delete,
    k.Produce: _produce,
    k.Reassign: _reassign,
    k.ReorderReplicas: _reassign,
    k.AddPartitions: _add,
    k.CancelReassignment: _cancel,
    k.ElectUncleanly: _elect_uncleanly,
    k.MoveReplica: _move_replica,
    k.Read: _read,
    k.DeleteRecords: _delete_records,
    k.TakeSnapshot: _snapshot,
}
_EFFECTS: Mapping[type[Any], Callable[[k.View, Any], k.View]] = {
    k.CreateTopic: _created,
    k.DeleteTopic: _deleted,
    k.Produce: _produced,
    k.Reassign: lambda view, step: settled(_reassigned(view, step)),
    k.ReorderReplicas: lambda view, step: settled(_reassigned(view, step)),
    k.AddPartitions: lambda view, step: _with_partitions(view, step.topic, step.assignment),
    k.ElectUncleanly: lambda view, step: settled(_elected_uncleanly(view, step)),
    k.Read: lambda view, step: replace(view, names=view.names | {step.operation}),
    k.TakeSnapshot: lambda view, _: replace(view, snapshots=view.snapshots + 1),
}
