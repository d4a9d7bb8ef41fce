"""Exceptions of injecting and healing a fault.

FaultError          also raised itself: the disk's or the partition's state forbids it
├── NotAvailable    the fault's fields, or the cluster as it is, forbid it; nothing was done
└── NoEffect        there is nothing to act on, or observation shows that nothing came of it

Gates that time out raise AwaitTimeout, and a broker that ends while it is awaited BrokerExited;
both are in `clusters.errors`.
"""


class FaultError(Exception):
    """Root of everything that this package raises on purpose."""


class NotAvailable(FaultError):
    """The cluster cannot take the fault now; the message is what `Fault.available` says."""


class NoEffect(FaultError):
    """Without the observable effect that the fault promises; what was done is undone."""
