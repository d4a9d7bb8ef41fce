"""The documents whose alternatives can be compared, by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from kchaos.checkers.errors import ComparisonError
from kchaos.studies.documents import kafka_7601, kip_279, kip_405, kip_501
from kchaos.studies.documents.comparison import Comparison
from kchaos.studies.documents.searching import Say, SearchBounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document that weighs alternatives.

    Attributes:
        name: Such as "KIP-279".
        title: What it weighs, as one line.
        compare: (bounds, progress) to its own scenarios, and to schedules within the bounds.
        compare_run: (run directory, progress) to what each alternative would have done in a
            recorded run; None where that cannot be asked. It raises CheckError for a run that
            cannot be read.
    """

    name: str
    title: str
    compare: Callable[[SearchBounds, Say], Comparison]
    compare_run: Callable[[Path, Say], Comparison] | None = None


DOCUMENTS: Mapping[str, Document] = MappingProxyType(
    {
        document.name: document
        for document in (
            Document(
                name="KIP-279",
                title=kip_279.TITLE,
                compare=kip_279.compare,
                compare_run=kip_279.compare_run,
            ),
            Document(name="KAFKA-7601", title=kafka_7601.TITLE, compare=kafka_7601.compare),
            Document(
                name="KIP-405",
                title=kip_405.TITLE,
                compare=kip_405.compare,
                compare_run=kip_405.compare_run,
            ),
            Document(
                name="KIP-501",
                title=kip_501.TITLE,
                compare=kip_501.compare,
                compare_run=kip_501.compare_run,
            ),
        )
    }
)


def document_named(name: str) -> Document:
    """Return a document by its name, in capitals or not.

    Raises:
        ComparisonError: None has that name; the message lists them.
    """
    documents = {known.casefold(): document for known, document in DOCUMENTS.items()}
    document = documents.get(name.casefold())
    if document is None:
        raise ComparisonError(
            f"no document with alternatives is named {name!r}; known: {', '.join(DOCUMENTS)}"
        )
    return document
