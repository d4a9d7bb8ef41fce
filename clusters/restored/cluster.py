"""The driver `restored`: processes of this machine, made of images of JVMs that have started."""

from collections.abc import Callable, Sequence
from pathlib import Path

from kchaos.checkers.folders import plain
from kchaos.clusters.errors import MachineError
from kchaos.clusters.kafka.distribution import Distribution
from kchaos.clusters.releases import release_of
from kchaos.clusters.restored import criu
from kchaos.clusters.restored.image import ImageKey, WantedJvm, restored
from kchaos.clusters.restored.images import image_of, why_not
from kchaos.clusters.spec import ClusterSpec
from kchaos.clusters.start.host import LocalHost, Node
from kchaos.clusters.start.jvm_cluster import JvmCluster
from kchaos.clusters.system.leftovers import record_process
from kchaos.clusters.system.processes import Process


class RestoringHost(LocalHost):
    """This machine, where CRIU makes JVMs of images.

    A JVM with flags of its own starts anew.
    """

    def __init__(
        self, work_directory: Path, *, offline: bool, say: Callable[[str], None] | None
    ) -> None:
        super().__init__(work_directory)
        self._offline = offline
        self._say = say or (lambda _text: None)
        self._spec: ClusterSpec | None = None

    def open(self, spec: ClusterSpec) -> None:
        """Refuse what processes cannot have, and a machine that cannot restore them."""
        super().open(spec)
        if why := why_not():
            raise MachineError(f"{why}; or start JVMs anew with --driver local")
        self._spec = spec
        self.description = {"engine": f"criu {criu.version()}"}

    def spawn(
        self,
        node: Node,
        command: Sequence[str],
        distribution: Distribution,
        console: Path,
        reads: Sequence[Path] = (),
    ) -> Process:
        """Make the JVM of its image. Images that are not there yet are written first."""
        wanted = WantedJvm.of(node, command)
        image = self._image(wanted, distribution)
        if image is None:
            self._say(f"{node.name} gets a new JVM: no image was written with its flags")
            return super().spawn(node, command, distribution, console, reads)
        child = restored(image, wanted, node, console)
        record_process(self._work_directory, child)
        return child

    def _image(self, wanted: WantedJvm, distribution: Distribution) -> Path | None:
        assert self._spec is not None, "it is opened before anything starts"
        key = ImageKey(
            java=wanted.template[0],
            distribution=distribution,
            is_kraft=self._spec.is_kraft
            or wanted.role == "controller"
            or release_of(distribution.release).modes == ("kraft",),
            broker_heap_mib=self._spec.broker_heap_mib,
        )
        return image_of(key, wanted, offline=self._offline, say=self._say)


class RestoredCluster(JvmCluster):
    """A cluster of restored processes; see ``JvmCluster``."""

    def __init__(
        self,
        spec: ClusterSpec,
        *,
        work_directory: Path,
        offline: bool = False,
        say: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(
            spec,
            host=RestoringHost(plain(work_directory), offline=offline, say=say),
            work_directory=work_directory,
            offline=offline,
            say=say,
            share_classes=False,
        )
