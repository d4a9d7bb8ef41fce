"""Exit codes, and which error means which."""

import errno

AS_EXPECTED = 0
FINDING = 1
UNKNOWN = 2
USAGE = 64
MACHINE = 69
INTERNAL = 70
INTERRUPTED = 130

_MACHINE_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EMFILE)


def exit_code_of(error: BaseException) -> int | None:
    """The exit code for an error that kchaos raises on purpose; None for a defect of kchaos."""
    # Imported here, since it is needed only when something went wrong.
    from checkers.errors import CheckError, RunDirectoryError
    from clusters.errors import ClusterError, MachineError, ReleaseError
    from faults.errors import FaultError
    from harness.errors import HarnessError, RunUnknown

    if machine_error_in(error) is not None:
        return MACHINE
    match error:
        case KeyboardInterrupt():
            return INTERRUPTED
        case RunUnknown():
            return UNKNOWN
        case ReleaseError() | HarnessError() | RunDirectoryError():
            return USAGE
        case MachineError():
            return MACHINE
        case ClusterError() | FaultError() | CheckError():
            return UNKNOWN
        case _:
            return None


def machine_error_in(error: BaseException | None) -> OSError | None:
    """The disk's or the system's refusal that is, or caused, this error; None if there is none.

    A MachineError says itself what was refused and what to do.
    """
    from clusters.errors import MachineError

    if isinstance(error, MachineError):
        return None
    while error is not None:
        if isinstance(error, OSError) and error.errno in _MACHINE_ERRNOS:
            return error
        error = error.__cause__ or error.__context__
    return None
