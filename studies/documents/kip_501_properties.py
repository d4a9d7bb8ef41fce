"""KIP-501's promises and risks as properties of the machine, with what it remembers for them."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from kchaos.checkers.model.state.state import Component
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.replica import Role
from kchaos.studies.documents.kip_501_proposals import Relinquish, pending_offsets
from kchaos.studies.explore.actions import Shrink
from kchaos.studies.explore.bounds import LAGS, PARTITION, Machine
from kchaos.studies.explore.in_sync import reaches_earlier_end
from kchaos.studies.explore.lag import followers_of
from kchaos.studies.explore.properties import Property

BLAMELESS = ("blameless",)
"""The component that says who left the ISR while its leader had a fetch of it, as (broker, whether
that fetch starts where the leader's log ended at the one before, or above)."""
GAVE_UP = ("gave up",)
"""The component that says who gave up its leadership because it read slowly: broker ids."""
REMEMBERING = ("online", "online-if-kept-up", "moves-once")
"""Properties for which a machine must remember who was dropped and who gave up."""


def weighing(machine: Machine, wanted: Collection[str]) -> Machine:
    """Return the machine with the document's properties, and with what the wanted ones look at.

    Args:
        machine: With the proposals that it follows, if any.
        wanted: Names of properties that will be asked for.
    """
    known = machine.extension
    properties: dict[str, Property] = {
        **known.properties,
        "online": online,
        "online-if-kept-up": online_if_kept_up,
        "droppable": partial(droppable, machine),
        "moves-once": moves_once,
    }
    known = replace(known, properties=properties)
    if not set(REMEMBERING).isdisjoint(wanted):
        components = {**known.components, BLAMELESS: frozenset(), GAVE_UP: frozenset()}
        known = replace(known, components=components, remembered=remembered)
    return replace(machine, extension=known)


def remembered(
    before: World, action: Any, changes: Mapping[Component, Any]
) -> Mapping[Component, Any]:
    """Return what is remembered after an action of who was dropped, and of who gave up."""
    noted: dict[Component, Any] = {}
    if isinstance(action, Relinquish):
        noted[GAVE_UP] = before.get(GAVE_UP) | {action.leader}
    if isinstance(action, Shrink):
        noted[BLAMELESS] = before.get(BLAMELESS) | _dropped(before, action)
    state = changes.get(("state", PARTITION))
    if state is not None:
        # Who is back in the ISR may be dropped for another reason next time.
        blameless = noted.get(BLAMELESS, before.get(BLAMELESS))
        noted[BLAMELESS] = frozenset(pair for pair in blameless if pair[0] not in state.isr)
    return noted


def _dropped(before: World, action: Shrink) -> frozenset[tuple[int, bool]]:
    """Return who is dropped while the leader has a fetch of it, and whether that one kept up."""
    view = before.known_replica(action.leader, PARTITION).view(action.follower)
    offsets = list(pending_offsets(before, action.leader, action.follower))
    if view is None or not offsets:
        return frozenset()
    end = view.last_leader_end_offset
    kept_up = any(reaches_earlier_end(offset, end) for offset in offsets)
    return frozenset({(action.follower, kept_up)})


def online(world: World) -> str:
    """Check for a leader, unless no blameless dropped follower runs.

    The machine must remember who did (KIP-501).
    """
    return _offline(
        world, {follower for follower, _ in world.get(BLAMELESS)}, "its leader had a fetch of it"
    )


def online_if_kept_up(world: World) -> str:
    """Check `online` for followers whose fetch begins at their leader's log end before it.

    These are the followers that KIP-501 promises to keep.
    """
    kept_up = {follower for follower, kept_up in world.get(BLAMELESS) if kept_up}
    return _offline(world, kept_up, "it had kept up and its leader had its next fetch")


def _offline(world: World, dropped: set[int], while_what: str) -> str:
    state = world.partition_state(PARTITION)
    assert state is not None
    if state.leader != -1:
        return ""
    for follower in sorted(dropped - set(state.isr)):
        if world.running(follower) is not None and follower in world.registered():
            return (
                f"nobody leads, and broker {follower} runs, which left the ISR while {while_what}"
            )
    return ""


def droppable(machine: Machine, world: World) -> str:
    """Check that a leader may drop a follower that ended, long after its last fetch.

    The machine must count how often the lag has passed.
    """
    state = world.partition_state(PARTITION)
    assert state is not None
    if state.leader == -1 or world.running(state.leader) is None:
        return ""
    replica = world.known_replica(state.leader, PARTITION)
    if replica.role is not Role.LEADER or replica.leader_epoch != state.leader_epoch:
        return ""
    known = followers_of(world, state.leader, replica)
    for member in state.isr:
        if member == state.leader or world.running(member) is not None:
            continue
        is_old = known[member].fetched_at < (world.get(LAGS) or 0)
        if is_old and machine.extension.keeps(world, state.leader, member):
            return (
                f"leader {state.leader} keeps broker {member} in the ISR, whose process has ended "
                "and which last fetched more than the lag ago"
            )
    return ""


def moves_once(world: World) -> str:
    """Check that nobody leads again who gave up its leadership because it was slow to read.

    The machine must remember who did (KIP-501).
    """
    state = world.partition_state(PARTITION)
    assert state is not None
    if state.leader in world.get(GAVE_UP):
        return f"broker {state.leader} leads again, which gave up because it was slow to read"
    return ""
