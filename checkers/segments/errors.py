"""What the segment room raises on purpose; bad bytes inside a segment are findings, not errors.

CheckError
└── SegmentError          a directory is not one that holds a live partition
    └── CheckpointError   a small text file beside the segments does not have its documented shape
"""

from checkers.errors import CheckError


class SegmentError(CheckError):
    """A path cannot be read as a partition; the message names the path and the remedy."""


class CheckpointError(SegmentError):
    """A checkpoint or properties file is broken; the message names the file and the line."""
