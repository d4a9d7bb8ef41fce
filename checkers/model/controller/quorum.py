"""Decisions of a KRaft controller: each a function of the metadata before it and of its event.

The leader of the quorum knows all of its log and nothing else, so that a decision is not one of
several. What comes from outside is the event: a broker that registers, a leader that asks for
another ISR, a client that asks for a reassignment.

Read from org.apache.kafka.controller.PartitionChangeBuilder, PartitionReassignmentReplicas,
PartitionReassignmentRevert, ReplicationControlManager and ClusterControlManager, 3.3.0 to 4.3.1,
and from the classes of 4.4.0, which decide as 4.3.1's do. Orders of hash sets are passed over:
eligible replicas are in ascending order here.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.formats.metadata_image import (
    BROKER_RESOURCE,
    MIGRATING,
    NO_LEADER_CHANGE,
    TOPIC_RESOURCE,
    UNASSIGNED,
    BrokerImage,
    MetadataImage,
    PartitionImage,
)
from kchaos.checkers.model.controller.decisions import first_of
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.values.events import NO_LEADER

Place = tuple[str, int]
"""Topic id and number of a partition."""
Fields = Mapping[str, Any]
"""Content of a record of a partition, by Kafka's names; what is not named stays as it is."""
Changes = Mapping[Place, Fields]
"""Changes of one event: the content of each partition's PartitionChangeRecord, as far as any is."""

_SAYS_NOTHING = {"Leader": NO_LEADER_CHANGE, "LeaderRecoveryState": -1}
# Feature levels: MetadataVersion and EligibleLeaderReplicasVersion.
_METADATA_VERSION, _ELIGIBLE = "metadata.version", "eligible.leader.replicas.version"
_NO_NEW_EPOCH_FOR_LEAVING = 12
"""Level of 3.6-IV0: a smaller ISR is no longer a new leader epoch (KAFKA-15021)."""
_WITH_DIRECTORIES = 17
"""Level of 3.7-IV2: records name the log directory of each replica (KIP-858)."""


class Election(Enum):
    """Which replica is preferred, and whether one outside the ISR may lead."""

    PREFERRED = "preferred"
    ONLINE = "online"
    UNCLEAN = "unclean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """The leader of the quorum when it decides.

    Attributes:
        image: The metadata before; `quorum_leader` is its own id.
        generation: What controllers of its release do.
        properties: The settings that it was started with.
    """

    image: MetadataImage
    generation: Generation
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def metadata_version(self) -> int:
        """Return the level of metadata.version."""
        return self.image.features.get(_METADATA_VERSION, 0)

    @property
    def has_eligible(self) -> bool:
        """Return whether partitions have eligible leader replicas (KIP-966)."""
        return self.image.features.get(_ELIGIBLE, 0) > 0

    def min_isr(self, place: Place) -> int:
        """Return how many members an ISR needs (getTopicEffectiveMinIsr)."""
        first = self.image.partitions.get((place[0], 0))
        replicas = self.image.partitions[place].replicas if first is None else first.replicas
        return min(int(self._setting(place, "min.insync.replicas") or "1"), len(replicas))

    def election(self, place: Place) -> Election:
        """Return whether the topic's settings allow unclean elections."""
        allowed = self._setting(place, "unclean.leader.election.enable")
        is_unclean = self.generation.elects_uncleanly_by_setting
        return Election.UNCLEAN if is_unclean and allowed.lower() == "true" else Election.ONLINE

    def default_directory(self, broker: int) -> str:
        """Return the directory of a replica that is new (ClusterControlManager.defaultDir)."""
        known = self.image.brokers.get(broker)
        directories = () if known is None else known.directories
        if known is not None and not directories:
            return MIGRATING
        return directories[0] if len(directories) == 1 else UNASSIGNED

    def active(self, place: Place) -> frozenset[int]:
        """Return the replicas that may lead: their brokers are active, their directories work."""
        partition = self.image.partitions[place]
        return frozenset(
            replica
            for replica in {*partition.replicas, *partition.last_known}
            if (broker := self.image.brokers.get(replica)) is not None
            and broker.is_active
            and broker.has_online(partition.directory(replica))
        )

    def _setting(self, place: Place, name: str) -> str:
        """Return a setting of a topic: its own, the controller's, that of all, the first; or ""."""
        settings = self.image.settings
        for written in (
            settings.get((TOPIC_RESOURCE, self.image.names[place[0]]), {}),
            settings.get((BROKER_RESOURCE, str(self.image.quorum_leader)), {}),
            settings.get((BROKER_RESOURCE, ""), {}),
            self.properties,
        ):
            if name in written:
                return written[name]
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Wanted state of a partition; what is None stays as it is.

    Attributes:
        electable: The replicas that may lead.
        election: Which of them is looked for.
        lost: Brokers that ended uncleanly, and may hold less than they did.
        directories: The directories that are chosen, by broker.
        has_eligible: Whether eligible leader replicas are kept.
    """

    electable: Collection[int]
    election: Election
    has_eligible: bool
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    is_recovering: bool | None = None
    lost: frozenset[int] = frozenset()
    directories: Mapping[int, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class _Assigned:
    """Who shall hold a partition, and who is in sync."""

    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def change(quorum: Quorum, place: Place, target: Target) -> Fields:
    """Return what a PartitionChangeRecord sets to come to a target (PartitionChangeBuilder.build).

    Empty where there is nothing to change.
    """
    partition, generation = quorum.image.partitions[place], quorum.generation
    wanted = _assigned(partition, target, generation)
    isr, eligible = wanted.isr, _eligible(quorum, place, target, wanted.isr)
    fields: dict[str, Any] = {}
    leader, is_unclean = _elected(partition, target, wanted, eligible, generation)
    if leader != partition.leader:
        fields["Leader"] = leader
        if leader in eligible:
            isr, eligible = (leader,), tuple(other for other in eligible if other != leader)
        if is_unclean:
            fields["Isr"] = (leader,)
            if not partition.is_recovering:
                fields["LeaderRecoveryState"] = 1
    elif not {*partition.replicas} <= {*wanted.replicas}:
        fields["Leader"] = partition.leader
    if "Isr" in fields or not target.has_eligible:
        eligible = ()
    if eligible != tuple(sorted(partition.eligible)):
        fields["EligibleLeaderReplicas"] = eligible
    if "Isr" not in fields and (isr or target.has_eligible) and isr != partition.isr:
        fields["Isr"] = isr
    counted = fields.get("Isr", partition.isr) if generation.counts_written_isr else isr
    if quorum.metadata_version < _NO_NEW_EPOCH_FOR_LEAVING and not {*partition.isr} <= {*counted}:
        fields.setdefault("Leader", partition.leader)
    if target.has_eligible:
        fields |= _last_known(partition, fields, generation)
    fields |= _assignment(quorum, partition, wanted, target)
    if target.is_recovering not in (None, partition.is_recovering):
        fields["LeaderRecoveryState"] = int(bool(target.is_recovering))
    return fields


def _assigned(partition: PartitionImage, target: Target, generation: Generation) -> _Assigned:
    """Return what is wanted, once the reassignment is over if it is (maybeCompleteReassignment)."""
    isr = partition.isr if target.isr is None else target.isr
    replicas = partition.replicas if target.replicas is None else target.replicas
    adding = partition.adding if target.adding is None else target.adding
    removing = partition.removing if target.removing is None else target.removing
    if adding or removing:
        kept = tuple(member for member in isr if member not in removing)
        staying = tuple(replica for replica in replicas if replica not in removing)
        is_emptied = bool(removing) and not (kept and staying)
        if not is_emptied and generation.ends_reassignment(adding, removing, staying, kept):
            return _Assigned(isr=kept, replicas=staying, adding=(), removing=())
    return _Assigned(isr=isr, replicas=replicas, adding=adding, removing=removing)


def _eligible(
    quorum: Quorum, place: Place, target: Target, isr: tuple[int, ...]
) -> tuple[int, ...]:
    """Return who is eligible beside an ISR that is too small (maybePopulateTargetElr)."""
    partition = quorum.image.partitions[place]
    if not target.has_eligible:
        return partition.eligible
    if len(isr) >= quorum.min_isr(place):
        return ()
    return tuple(sorted({*partition.eligible, *partition.isr} - {*isr} - target.lost))


def _elected(
    partition: PartitionImage,
    target: Target,
    wanted: _Assigned,
    eligible: tuple[int, ...],
    generation: Generation,
) -> tuple[int, bool]:
    """Return the leader, and whether its election is unclean (electLeader)."""
    order = [partition.leader, *wanted.replicas]
    if target.election is Election.PREFERRED:
        order = [wanted.replicas[0], *order]
    leader = first_of(order, target.electable, wanted.isr or eligible)
    if leader != NO_LEADER:
        return leader, False
    if target.has_eligible and not wanted.isr and not eligible and len(partition.last_known) == 1:
        (last,) = partition.last_known
        if last in target.electable or not generation.looks_whether_last_known_lives:
            return last, True
    if target.election is Election.UNCLEAN:
        leader = first_of(wanted.replicas, target.electable, wanted.replicas)
    return leader, leader != NO_LEADER


def _last_known(partition: PartitionImage, fields: Fields, generation: Generation) -> Fields:
    """Return whom a partition remembers as its last leader (maybeUpdateLastKnownLeader)."""
    written = fields.get("Leader", NO_LEADER_CHANGE)
    known = generation.last_known_leader(
        partition.leader, written, partition.last_known, fields.get("Isr")
    )
    return {} if known is None else {"LastKnownElr": known}


def _assignment(
    quorum: Quorum, partition: PartitionImage, wanted: _Assigned, target: Target
) -> Fields:
    """Return what changes of replicas, directories and reassignment (setAssignmentChanges)."""
    fields: dict[str, Any] = {}
    if wanted.replicas:
        directories = {replica: partition.directory(replica) for replica in partition.replicas}
        directories |= target.directories
        named = tuple(
            directories.get(replica) or quorum.default_directory(replica)
            for replica in wanted.replicas
        )
        known = partition.directories or (MIGRATING,) * len(partition.replicas)
        if quorum.metadata_version >= _WITH_DIRECTORIES and named != known:
            fields["Directories"] = named
        if wanted.replicas != partition.replicas:
            fields["Replicas"] = wanted.replicas
    if wanted.removing != partition.removing:
        fields["RemovingReplicas"] = wanted.removing
    if wanted.adding != partition.adding:
        fields["AddingReplicas"] = wanted.adding
    return fields


def said_by(record: Fields) -> Fields:
    """Return what a PartitionChangeRecord sets, as `change` has it."""
    fields = {
        name: value
        for name, value in record.items()
        if name not in ("TopicId", "PartitionId")
        and value is not None
        and value != _SAYS_NOTHING.get(name)
    }
    if "EligibleLeaderReplicas" in fields:
        fields["EligibleLeaderReplicas"] = tuple(sorted(fields["EligibleLeaderReplicas"]))
    return fields


# -- events that come with a record of their own ------------------------------------------------


def without(quorum: Quorum, broker: int, places: Iterable[Place]) -> Changes:
    """Return what changes as a broker leaves ISRs and leads no more."""
    return _updates(quorum, places, leaving=broker)


def fenced(quorum: Quorum, broker: int) -> Changes:
    """Return what changes as a broker is fenced, or shuts down (handleBrokerFenced)."""
    return without(quorum, broker, _in_isr(quorum, broker))


def unfenced(quorum: Quorum, broker: int) -> Changes:
    """Return what changes as a broker is unfenced: partitions may get a leader."""
    leaderless = (
        place
        for place, partition in quorum.image.partitions.items()
        if partition.leader == NO_LEADER
    )
    return _updates(quorum, leaderless, joining=broker)


def unregistered(quorum: Quorum, broker: int) -> Changes:
    """Return what changes as a broker is unregistered (handleBrokerUnregistered)."""
    eligible = without(quorum, broker, _in_eligible(quorum, broker))
    return {**eligible, **fenced(quorum, broker)}


def registered(quorum: Quorum, broker: int, incarnation: str, *, is_clean: bool) -> Changes:
    """Return what changes as a process registers (ClusterControlManager.registerBroker).

    Args:
        quorum: The leader of the quorum.
        broker: Whose process registers.
        incarnation: That of the process.
        is_clean: Whether the process before ended in order, by the broker epoch that it tells.
    """
    known = quorum.image.brokers.get(broker)
    if known is not None and known.said.get("IncarnationId") == incarnation:
        return {}
    if not quorum.generation.cleans_up_at_registration:
        return {}
    if is_clean or not quorum.has_eligible:
        return fenced(quorum, broker)
    places = {*_in_isr(quorum, broker), *_in_eligible(quorum, broker)}
    return _updates(quorum, sorted(places), leaving=broker, is_lost=True)


def failed(quorum: Quorum, broker: int, directories: Collection[str]) -> Changes:
    """Return what changes as log directories of a broker fail (handleDirectoriesOffline)."""
    places = (
        place
        for place, partition in quorum.image.partitions.items()
        if broker in partition.replicas and partition.directory(broker) in directories
    )
    return without(quorum, broker, places)


def _updates(
    quorum: Quorum,
    places: Iterable[Place],
    *,
    leaving: int = NO_LEADER,
    joining: int = NO_LEADER,
    is_lost: bool = False,
) -> Changes:
    changes = {}
    for place in places:
        partition = quorum.image.partitions[place]
        electable = quorum.active(place) - {leaving}
        if joining in partition.replicas or joining in partition.last_known:
            broker = quorum.image.brokers[joining]
            electable |= {joining} if broker.has_online(partition.directory(joining)) else set()
        target = Target(
            electable=electable,
            election=quorum.election(place),
            has_eligible=quorum.has_eligible,
            isr=tuple(member for member in partition.isr if member != leaving),
            lost=frozenset({leaving} if is_lost else ()),
        )
        fields = change(quorum, place, target)
        if fields:
            changes[place] = fields
    return changes


def _in_isr(quorum: Quorum, broker: int) -> list[Place]:
    return [place for place, each in quorum.image.partitions.items() if broker in each.isr]


def _in_eligible(quorum: Quorum, broker: int) -> list[Place]:
    return [place for place, each in quorum.image.partitions.items() if broker in each.eligible]


# -- events that are about one partition --------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposal:
    """A leader's request for another ISR (AlterPartition).

    Attributes:
        isr: Each member with the broker epoch that the leader has seen of it, -1 for none.
    """

    leader: int
    leader_epoch: int
    partition_epoch: int
    broker_epoch: int
    isr: tuple[tuple[int, int], ...]
    is_recovering: bool


def refused_with(quorum: Quorum, place: Place, proposal: IsrProposal) -> ErrorCode:
    """Return the error with which a controller refuses a proposal, NONE where it takes it.

    Read from ReplicationControlManager (`alterPartition`, `validateAlterPartitionData`), 3.3.0 to
    4.3.1, and the classes of 4.4.0: the order of the checks is the same in all. KRaft's brokers
    know topic ids, so AlterPartition is version 2 at least.
    """
    partition = quorum.image.partitions.get(place)
    leader = quorum.image.brokers.get(proposal.leader)
    if leader is None or leader.epoch != proposal.broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    members = tuple(member for member, _ in proposal.isr)
    is_ahead = proposal.leader_epoch > partition.leader_epoch
    if is_ahead or proposal.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if proposal.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if proposal.leader != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if proposal.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if (
        len({*members}) < len(members)
        or not {*members} <= {*partition.replicas}
        or proposal.leader not in members
        or (proposal.is_recovering and (len(members) > 1 or not partition.is_recovering))
    ):
        return ErrorCode.INVALID_REQUEST
    if not all(_may_join(quorum.image.brokers.get(broker), at) for broker, at in proposal.isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def isr_asked_for(quorum: Quorum, place: Place, proposal: IsrProposal) -> Fields | None:
    """Return what changes by a proposal; None where it is refused."""
    if refused_with(quorum, place, proposal):
        return None
    target = Target(
        electable=quorum.active(place),
        election=quorum.election(place),
        has_eligible=quorum.has_eligible,
        isr=tuple(member for member, _ in proposal.isr),
        is_recovering=proposal.is_recovering,
    )
    return change(quorum, place, target)


@dataclass(frozen=True, slots=True)
class IsrAnswer:
    """A controller's answer to a proposal.

    Attributes:
        error: NONE where the state that follows is told.
        isr: Of that state; empty with an error.
        partition_epoch: Of that state; -1 with an error.
    """

    error: ErrorCode
    isr: tuple[int, ...] = ()
    partition_epoch: int = -1


def answer_to(quorum: Quorum, place: Place, proposal: IsrProposal) -> IsrAnswer:
    """Return a controller's answer to a proposal, by the metadata before it.

    NEW_LEADER_ELECTED is the one error with which something was written: the proposal ended a
    reassignment that took its leader's replica away.
    """
    if error := refused_with(quorum, place, proposal):
        return IsrAnswer(error)
    partition = quorum.image.partitions[place]
    fields = isr_asked_for(quorum, place, proposal)
    if not fields:
        return IsrAnswer(ErrorCode.NONE, partition.isr, partition.partition_epoch)
    if fields.get("Leader", proposal.leader) != proposal.leader:
        return IsrAnswer(ErrorCode.NEW_LEADER_ELECTED)
    isr = fields.get("Isr", partition.isr)
    return IsrAnswer(ErrorCode.NONE, isr, partition.partition_epoch + 1)


def _may_join(broker: BrokerImage | None, epoch: int) -> bool:
    return broker is not None and broker.is_active and epoch in (-1, broker.epoch)


def elected(quorum: Quorum, place: Place, election: Election) -> Fields:
    """Return what an election comes to that somebody, or a timer, asks for (electLeader)."""
    partition = quorum.image.partitions[place]
    preferred = election is Election.PREFERRED
    if partition.leader == partition.replicas[0] if preferred else partition.leader != NO_LEADER:
        return {}
    target = Target(
        electable=quorum.active(place), election=election, has_eligible=quorum.has_eligible
    )
    return change(quorum, place, target)


def reassigned(quorum: Quorum, place: Place, replicas: Sequence[int]) -> Fields:
    """Return what changes as a partition is to be held by others (changePartitionReassignment)."""
    now = quorum.image.partitions[place].replicas
    removing = tuple(sorted({*now} - {*replicas}))
    target = Target(
        electable=quorum.active(place),
        election=Election.ONLINE,
        has_eligible=quorum.has_eligible,
        replicas=(*replicas, *removing),
        adding=tuple(sorted({*replicas} - {*now})) or None,
        removing=removing or None,
    )
    return change(quorum, place, target)


def cancelled(quorum: Quorum, place: Place) -> Fields:
    """Return what changes as a reassignment is cancelled (PartitionReassignmentRevert)."""
    partition = quorum.image.partitions[place]
    if not partition.is_reassigning:
        return {}
    replicas = tuple(each for each in partition.replicas if each not in partition.adding)
    isr = tuple(each for each in partition.isr if each not in partition.adding)
    if not isr and quorum.election(place) is not Election.UNCLEAN:
        return {}
    target = Target(
        electable=quorum.active(place),
        election=quorum.election(place),
        has_eligible=quorum.has_eligible,
        isr=isr or replicas[:1],
        replicas=replicas,
        adding=(),
        removing=(),
    )
    return change(quorum, place, target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A broker's request to note that its replica lies in a directory (AssignReplicasToDirs)."""

    broker: int
    broker_epoch: int
    directory: str


def answer_to_assignment(quorum: Quorum, place: Place, assignment: Assignment) -> ErrorCode:
    """Return the error with which a controller answers for a partition, NONE where it notes it.

    Read from ReplicationControlManager.handleAssignReplicasToDirs, 3.7.1 to 4.3.1.
    """
    broker = quorum.image.brokers.get(assignment.broker)
    if broker is None or broker.epoch != assignment.broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    if place[0] not in quorum.image.names:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = quorum.image.partitions.get(place)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    is_replica = assignment.broker in partition.replicas
    return ErrorCode.NONE if is_replica else ErrorCode.NOT_LEADER_FOR_PARTITION


def directory_assigned(quorum: Quorum, place: Place, broker: int, directory: str) -> Fields:
    """Return what changes as a broker tells where a replica lies (handleAssignReplicasToDirs)."""
    target = Target(
        electable=quorum.active(place),
        election=Election.ONLINE,
        has_eligible=quorum.has_eligible and quorum.generation.keeps_eligible_of_assigned,
        directories={broker: directory},
    )
    return change(quorum, place, target)


def created(quorum: Quorum, replicas: Sequence[int]) -> Fields:
    """Return what a PartitionRecord has besides its replicas (buildPartitionRegistration)."""
    brokers = quorum.image.brokers
    active = [each for each in replicas if each in brokers and brokers[each].is_active]
    fields: dict[str, Any] = {
        "Isr": tuple(active),
        "Leader": first_of(replicas, active, replicas),
        "LeaderRecoveryState": 0,
        "LeaderEpoch": 0,
        "PartitionEpoch": 0,
        "RemovingReplicas": (),
        "AddingReplicas": (),
    }
    if quorum.metadata_version >= _WITH_DIRECTORIES:
        fields["Directories"] = tuple(quorum.default_directory(each) for each in replicas)
    return fields


def alone(
    quorum: Quorum,
    place: Place,
    written: Fields,
    proposals: Collection[IsrProposal] | None,
    *,
    asked: Collection[Election],
    assignments: Collection[Assignment] | None = None,
) -> Iterator[tuple[str, Fields]]:
    """Yield each event about one partition that may have been, with what it changes.

    Args:
        quorum: The leader of the quorum.
        place: The partition.
        written: What was written: it tells the replicas and directories that somebody chose.
        proposals: What its leaders asked for; None where nobody saw that.
        asked: The elections that a client or a timer may have asked for.
        assignments: The directories that brokers told of; None where nobody saw that.
    """
    partition = quorum.image.partitions[place]
    seen = _proposed_in(quorum, place, written) if proposals is None else proposals
    for proposal in seen:
        yield "AlterPartition", isr_asked_for(quorum, place, proposal) or {}
    for election in (Election.PREFERRED, Election.UNCLEAN):
        # Partitions without a leader get one by a timer, unclean where that is allowed.
        if election in (*asked, quorum.election(place)):
            yield f"{election.value} election", elected(quorum, place, election)
    replicas = written.get("Replicas", partition.replicas)
    removing = written.get("RemovingReplicas", ())
    chosen = [replica for replica in replicas if replica not in removing]
    if chosen:
        yield "reassignment", reassigned(quorum, place, chosen)
    yield "reassignment cancelled", cancelled(quorum, place)
    # One that is told again changes no directory, and may clear who is eligible.
    named = written.get("Directories")
    for broker, directory in zip(partition.replicas, named or partition.directories, strict=False):
        if (named is None or directory != partition.directory(broker)) and (
            assignments is None or _is_told(quorum, broker, directory, assignments)
        ):
            yield "directory assigned", directory_assigned(quorum, place, broker, directory)
    for broker in partition.isr:
        known = quorum.image.brokers.get(broker)
        if known is not None and known.is_shutting_down:
            # A new leader of the quorum does not know that it has done that.
            yield "shutdown", without(quorum, broker, (place,)).get(place, {})
        elif known is not None and not known.has_online(partition.directory(broker)):
            yield "directory assigned", without(quorum, broker, (place,)).get(place, {})


def _is_told(
    quorum: Quorum, broker: int, directory: str, assignments: Collection[Assignment]
) -> bool:
    """Return whether the broker's present process told that its replica lies in the directory."""
    known = quorum.image.brokers.get(broker)
    return known is not None and (
        Assignment(broker=broker, broker_epoch=known.epoch, directory=directory) in assignments
    )


def _proposed_in(quorum: Quorum, place: Place, written: Fields) -> Iterator[IsrProposal]:
    """Yield what the leader may have asked for, if that was done; replicas that go are left out."""
    partition = quorum.image.partitions[place]
    leader = quorum.image.brokers.get(partition.leader)
    isr = written.get("Isr", partition.isr)
    leaving = (*isr, *(member for member in partition.isr if member in partition.removing))
    for members in dict.fromkeys((isr, leaving)):
        yield IsrProposal(
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            broker_epoch=-1 if leader is None else leader.epoch,
            isr=tuple((member, -1) for member in members),
            is_recovering=written.get("LeaderRecoveryState", partition.is_recovering) == 1,
        )
