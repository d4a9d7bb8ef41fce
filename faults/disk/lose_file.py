"""A file of a stopped broker's log directory that is missing, or ends early."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.clusters.api import Collectable
from kchaos.faults.api import CheckedFault, Cluster, Injection, Journal
from kchaos.faults.view import FILE, ClusterView, unable

_HAVE_FAULTS = {
    ".log": "LoseTail or WipeLogDirectory",
    "leader-epoch-checkpoint": "LoseEpochs or TearEpochs",
}
"""Files whose loss the model follows, by the end of their names, and the faults that lose them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseFile(CheckedFault, acts.LoseFile):
    """A file of a stopped broker's log directory is gone, or ends early, as after a power loss.

    Such as "t-0/partition.metadata", "recovery-point-offset-checkpoint", an index, a producer
    snapshot or ".kafka_cleanshutdown". A file that is not there is an observation: the effect says
    so. What a release makes of it is not followed. There is nothing to heal. Its fields are those
    of the act.
    """

    lasting: ClassVar[bool] = False
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.LoseFile,)

    def available(self, view: ClusterView) -> str:
        """Require a path within the log directory, and a broker that does not run."""
        path = PurePosixPath(self.file)
        if path.is_absolute() or ".." in path.parts or not path.name:
            return f"{FILE} {self.file!r} is not in a log directory: name it as 't-0/00….index'"
        for ending, faults in _HAVE_FAULTS.items():
            if path.name.endswith(ending):
                return f"{FILE} {self.file!r} is what {faults} loses, which the model follows"
        why_not = unable(view, self.broker, Collectable)
        if why_not:
            return why_not
        if self.directory >= view.brokers[self.broker].log_directories:
            return f"broker {self.broker} has no log directory {self.directory}"
        if view.brokers[self.broker].is_running:
            return f"broker {self.broker} runs: kill or stop it before it loses a file"
        return ""

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Remove the file, or cut it."""
        file = cluster.brokers[self.broker].log_directories[self.directory] / self.file
        before = file.stat().st_size if file.is_file() else None
        if before is not None:
            with journal.acting(acts.act_of(acts.LoseFile, self)):
                if self.kept_bytes is None:
                    file.unlink()
                else:
                    with file.open("r+b") as opened:
                        opened.truncate(min(before, self.kept_bytes))
        after = file.stat().st_size if file.is_file() else None
        yield Injection(
            fault="LoseFile", before={"size_bytes": before}, effect={"size_bytes": after}
        )
