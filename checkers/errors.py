"""Exceptions of reading evidence and judging it.

CheckError
├── RunDirectoryError    the run directory is torn, not sealed, or from a newer kchaos
├── ScenarioDataError    recorded data on disk does not have the documented shape
├── HistoryError         a file of operations of clients is none, or has a line that is none
├── SegmentError         a directory is none that holds a partition; bad bytes are findings
├── CheckpointError      a small text file of a broker's does not have its documented shape
├── ModelError           an action that the model's own state makes impossible
├── ComparisonError      a comparison that does not exist or does not fit what was asked
├── SignatureError       a seal cannot be signed, or nobody can look at its signature
├── StoreError           an object store cannot be asked, refuses, or breaks off
├── ExplorerError        in `studies.explorer.errors`: a bound, a rule or a process that fails
└── SparkError           Spark cannot do it
    └── SparkNotStarted  nor even be started on this machine
"""


class CheckError(Exception):
    """Root of everything that this package raises on purpose."""


class RunDirectoryError(CheckError):
    """The run directory cannot be read as one; the message names the file and the remedy."""


class ScenarioDataError(CheckError):
    """Recorded data does not have the documented shape; the message names file and place."""


class HistoryError(CheckError):
    """A history cannot be read as one; the message names file and line."""


class CheckpointError(CheckError):
    """A checkpoint or properties file is broken; the message names the file and the line."""


class ModelError(CheckError):
    """An action cannot happen in the model's present state; the message names both."""


class ComparisonError(CheckError):
    """A comparison that does not exist; the message says which ones do."""


class StoreError(CheckError):
    """An object store cannot be used, or has not what it should; the message names the place."""


class SignatureError(CheckError):
    """A seal cannot be signed here; the message has what ssh-keygen says."""


class SparkError(CheckError):
    """Spark cannot be started or used here; the message says why and what to do."""


class SparkNotStarted(SparkError):
    """This machine does not get Spark started; the message has the end of its log."""


class SegmentError(CheckError):
    """A path cannot be read as a partition; the message names the path and the remedy."""
