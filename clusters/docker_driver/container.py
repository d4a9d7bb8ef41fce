"""One container as a process: started, watched and ended through the engine."""

from __future__ import annotations

from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any

from kchaos.clusters.docker_driver.engine import CALL_TIMEOUT_S, HANGS, speaking
from kchaos.clusters.docker_driver.options import IMAGE_VARIABLE
from kchaos.clusters.errors import AwaitTimeout, MachineError
from kchaos.clusters.system.waiting import await_until

if TYPE_CHECKING:
    from docker import APIClient

_GONE: dict[str, Any] = {"Running": False, "ExitCode": 137, "Removed": True}
# A shell's way to write a signal into an exit code. 143 is what a JVM itself returns after
# SIGTERM, in a container or not.
_SIGNALS = {128 + number: -number for number in (4, 6, 7, 8, 9, 11)}
_CAUSE_S = 2.0
_LAST_LINES = 3
_NOT_FOUND = 127
_NO_JVM = (
    "its image cannot run the JVM, for which it needs /bin/sh, glibc and zlib: name another in "
    f"{IMAGE_VARIABLE}"
)
# The engine has no such container, or is about to remove it.
_NO_OUTPUT = (404, 409)


class Container:
    """A container that starts or has started; see ``clusters.system.processes.Process``.

    ``started`` is the engine's answer to the start, which takes some tenths of a second that
    other containers need not wait for. Where it was a refusal, asking for the state raises that.
    """

    def __init__(
        self,
        api: APIClient,
        container_id: str,
        *,
        name: str,
        memory_mib: int | None,
        started: Future[None],
    ) -> None:
        self.id = container_id
        self.name = name
        self._api = api
        self._memory_mib = memory_mib
        self._end: dict[str, Any] | None = None
        self._was_killed = False
        self._started = started

    @property
    def pid(self) -> int | None:
        """The JVM's pid as the engine's machine counts, None when it has ended."""
        return None if self._end is not None else int(self._state().get("Pid", 0)) or None

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal that ended it; None while it runs."""
        if self._end is None:
            state = self._state()
            if state["Running"]:
                return None
            self._end = self._settled(state)
        code = int(self._end["ExitCode"])
        return _SIGNALS.get(code, code)

    @property
    def is_paused(self) -> bool:
        """Whether the engine has frozen it."""
        return self._end is None and bool(self._state().get("Paused"))

    @property
    def cause_of_death(self) -> str:
        """Says so when it was killed for its memory, when somebody removed its container, and
        what kept the JVM from starting: that one writes to a file of its own.
        """
        if self.exit_code is None or self._end is None:
            return ""
        if self._end.get("Removed"):
            return "another process removed its container"
        if not self._end.get("OOMKilled"):
            return _NO_JVM if self.exit_code == _NOT_FOUND else self._last_words()
        if self._memory_mib is None:
            return "killed for memory: this machine had none left"
        return (
            f"killed for memory: the container needed more than its limit of {self._memory_mib} MiB"
        )

    def _last_words(self) -> str:
        from docker.errors import APIError

        with speaking(f"the engine was asked for the output of {self.name}"):
            try:
                said = self._api.logs(self.id, tail=_LAST_LINES)
            except APIError as error:
                if error.status_code not in _NO_OUTPUT:
                    raise
                return ""
        return " ".join(said.decode(errors="replace").split())

    def kill(self) -> None:
        """End it with SIGKILL and return once it is gone. Safe to call twice."""
        if self._never_started() or self.exit_code is not None:
            return
        self._was_killed = True
        self._signal("SIGKILL")
        self._await_exit(30)

    def stop(self, timeout_s: float) -> None:
        """Let it go on if it was frozen, send SIGTERM and return once it is gone."""
        if self._never_started() or self.exit_code is not None:
            return
        if self.is_paused:
            self.resume()
        self._signal("SIGTERM")
        self._await_exit(timeout_s)

    def pause(self) -> None:
        """Freeze all its processes; freezing it twice does no harm."""
        if not self.is_paused:
            with speaking(f"{self.name} could not be paused"):
                self._api.pause(self.id)

    def resume(self) -> None:
        """Let it go on; does nothing if it does already."""
        if self.is_paused:
            with speaking(f"{self.name} could not be resumed"):
                self._api.unpause(self.id)

    def _never_started(self) -> bool:
        wait([self._started], timeout=2 * CALL_TIMEOUT_S)
        return self._started.done() and self._started.exception() is not None

    def _signal(self, name: str) -> None:
        from docker.errors import APIError, NotFound

        with speaking(f"{self.name} could not be sent {name}"):
            try:
                self._api.kill(self.id, name)
            except NotFound:
                return
            except APIError:
                # It may have ended by itself just now.
                if self.exit_code is None:
                    raise

    def _await_exit(self, timeout_s: float) -> None:
        await_until(
            lambda: self.exit_code is not None,
            timeout_s=timeout_s,
            waiting_for=f"{self.name} (pid {self.pid}) to exit",
            last_seen=lambda: f"state {self._state().get('Status')}",
            remedy="see its server.log, and the engine's log",
        )

    def _await_started(self) -> None:
        """Return once the engine has answered to the start; raise what it refused."""
        done, _ = wait([self._started], timeout=2 * CALL_TIMEOUT_S)
        if not done:
            raise MachineError(f"{self.name} is being started for too long: {HANGS}")
        self._started.result()

    def _state(self) -> dict[str, Any]:
        from docker.errors import NotFound

        self._await_started()
        with speaking(f"the engine was asked for the state of {self.name}"):
            try:
                inspection = self._api.inspect_container(self.id)
            except NotFound:
                return _GONE
        # While it is removed it is listed still, and this is what it has in place of "exited".
        is_leaving = inspection["State"].get("Status") in ("removing", "dead")
        return _GONE if is_leaving else dict(inspection["State"])

    def _settled(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state once it says what sent the SIGKILL, if we did not.

        The engine hears of an exit and of memory that ran out in two messages, in either order.
        """
        unclear = state["ExitCode"] == 137 and not self._was_killed
        if not unclear or state.get("OOMKilled") or state.get("Removed"):
            return state
        seen = [state]

        def told() -> bool:
            seen[0] = self._state()
            return bool(seen[0].get("OOMKilled") or seen[0].get("Removed"))

        try:
            await_until(told, timeout_s=_CAUSE_S, waiting_for="a cause", last_seen=str)
        except AwaitTimeout:
            # Then somebody else has killed it, and nothing more is known.
            return seen[0]
        return seen[0]
