"""`kchaos compare` on the command line."""

import json
from pathlib import Path

import click

from kchaos.harness.commands import cli_options as opt


@click.command()
@click.argument("document")
@click.option(
    "--run",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="What each alternative would have done in a recorded run, in place of the scenarios.",
)
@click.option("--schedules", type=click.IntRange(0), help="Random schedules.  [default: 100]")
@click.option("--seed", type=opt.SEED, default=1, show_default=True, help="Of the first.")
@click.option(
    "--most-states",
    type=click.IntRange(0),
    help="Of one exhaustive search; 0 for none.  [default: 200000]",
)
@click.option(
    "--write",
    type=opt.LocalPath(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write it into a Markdown page instead: between its marks, or as a new page.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object in place of the table.")
def compare(
    document: str,
    run: Path | None,
    schedules: int | None,
    seed: int,
    most_states: int | None,
    write: Path | None,
    as_json: bool,
) -> int:
    """Compare the alternatives that DOCUMENT weighs, by the model.

    DOCUMENT is such as KIP-279. Its own scenarios are run with their own numbers, and each
    alternative is put through random and exhaustive schedules. Exit codes: 0 everything was
    answered, whatever the answers are; 2 a bound ended a search.
    """
    from kchaos.harness.printable import printable
    from kchaos.studies.commands.compare import compare_document, exit_code_for, text_of, to_json
    from kchaos.studies.commands.compare_pages import refuse_page, write_page
    from kchaos.studies.documents import SearchBounds

    known = SearchBounds()
    bounds = SearchBounds(
        schedules=known.schedules if schedules is None else schedules,
        seed=seed,
        most_states=known.most_states if most_states is None else most_states,
    )
    if write is not None:
        refuse_page(write, document)
    comparison = compare_document(document, run=run, bounds=bounds, say=opt.sayer())
    if write is not None:
        write_page(write, comparison)
        return exit_code_for(comparison)
    click.echo(json.dumps(to_json(comparison)) if as_json else printable(text_of(comparison)))
    return exit_code_for(comparison)
