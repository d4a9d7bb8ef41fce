"""Processes that tests started, found by who started them or by what they inherited."""

from pathlib import Path

MARK = "KCHAOS_TEST_MARK"
"""The environment variable that a test sets for a process, and that all below it inherit."""


def marked(mark: str) -> list[int]:
    """Return the ids of the processes that inherited the mark in their environment."""
    collected = []
    for entry in Path("/proc").iterdir():
        try:
            environment = (entry / "environ").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if f"{MARK}={mark}".encode() in environment.split(b"\0"):
            collected.append(int(entry.name))
    return collected


def command_line(pid: int) -> bytes:
    """Return the command line of a process, empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def descendants(pid: int) -> list[int]:
    """Return the processes below one, from /proc."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # It ended meanwhile.
        children.setdefault(parent, []).append(int(stat.parent.name))
    seen = list(children.get(pid, []))
    for child in seen:
        seen += children.get(child, [])
    return seen
