"""Templates of pages: those of the report, and of other packages beside them."""

from functools import cache

import jinja2

from kchaos.harness.printable import printable
from kchaos.harness.report.witness_text import witness_text


@cache
def templates(*packages: str) -> jinja2.Environment:
    """Return the templates of these packages and the report's shared ones, cached.

    What is filled in is escaped, except in Markdown (`.md`), where the filter `cell` does that.
    """
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader(package, ".") for package in (*packages, "kchaos.harness.report")]
        ),
        autoescape=jinja2.select_autoescape(disabled_extensions=["md"], default=True),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = cell
    environment.filters["seconds"] = lambda seconds: f"{seconds:.3f}"
    environment.filters["witness_text"] = witness_text
    return environment


def cell(text: str) -> str:
    """Return the text as a cell of a Markdown table: in one line, without markup."""
    plain = " ".join(printable(text).split())
    return plain.replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[").replace("`", "'")
