"""Exceptions of the segment room; bad bytes inside a segment are findings, not errors.

CheckError
└── SegmentError          a directory is not one that holds a live partition
"""

from kchaos.checkers.errors import CheckError


class SegmentError(CheckError):
    """A path cannot be read as a partition; the message names the path and the remedy."""
