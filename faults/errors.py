"""What can go wrong while a fault is injected or healed.

FaultError        also raised itself: the fault's fields, or the cluster's state, forbid it
├── NotCapable    the cluster, its driver or its release cannot do what the fault needs
└── NoEffect      there is nothing to act on, or observation shows that nothing came of it

Gates that time out raise AwaitTimeout, and a broker that ends while it is awaited BrokerExited;
both are in `clusters.errors`. A rule that the links refuse is a RuleRefused of theirs.
"""


class FaultError(Exception):
    """Root of everything that this package raises on purpose."""


class NotCapable(FaultError):
    """The cluster cannot do it; the message names what is missing."""


class NoEffect(FaultError):
    """Without the observable effect that the fault promises; what was done is undone."""
