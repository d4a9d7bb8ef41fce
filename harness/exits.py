"""Exit codes, and which results and errors mean which."""

import errno
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kchaos.checkers.results import Results
    from kchaos.checkers.run_line import RunLine

AS_EXPECTED = 0
FINDING = 1
UNKNOWN = 2
USAGE = 64
MACHINE = 69
INTERNAL = 70
INTERRUPTED = 130

_MACHINE_ERRNOS = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE),
    *(errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE, errno.ENAMETOOLONG, errno.ELOOP),
)
_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EROFS, errno.EACCES, errno.EPERM)
_NO_THREAD = "can't start new thread"


def exit_code_for_lines(lines: "Iterable[RunLine]") -> int:
    """Return the exit code of some runs.

    0 if every run is as expected, 1 if one is known not to be, else 2, as for no run at all.
    """
    codes = {_code(line) for line in lines}
    if not codes:
        return UNKNOWN
    return FINDING if FINDING in codes else max(codes)


def _code(line: "RunLine") -> int:
    # Imported here, since it is needed only when something was judged.
    from kchaos.checkers.run_line import is_unknown

    if line.expected:
        return AS_EXPECTED
    return UNKNOWN if is_unknown(line) else FINDING


def exit_code_for_histories(valid: Iterable[bool | None]) -> int:
    """Return the exit code for histories: 1 if any is invalid, else 2 if any is unknown."""
    answers = [*valid]
    return FINDING if False in answers else UNKNOWN if None in answers else AS_EXPECTED


def exit_code_beside(results: "Results", status: int | None) -> int:
    """Return the exit code for a judged cluster beside a command with this exit status.

    `status` is None for a command that was stopped, of which nobody knows what it would have said.

    1 for what should not have happened to the cluster, 2 where nobody knows whether it is safe;
    else the command's own status. Where the model could not follow all that clients did, safety
    alone decides.
    """
    if results.safe is False or results.conforms is False:
        return FINDING
    if results.safe is None or status is None:
        return UNKNOWN
    return status if status >= 0 else INTERNAL


def exit_code_of(error: BaseException) -> int | None:
    """Return the exit code for an error of kchaos's own, or None for a defect of kchaos."""
    # Imported here, since it is needed only when something went wrong.
    from kchaos.checkers.errors import (
        CheckError,
        ComparisonError,
        HistoryError,
        RunDirectoryError,
        SparkNotStarted,
        StoreError,
    )
    from kchaos.clusters.errors import ClusterError, MachineError, ReleaseError
    from kchaos.faults.errors import FaultError
    from kchaos.harness.errors import HarnessError, RunUnknown

    if machine_error_in(error) is not None:
        return MACHINE
    match error:
        case KeyboardInterrupt():
            return INTERRUPTED
        case RunUnknown():
            return UNKNOWN
        case ReleaseError() | HarnessError() | RunDirectoryError() | ComparisonError():
            return USAGE
        case HistoryError():
            return USAGE
        case MachineError() | SparkNotStarted() | StoreError() | MemoryError():
            return MACHINE
        case ClusterError() | FaultError() | CheckError():
            return UNKNOWN
        case _:
            return None


def refusal_text(refused: OSError) -> str:
    """Return the message for a refusal of `machine_error_in`: cause, place and remedy."""
    # Of a copy that failed, it is where it should have gone.
    place = refused.filename2 or refused.filename
    what = f"{refused.strerror} at {place}" if place else str(refused.strerror)
    if refused.errno in _FULL:
        remedy = "free some, or choose another --runs-dir or KCHAOS_CACHE"
    elif refused.errno in _FORBIDDEN:
        remedy = "choose a place that you may read and write, as by --runs-dir or KCHAOS_CACHE"
    else:
        remedy = "look at the machine's limits and its disk"
    return f"{what}: {remedy}; what was collected stays"


def machine_error_in(error: BaseException | None) -> OSError | None:
    """Return the disk's or the system's refusal that is, or caused, this error, or None.

    A MachineError says itself what was refused and what to do.
    """
    from kchaos.clusters.errors import MachineError

    if isinstance(error, MachineError):
        return None
    while error is not None:
        if isinstance(error, OSError) and error.errno in _MACHINE_ERRNOS:
            return error
        if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
            return OSError(errno.EAGAIN, "the machine gives this process no more threads")
        error = error.__cause__ or error.__context__
    return None
