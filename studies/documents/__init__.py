"""Alternatives that a document weighs, side by side, by the machine that judges runs.

`documents` knows every document by name; each has a module of its own, whose alternatives are
proposals (`proposal`) that no release follows, each laid over what a broker of some release does.
`comparison` is the form of what comes out.
"""

from kchaos.studies.documents.comparison import Cell, Claim, Column, Comparison, Result, Row
from kchaos.studies.documents.documents import DOCUMENTS, Document, document_named
from kchaos.studies.documents.searching import Say, SearchBounds

__all__ = [
    "DOCUMENTS",
    "Cell",
    "Claim",
    "Column",
    "Comparison",
    "Document",
    "Result",
    "Row",
    "Say",
    "SearchBounds",
    "document_named",
]
