"""Releases: which there are, which rules each follows, and the source that shows it."""
