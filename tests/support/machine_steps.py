"""States of the explorer's machine after some actions."""

from kchaos.checkers.model.state.state import State
from kchaos.studies.explore.actions import Action
from kchaos.studies.explore.bounds import Machine
from kchaos.studies.explore.machine import initial_state, next_state


def after(machine: Machine, *steps: Action, state: State | None = None) -> State:
    """The state to which these actions lead, from the machine's first one or from another."""
    state = state or initial_state(machine)
    for step in steps:
        state = next_state(machine, state, step)
    return state
