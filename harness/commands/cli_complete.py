"""Shell completion: entries, their cases, and releases."""

import click
from click.shell_completion import CompletionItem


def entries(
    _context: click.Context, _parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Return the catalogue's entries with this prefix, with their titles."""
    from kchaos.harness.catalogue import entries_there

    return [
        CompletionItem(entry.name, help=entry.title)
        for entry in entries_there().values()
        if entry.name.lower().startswith(begun.lower())
    ]


def cases_of_entry(
    context: click.Context, _parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Return the cases of the entry on the command line, else of every entry."""
    from kchaos.harness.catalogue import CATALOGUE

    # While an option lacks its value, click leaves the arguments unparsed.
    typed = {str(word).lower() for word in (context.params.get("name"), *context.args)}
    chosen = [entry for name, entry in CATALOGUE.items() if name.lower() in typed]
    titles = {
        case: title
        for entry in chosen or CATALOGUE.values()
        for case, title in entry.cases.items()
        if case and case.startswith(begun)
    }
    return [CompletionItem(case, help=title) for case, title in titles.items()]


def releases(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Return the known releases with this prefix."""
    from kchaos.clusters.releases import TESTED_RELEASES

    return [release for release in TESTED_RELEASES if release.startswith(begun)]
