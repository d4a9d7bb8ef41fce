"""Shell completion: entries, their cases, and releases."""

import contextlib
import json
import os
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

_CATALOGUE = Path(__file__).parent.parent / "catalogue"
_LIST = "completion.json"
"""In the cache: what Tab offers, so that it need not import the catalogue each time."""


def entries(
    _context: click.Context, _parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Return the catalogue's entries with this prefix, with their titles."""
    return [
        CompletionItem(name, help=entry["title"])
        for name, entry in _listed().items()
        if name.lower().startswith(begun.lower())
    ]


def cases_of_entry(
    context: click.Context, _parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Return the cases of the entry on the command line, else of every entry."""
    listed = _listed()
    # While an option lacks its value, click leaves the arguments unparsed.
    typed = {str(word).lower() for word in (context.params.get("name"), *context.args)}
    chosen = [entry for name, entry in listed.items() if name.lower() in typed]
    titles = {
        case: title
        for entry in chosen or listed.values()
        for case, title in entry["cases"].items()
        if case and case.startswith(begun)
    }
    return [CompletionItem(case, help=title) for case, title in titles.items()]


def releases(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Return the known releases with this prefix."""
    from kchaos.clusters.releases import TESTED_RELEASES

    return [release for release in TESTED_RELEASES if release.startswith(begun)]


def remember_entries() -> None:
    """Where a shell sets up completion, write down what Tab offers, if that is not done."""
    if os.environ.get("_KCHAOS_COMPLETE", "").endswith("_source"):
        _listed()


def _listed() -> Mapping[str, Any]:
    """Return title and cases of each entry by its name, from the cache if that is of this kchaos.

    Installed packages with entries of their own may change without a sign, so they are asked.
    """
    from kchaos.clusters.errors import MachineError
    from kchaos.clusters.system.cache import cache_directory

    files = sorted(_CATALOGUE.glob("*.py"))
    state = [[file.name, file.stat().st_mtime_ns, file.stat().st_size] for file in files]
    has_others = bool(entry_points(group="kchaos.parts"))
    place = None
    with contextlib.suppress(MachineError, OSError, ValueError):
        place = cache_directory() / _LIST
        known = json.loads(place.read_text())
        if known["state"] == state and not has_others:
            entries: Mapping[str, Any] = known["entries"]
            return entries
    from kchaos.harness.catalogue import entries_there

    made = {
        entry.name: {"title": entry.title, "cases": dict(entry.cases)}
        for entry in entries_there().values()
    }
    if place is not None and not has_others:
        with contextlib.suppress(OSError):
            temporary = place.with_name(f".{_LIST}.{os.getpid()}")
            temporary.write_text(json.dumps({"state": state, "entries": made}))
            temporary.rename(place)
    return made
