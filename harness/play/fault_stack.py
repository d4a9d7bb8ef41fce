"""The faults that act: injected under a name, and healed by it or all at the end."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from kchaos.checkers import observations
from kchaos.clusters.api import Cluster
from kchaos.faults.api import Fault, Injection, Journal, healing_order
from kchaos.harness.errors import NotPossible, ScenarioError


@dataclass(slots=True)
class FaultStack:
    """Faults by name.

    Attributes:
        acting: Those that act, the oldest first, each with how to heal it.
        injections: Every injection so far, healed or not.
        left_out: Names of those that could not be injected.
    """

    cluster: Cluster
    journal: Journal
    acting: dict[str, tuple[Fault, ExitStack]] = field(default_factory=dict)
    injections: dict[str, Injection] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)

    def inject(self, name: str, fault: Fault) -> Injection:
        """Inject, and remember under `name` how to heal.

        Raises:
            ScenarioError: A fault of that name acts, or this one yields no injection.
        """
        if name in self.acting:
            raise ScenarioError(f"a fault named {name!r} acts already: heal it first")
        stack = ExitStack()
        self.left_out.add(name)
        injection = stack.enter_context(fault.inject(self.cluster, self.journal))
        if not isinstance(injection, Injection):
            stack.close()
            raise ScenarioError(
                f"the fault {type(fault).__name__} was healed at once: its inject yields "
                f"{injection!r}, and no kchaos.Injection"
            )
        self.left_out.discard(name)
        self.injections[name] = injection
        if fault.lasting:
            self.acting[name] = fault, stack
        else:
            stack.close()
        self.journal.observed(
            observations.Injected(
                name=name,
                fault=injection.fault,
                lasting=fault.lasting,
                before=injection.before,
                effect=injection.effect,
            )
        )
        return injection

    def heal(self, name: str) -> None:
        """Heal the fault with that name.

        Raises:
            NotPossible: No fault of that name acts.
        """
        if name not in self.acting:
            raise NotPossible(f"no fault named {name!r} acts; those that do: {[*self.acting]}")
        _, stack = self.acting.pop(name)
        stack.close()
        self.journal.observed(observations.Healed(name=name))

    def heal_all(self, after_each: Callable[[], None] = lambda: None) -> None:
        """Heal all lasting faults in their order of healing, and go on after one that fails.

        Args:
            after_each: Called after each that could be healed.

        Raises:
            ExceptionGroup: One or more could not be healed.
        """
        problems: list[Exception] = []
        for name in healing_order({name: fault for name, (fault, _) in self.acting.items()}):
            try:
                self.heal(name)
                after_each()
            except Exception as error:  # noqa: BLE001 - all are raised below
                problems.append(error)
        if problems:
            raise ExceptionGroup("not everything could be healed", problems)
