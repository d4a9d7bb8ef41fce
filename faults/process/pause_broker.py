"""SIGSTOP of a broker, as a long garbage collection looks from outside."""

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from clusters.api import Cluster, Pausable
from clusters.waiting import await_until
from faults.api import Injection, Journal, broker_able
from faults.observation import observe_broker


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseBroker:
    """The process stands still; its connections stay open and nothing is answered.

    Its session ends when it stands still for longer than `zookeeper.session.timeout.ms`, at the
    earliest after two thirds of that. What is in its sockets when it goes on is handled then.
    """

    broker: int

    lasting: ClassVar[bool] = True

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Pauses, and returns once the process is seen stopped; resumes on leaving."""
        broker = broker_able(cluster, self.broker, Pausable)
        before = observe_broker(cluster, self.broker)
        with journal.acting("pause-broker", broker=self.broker):
            broker.pause()
        try:
            state = _await_state(broker.pid, stopped=True)
            yield Injection(
                fault="PauseBroker", before=before.to_json(), effect={"process_state": state}
            )
        finally:
            if broker.is_running:
                with journal.acting("resume-broker", broker=self.broker):
                    broker.resume()
                _await_state(broker.pid, stopped=False)
                journal.observed("broker-resumed", **observe_broker(cluster, self.broker).to_json())


def answers(address: str, timeout_s: float) -> bool:
    """Whether something at "host:port" answers an ApiVersions request within the time."""
    host, _, port = address.rpartition(":")
    request = b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff"
    try:
        with socket.create_connection((host, int(port)), timeout=timeout_s) as connection:
            connection.sendall(request)
            return len(connection.recv(4)) > 0
    except OSError:
        return False


def _await_state(pid: int | None, *, stopped: bool) -> str:
    """Waits until the kernel calls the process stopped ("T"), or anything else."""
    if pid is None:
        return "gone"
    seen = ["?"]

    def condition() -> bool:
        seen[0] = _process_state(pid)
        return (seen[0] == "T") is stopped

    await_until(
        condition,
        timeout_s=10,
        waiting_for=f"process {pid} to be {'stopped' if stopped else 'going on'}",
        last_seen=lambda: f"state {seen[0]}",
    )
    return seen[0]


def _process_state(pid: int) -> str:
    """The third field of /proc/PID/stat; the second is in brackets and may hold blanks."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
