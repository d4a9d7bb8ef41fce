"""A disk that was replaced: the broker comes back with nothing."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.clusters.api import Cluster, Collectable
from kchaos.faults.api import CheckedFault, Injection, Journal
from kchaos.faults.observation import node_of
from kchaos.faults.view import ClusterView, unable


@dataclass(frozen=True, slots=True, kw_only=True)
class WipeLogDirectory(CheckedFault, acts.WipeLogDirectory):
    """Everything in a stopped broker's log directories is gone, its replicas and checkpoints.

    The directories themselves stay, empty, so that the broker starts. There is nothing to heal:
    what is lost is lost. Of a KRaft controller it is the metadata log that is gone, and its disk is
    formatted anew when it starts. Its fields are those of the act.
    """

    lasting: ClassVar[bool] = False
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.WipeLogDirectory,)

    def available(self, view: ClusterView) -> str:
        """Check that the broker is down and has all of its log directories."""
        why_not = unable(view, self.broker, Collectable, or_controller=True)
        if why_not:
            return why_not
        if view.nodes[self.broker].is_running:
            return f"broker {self.broker} runs: kill or stop it before its disk is wiped"
        if view.nodes[self.broker].failed_log_directories:
            return f"a log directory of broker {self.broker} has failed: heal that fault first"
        return ""

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Empty the directories."""
        directories = node_of(cluster, self.broker).log_directories
        before = sorted(entry.name for entry in _entries(directories))
        with journal.acting(acts.act_of(acts.WipeLogDirectory, self)):
            for entry in _entries(directories):
                if entry.is_dir():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()
        yield Injection(
            fault="WipeLogDirectory",
            before={"entries": before},
            effect={"entries": sorted(entry.name for entry in _entries(directories))},
        )


def _entries(directories: Sequence[Path]) -> list[Path]:
    return [entry for directory in directories for entry in directory.iterdir()]
