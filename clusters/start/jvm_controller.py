"""A controller of a KRaft cluster: a JVM like a broker's, with another role."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from kchaos.clusters.ask.probe import answers_at
from kchaos.clusters.errors import ClusterError
from kchaos.clusters.start.jvm_broker import JvmBroker
from kchaos.clusters.start.kraft_storage import METADATA_FOLDER
from kchaos.clusters.system.waiting import await_until

HEAP_MIB = 128


@dataclass(slots=True)
class JvmController(JvmBroker):
    """A controller of a JvmCluster: it is killed, paused and started as a broker is.

    ``client_address`` is its only listener, as this machine reaches it. ``quorum`` has all
    controllers of the cluster by id.
    """

    quorum: Mapping[int, "JvmController"] = field(default_factory=dict, repr=False)

    @property
    def controller_address(self) -> str:
        """``host:port`` of its listener as a controller: the last of its ports."""
        return f"127.0.0.1:{self.place.ports[-1].number}"

    def await_ready(self, timeout_s: float = 60) -> None:
        """Return once it answers and the controllers have a leader, if they can have one.

        They cannot while most of them are down. Raises BrokerExited at once when its process
        ends, AwaitTimeout after ``timeout_s``.
        """
        if self._process is None:
            raise ClusterError(f"{self.name} was never started")
        await_until(
            lambda: (
                answers_at(self.controller_address)
                and (not self._may_have_leader() or self.place.metadata().controller() is not None)
            ),
            timeout_s=timeout_s,
            waiting_for=f"{self.name} ({self.release}) to answer at {self.controller_address}, and "
            "for a leader of the controllers",
            last_seen=self._seen,
            remedy=f"see {self.server_log}; more than half of the voters must run and reach each "
            "other, and controller.quorum.*.timeout.ms must leave time for an election",
            abort=self.check_running,
        )
        self._check_agent()

    def _may_have_leader(self) -> bool:
        voters = self.place.metadata().voters()
        runs = [
            each.is_running and not each.is_paused
            for each in self.quorum.values()
            if each.id in voters
        ]
        return not runs or 2 * sum(runs) > len(runs)

    def _seen(self) -> str:
        """Return the controller's own state, and the election by its file of votes."""
        file = self.log_directory / METADATA_FOLDER / "quorum-state"
        try:
            state = json.loads(file.read_text(encoding="utf-8"))
            vote = f"epoch {state['leaderEpoch']}, vote for {state['votedId']} (-1: nobody)"
        except FileNotFoundError:
            vote = "no election yet"
        except (OSError, ValueError, KeyError, TypeError):
            vote = "cannot be read"
        does = "answers" if answers_at(self.controller_address) else "does not answer"
        return (
            f"it {does}; leader {self.place.metadata().controller()}; quorum-state: {vote}; voters "
            f"{sorted(self.place.metadata().voters())}"
        )


@dataclass(slots=True)
class JvmCombined(JvmController):
    """A node that is a broker and a controller: one process, so that both end at once."""

    def await_ready(self, timeout_s: float = 60) -> None:
        """Return once it is ready as a broker is; as a controller where nobody can register it."""
        as_whom = JvmBroker if self._may_have_leader() else JvmController
        as_whom.await_ready(self, timeout_s)
