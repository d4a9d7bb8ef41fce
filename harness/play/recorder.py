"""Writes what happens to the run directory, while it happens."""

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from kchaos.checkers.evidence.actions import ACTIONS, ActionLine
from kchaos.checkers.evidence.history import HISTORY, HistoryLine, LineType
from kchaos.checkers.evidence.observed import OBSERVATIONS, Observed
from kchaos.checkers.evidence.tier import TIER, LineKind, TierLine
from kchaos.checkers.json_form import to_json
from kchaos.checkers.model import events
from kchaos.checkers.observations import Observation
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

    def observed(self, what: Observation) -> None:
        """Append one observation."""
        with self._lock:
            seen = Observed(time=time.time(), step=self.step, what=what)
            self.run.append(OBSERVATIONS, seen.line())

    def action(self, event: events.Action, zxid: int, *, began: float | None = None) -> None:
        """Append one action of the model, taken when `zxid` was the newest.

        `began` is in seconds since the epoch; None is now.
        """
        now = time.time()
        line = ActionLine(
            time=now,
            began=now if began is None else began,
            zxid=zxid,
            step=self.step,
            action=events.event_to_json(event),
        )
        self._append(ACTIONS, line)

    def history(self, operation: str, kind: LineType, **detail: Any) -> None:
        """Append one line of a client's operation: "invoke", "ok", "fail" or "info".

        `detail` has fields of `HistoryLine`.
        """
        line = HistoryLine(time=time.time(), operation=operation, type=kind, **detail)
        self._append(HISTORY, line)

    def tier(self, kind: LineKind, **detail: Any) -> None:
        """Append a reading of a tiered log, or a leader's report of its ends.

        `detail` has fields of `TierLine`.
        """
        self._append(TIER, TierLine(time=time.time(), step=self.step, kind=kind, **detail))

    def _append(self, name: str, line: ActionLine | HistoryLine | TierLine) -> None:
        with self._lock:
            self.run.append(name, to_json(line))
