"""Writes what happens to the run directory, while it happens."""

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from kchaos.checkers.model import events
from kchaos.checkers.run_directory import RunDirectory


@dataclass(slots=True)
class Recorder:
    """Appends evidence, each line with its time; any thread may use it.

    Attributes:
        step: Index of the step that goes on, -1 before the first.
    """

    run: RunDirectory
    step: int = -1
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def observed(self, what: str, **detail: Any) -> None:
        """Appends one observation."""
        self._append("observations.jsonl", {"step": self.step, "kind": what, **detail})

    def action(self, event: events.Action, zxid: int, *, began: float | None = None) -> None:
        """Appends one action of the model's, taken when `zxid` was the last one.

        Args:
            began: When it began, in seconds since the epoch; None if it takes place now.
        """
        now = time.time()
        self._append(
            "actions.jsonl",
            {
                "time": now,
                "began": now if began is None else began,
                "zxid": zxid,
                "step": self.step,
                "action": events.event_to_json(event),
            },
        )

    def history(self, operation: str, kind: str, **detail: Any) -> None:
        """Appends one line of a client's operation: "invoke", "ok", "fail" or "info"."""
        self._append("history.jsonl", {"operation": operation, "type": kind, **detail})

    def tier(self, kind: str, **detail: Any) -> None:
        """Appends what a reader got of a tiered log, or what a leader says of its ends."""
        self._append("tier.jsonl", {"step": self.step, "kind": kind, **detail})

    def _append(self, name: str, value: dict[str, Any]) -> None:
        with self._lock:
            self.run.append(name, {"time": time.time(), **value})
