"""Exceptions of links; part of the tree in clusters.errors."""

from kchaos.clusters.errors import ClusterError


class LinkError(ClusterError):
    """A link could not be made, or its record could not be written."""


class RuleRefused(LinkError):
    """A rule that the links could never decide, or that names a broker they do not know."""
