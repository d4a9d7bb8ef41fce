"""The errors of the clusters room: one tree, each message with its remedy."""

import os
from collections.abc import Sequence

_BUNDLE = "REQUESTS_CA_BUNDLE"


class ClusterError(Exception):
    """Anything that keeps a cluster from being built, started or watched."""


def explained(error: BaseException) -> str:
    """Return what the error says, with the notes that were added on its way."""
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


class MetadataUnavailable(ClusterError):
    """Whoever keeps the metadata gave no answer: nobody knows what it says."""


class MetadataRefused(ClusterError):
    """A refusal: the request cannot be had now, such as a second election while one goes on."""


class ReleaseError(ClusterError):
    """The Kafka that was asked for is unknown, cannot be had, or is broken (a usage error)."""


class MachineError(ClusterError):
    """This machine cannot do it: Java is missing, a port is taken, memory or disk is short."""


class UntrustedCertificate(MachineError):
    """A server shows a certificate that this machine does not trust, as a proxy with its own does.

    ``what`` was to be fetched.
    """

    def __init__(self, what: str) -> None:
        bundle = os.environ.get(_BUNDLE, "not set")
        super().__init__(
            f"{what} cannot be fetched, since the certificate of the server is not trusted here (a "
            f"proxy may show its own): set {_BUNDLE} to a file with every certificate to trust. "
            "Kafka's jars and pip honour it; pip honours PIP_CERT too, and SSL_CERT_FILE is not "
            f"enough. Now it is {bundle}"
        )


def is_untrusted(said: object) -> bool:
    """Return whether an error of requests, or the output of pip, is about trust in certificates."""
    text = str(said)
    return "CERTIFICATE_VERIFY_FAILED" in text or "TLS CA certificate bundle" in text


class BrokerExited(ClusterError):
    """A broker (or a ZooKeeper member) ended while it was awaited.

    ``name`` is ``broker 1`` or ``zookeeper 1``; ``exit_code`` is the process's own, negative
    for a signal; ``last_lines`` are the last lines of its log, oldest first, behind those of its
    first error; ``cause`` says why it ended where that is known, such as a memory limit.
    """

    def __init__(
        self, *, name: str, exit_code: int, last_lines: Sequence[str], log: str, cause: str = ""
    ) -> None:
        self.name = name
        self.exit_code = exit_code
        self.cause = cause
        self.last_lines = tuple(last_lines)
        self.log = log
        end = "\n".join(f"    {line}" for line in self.last_lines) or "    (its log is empty)"
        super().__init__(
            f"{name} exited with code {exit_code}{f' ({cause})' if cause else ''} "
            "while it was awaited; "
            f"the last lines of {log}:\n{end}"
        )


class AwaitTimeout(ClusterError):
    """An awaited condition did not come true in time.

    ``waited_for`` says what was awaited, ``last_seen`` what was seen last, ``remedy`` what to do.
    """

    def __init__(self, *, waited_for: str, last_seen: str, remedy: str, timeout_s: float) -> None:
        self.waited_for = waited_for
        self.last_seen = last_seen
        self.remedy = remedy
        self.timeout_s = timeout_s
        message = f"waited {timeout_s:g} s for {waited_for}; last seen: {last_seen}"
        super().__init__(f"{message}; {remedy}" if remedy else message)


class LinkError(ClusterError):
    """A link could not be made, or its record could not be written."""


class RuleRefused(LinkError):
    """A rule that the links could never decide, or that names a broker they do not know."""
