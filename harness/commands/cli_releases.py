"""`kchaos versions` on the command line."""

import json

import click

from kchaos.harness.commands import cli_options as opt
from kchaos.harness.commands.cli_complete import releases


@click.command(
    cls=opt.Command, examples=("kchaos versions", "kchaos versions --from 2.8.2 --to 3.9.1")
)
@click.option("--fetch", is_flag=True, help="Bring those that are tested into the cache.")
@click.option(
    "--from",
    "older",
    metavar="RELEASE",
    shell_complete=releases,
    help="With --to: how replication differs between two releases.",
)
@click.option("--to", "newer", metavar="RELEASE", shell_complete=releases, help="See --from.")
@opt.as_json
def versions(fetch: bool, older: str | None, newer: str | None, as_json: bool) -> None:
    """Show how well each Kafka release is known, or how two differ."""
    from kchaos.clusters.releases import release_of
    from kchaos.harness.commands.versions import difference_lines, known_releases, version_lines
    from kchaos.harness.upgrades.notes import changes_between, rules_between

    if (older is None) != (newer is None):
        raise click.UsageError("--from and --to go together: name both releases")
    if older is not None and newer is not None:
        changes = rules_between(older, newer)
        if as_json:
            notes = changes_between(release_of(older), release_of(newer))
            objects = [change.to_json() for change in changes]
            lines = [json.dumps(each) for each in (*objects, *(note.to_json() for note in notes))]
        else:
            lines = difference_lines(older, newer, changes)
    else:
        known = known_releases(fetch=fetch)
        lines = (
            [json.dumps(release.to_json()) for release in known]
            if as_json
            else version_lines(known)
        )
    click.echo("\n".join(lines))
