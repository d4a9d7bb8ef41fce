"""kchaos: real Kafka clusters, broken on purpose, judged by their bytes.

The front door: public names and the command's entry point. The names are those that `__init__.pyi`
imports; each is imported when it is first used, so that `kchaos --help`, and every pytest run of an
environment that has kchaos installed, stay quick.

The rooms (`harness`, `clusters`, `faults`, `checkers`) are packages of this one: in a checkout by
links to the folders beside it, in a wheel as folders of its own.
"""

import functools
import importlib
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import Any


def __getattr__(name: str) -> Any:
    """Import and return a public name."""
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("kchaos")
    if name == "__all__":
        return __dir__()
    # Python asks a package for such names while it imports; none is public.
    module = None if name.startswith("_") else _modules().get(name)
    if module is None:
        raise AttributeError(f"module 'kchaos' has no attribute {name!r}")
    # kafka-python reads its schemas in a deprecated way while it is imported; in the tests of
    # someone who turns warnings into errors that is not their fault.
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        globals()[name] = value = getattr(importlib.import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted([*_modules(), "__version__", "main"])


def main() -> None:
    """Run the command `kchaos`, and exit with the code of the contract."""
    importlib.import_module("kchaos.harness.commands.process").main(sys.argv[1:])


@functools.cache
def _modules() -> Mapping[str, str]:
    """Return the module of each public name."""
    return {name: module for module, name in _imported("__init__.pyi")}


def _imported(file: str) -> Iterator[tuple[str, str]]:
    """Yield the modules and names that a file of the package imports, without running it."""
    # Imported here: they take longer than all else here, and a module of the rooms needs neither.
    import ast
    import importlib.resources

    text = importlib.resources.files("kchaos").joinpath(file).read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        for alias in node.names:
            if alias.name == "*":
                yield from _imported(
                    node.module.partition(".")[2].replace(".", "/") + "/__init__.py"
                )
            elif alias.asname in (None, alias.name):
                yield node.module, alias.name
