"""What can go wrong while a fault is injected or healed.

FaultError
├── NotCapable        the cluster's driver cannot do what the fault needs
├── NoEffect          the fault was injected, and observation shows that it had no effect
└── NotHealed         the fault was lifted, and observation shows that it still acts
"""


class FaultError(Exception):
    """Root of everything that this package raises on purpose."""


class NotCapable(FaultError):
    """The driver lacks a capability; the message names both."""


class NoEffect(FaultError):
    """Injected without the observable effect that the fault promises."""


class NotHealed(FaultError):
    """Lifted without the observable recovery that the fault promises."""
