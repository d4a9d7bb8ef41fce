"""A leader epoch checkpoint that a disk lost."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.checkers.formats.checkpoints import RECOVERY_POINTS
from kchaos.faults.api import CheckedFault, Cluster, ClusterView, Injection, Journal
from kchaos.faults.disk.epoch_checkpoint import epoch_checkpoint, stopped_with_epochs


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseEpochs(CheckedFault, acts.LoseEpochs):
    """A stopped broker's `leader-epoch-checkpoint` of one partition is gone.

    Its next start rebuilds the epochs from the batches of those segments that it recovers: all that
    a killed broker has not flushed, and none after a clean stop. What was flushed is in another
    file, which a broker writes 30 s after its start at the earliest (LogManager.InitialTaskDelayMs)
    and then each minute: a segment that was rolled before is not recovered then. Where that
    matters, lose that file too. There is nothing to heal.

    Attributes:
        recovery_points: The broker's `recovery-point-offset-checkpoint` is gone too: a start after
            SIGKILL recovers every segment then.
    """

    recovery_points: bool = False

    lasting: ClassVar[bool] = False
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.LoseEpochs,)

    def available(self, view: ClusterView) -> str:
        """Check that the broker is down and its release has such files."""
        return stopped_with_epochs(view, self.broker)

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Remove the file, or both.

        Raises:
            FaultError: There is none.
        """
        file = epoch_checkpoint(cluster, self.broker, self.topic, self.partition)
        before = file.read_text()
        with journal.acting(acts.act_of(acts.LoseEpochs, self)):
            file.unlink()
            if self.recovery_points:
                file.parent.parent.joinpath(RECOVERY_POINTS).unlink(missing_ok=True)
        yield Injection(
            fault="LoseEpochs", before={"text": before}, effect={"exists": file.exists()}
        )
