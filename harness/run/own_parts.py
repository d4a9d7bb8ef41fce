"""Steps and faults of one's own: from a file, an installed package, or the scenario with them.

A file is run as it stands, and a scenario with steps of it carries its text: so a run is played
again wherever it is. Text that a scenario carries is run for whoever trusts it, for nobody else.
"""

import ast
import dataclasses
import hashlib
import inspect
import linecache
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from pathlib import Path
from types import ModuleType
from typing import Any

from kchaos.faults import FAULTS
from kchaos.harness.errors import ScenarioError, UsageError
from kchaos.harness.steps.scenario_steps import STEPS

GROUP = "kchaos.parts"
"""The group of entry points under which a package names its modules."""
FILES = ".py"
_MOST_BYTES = 1 << 20
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VERSION = re.compile(r"[A-Za-z0-9.!+_-]*")
"""Version of a package that a message may repeat from a stranger's run in a command."""
_MODULES = "kchaos_own_parts_"
_MANAGED = contextmanager(lambda: iter(())).__code__
"""Code of every function that `contextmanager` makes."""
_INJECT = "inject"
_FAULT_HAS = ("lasting", "performs", "available", _INJECT)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnParts:
    """Steps and faults that a file or a package brings.

    Attributes:
        name: The file's name, or the package's.
        source: The file's text; "" of a package.
        version: The package's; "" of a file.
        module: The name under which it was imported.
        values: All that the module names.
        steps: Its steps, by the names of their classes.
        faults: Its faults, likewise.
        lines: Where in the file a name is given first.
    """

    name: str
    source: str = ""
    version: str = ""
    module: str
    values: Mapping[str, Any]
    steps: Mapping[str, type[Any]]
    faults: Mapping[str, type[Any]]
    lines: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that a scenario with some of its steps carries."""
        comes_from = {"source": self.source} if self.source else {"version": self.version}
        return {"name": self.name, "defines": [*self.steps, *self.faults], **comes_from}

    def place_of(self, name: str) -> str:
        """Return the file, and the line of the name's definition."""
        return f"{self.name} line {self.lines[name]}" if name in self.lines else self.name


_LOADED: dict[str, OwnParts] = {}
"""By the name of its module, all that was loaded."""


def parts_of_file(file: Path) -> OwnParts:
    """Run a file, and return its parts.

    Raises:
        UsageError: It cannot be read or run, or has a step or fault that is none; the message
            names file, line and remedy.
    """
    if file.suffix != FILES:
        raise UsageError(f"{file} is no file of Python: its name must end with {FILES}")
    try:
        written = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    if len(written) > _MOST_BYTES:
        raise UsageError(f"{file} has more than {_MOST_BYTES:,} bytes: a run carries no such file")
    try:
        source = written.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is no text in UTF-8: {error.reason}; save it as one") from error
    return _of_text(file.name, source, place=str(file))


def parts_named(name: str) -> OwnParts:
    """Return the parts of a file, or of the installed package of that name.

    Raises:
        UsageError: As of `parts_of_file`, or there is no such package.
    """
    if name.endswith(FILES) or "/" in name:
        return parts_of_file(Path(name))
    installed = installed_parts()
    for parts in installed:
        if parts.name == name:
            return parts
    known = ", ".join(parts.name for parts in installed) or "none"
    raise UsageError(
        f"no package {name!r} with parts for kchaos ({GROUP}) can be used; known: {known}. A file "
        f"ends with {FILES}{left_out()}"
    )


def installed_parts() -> tuple[OwnParts, ...]:
    """Return the parts of packages with a `GROUP` entry point; `broken_parts` has the others."""
    return tuple(parts for parts in _of_packages() if isinstance(parts, OwnParts))


def broken_parts() -> tuple[str, ...]:
    """Return packages whose announced parts do not load, each with reason and remedy.

    One cannot be imported, or has a step or fault that is none.
    """
    return tuple(str(error) for error in _of_packages() if isinstance(error, UsageError))


def _of_packages() -> Iterator[OwnParts | UsageError]:
    for point in entry_points(group=GROUP):
        try:
            yield _of_package(point)
        except UsageError as error:
            yield error


def left_out() -> str:
    """Return a message's addition about unusable packages, for an unknown name."""
    return "".join(f"; {why}" for why in broken_parts())


def carried_parts(carried: Any, *, trusted: bool) -> tuple[OwnParts, ...]:
    """Return the parts that a scenario carries, or needs of a package.

    Args:
        carried: The scenario's field `parts`.
        trusted: Whether text that this process has not run before may be run.

    Raises:
        ScenarioError: It is not trusted, has another shape, or a package is not installed, or in
            another version.
        UsageError: The text cannot be run.
    """
    if not isinstance(carried, list | tuple):
        raise ScenarioError("parts is no list")
    parts = tuple(_carried(part, trusted=trusted) for part in carried)
    require_apart(parts)
    return parts


def require_apart(parts: Iterable[OwnParts]) -> None:
    """Refuse files and packages that give one name to several steps or faults.

    Raises:
        UsageError: A run names steps and faults by their names alone, and could not tell them
            apart.
    """
    given: dict[str, OwnParts] = {}
    for part in parts:
        for name in (*part.steps, *part.faults):
            other = given.setdefault(name, part)
            if other.module != part.module:
                raise UsageError(
                    f"{part.place_of(name)}: {other.name} has a {name} too, and a run could not "
                    "tell them apart: give one of them another name"
                )


def _carried(part: Any, *, trusted: bool) -> OwnParts:
    texts = dict(part) if isinstance(part, Mapping) else {}
    defines = texts.pop("defines", [])
    is_known = set(texts) in ({"name", "source"}, {"name", "version"})
    if not is_known or not all(isinstance(text, str) for text in (*texts.values(), *defines)):
        raise ScenarioError("parts: each has the texts name, and source or version")
    name, source = texts["name"], texts.get("source")
    if source is None:
        if not _PACKAGE.fullmatch(name) or not _VERSION.fullmatch(texts["version"]):
            raise ScenarioError(f"parts: {name!r} {texts['version']!r} is no package and version")
        release = texts["version"]
        for installed in installed_parts():
            if installed.name != name:
                continue
            if installed.version != release:
                raise ScenarioError(
                    f"it was made with {', '.join(defines)} of {name} {release}, and {name} "
                    f"{installed.version} is installed, which may do something else: pip install "
                    f"{name}=={release}. To run it with {installed.version}, write that version "
                    "into its field parts"
                )
            return installed
        raise ScenarioError(
            f"it needs {', '.join(defines)} of the package {name} {release}, which is not "
            f"installed. If you trust it: pip install {name}{release and f'=={release}'}"
            f"{left_out()}"
        )
    if not trusted and _module_name(name, source) not in _LOADED:
        raise ScenarioError(
            f"it carries code of its own: {name}, which defines {', '.join(defines)}. Look at its "
            "text, in the field parts; --trust runs it"
        )
    return _of_text(name, source, place=name)


def parts_behind(classes: Iterable[type[Any]]) -> tuple[OwnParts, ...]:
    """Return the parts that define these steps and faults, each once; kchaos's own have none.

    Raises:
        UsageError: As of `require_apart`.
    """
    behind = {}
    for kind in classes:
        if kind in (*STEPS.values(), *FAULTS.values()):
            continue
        parts = _defining(kind, _LOADED.values()) or _defining(kind, installed_parts())
        if parts is not None:
            behind[parts.module] = parts
    require_apart(behind.values())
    return tuple(behind.values())


def _defining(kind: type[Any], loaded: Iterable[OwnParts]) -> OwnParts | None:
    return next(
        (parts for parts in loaded if kind in (*parts.steps.values(), *parts.faults.values())), None
    )


def own_place(error: BaseException) -> str:
    """Return the last line of the user's own parts in an error's traceback.

    "" if there is none, or if kchaos's own code was called from there and raised it.
    """
    place, frame = "", error.__traceback__
    while frame is not None:
        module = str(frame.tb_frame.f_globals.get("__name__"))
        for loaded in _LOADED.values():
            if loaded.source and loaded.module == module:
                place = f"{loaded.name} line {frame.tb_lineno}"
            elif not loaded.source and _top(loaded.module) == _top(module):
                place = f"{module} line {frame.tb_lineno} of the package {loaded.name}"
        if module.startswith("kchaos."):
            # The package itself only looks up what it is asked for by name.
            place = ""
        frame = frame.tb_next
    return place


def _module_name(name: str, source: str) -> str:
    return _MODULES + hashlib.sha256(f"{name}\0{source}".encode()).hexdigest()[:32]


def _of_text(name: str, source: str, *, place: str) -> OwnParts:
    module_name = _module_name(name, source)
    if module_name in _LOADED:
        return _LOADED[module_name]
    module = ModuleType(module_name)
    module.__file__ = place
    # Types of fields are looked up there, and lines of a traceback in the cache.
    sys.modules[module_name] = module
    linecache.cache[place] = (len(source), None, source.splitlines(keepends=True), place)
    try:
        exec(compile(source, place, "exec", dont_inherit=True), vars(module))
        return _loaded(name, module, place, source=source)
    except (Exception, SystemExit) as error:
        sys.modules.pop(module_name, None)
        if isinstance(error, UsageError):
            raise
        raise UsageError(_why(error, name, place)) from error


def _why(error: BaseException, name: str, place: str) -> str:
    if isinstance(error, SyntaxError) and error.filename == place:
        return f"{place} line {error.lineno} is no Python: {error.msg}; mend it there"
    line, frame = 0, error.__traceback__
    while frame is not None:
        line = frame.tb_lineno if frame.tb_frame.f_code.co_filename == place else line
        frame = frame.tb_next
    where = f"{place} line {line}" if line else place
    if isinstance(error, ModuleNotFoundError):
        return (
            f"{where} imports {error.name}, which is not installed: install it, or write what you "
            f"need of it into {name}, which a run carries alone"
        )
    return f"{where}: {type(error).__name__}: {error}; mend it there"


def _of_package(point: EntryPoint) -> OwnParts:
    name = point.dist.name if point.dist is not None else point.name
    try:
        module = point.load()
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"the package {name} says that {point.value} has parts for kchaos ({GROUP}), and it "
            f"cannot be imported: {type(error).__name__}: {error}; mend or uninstall {name}"
        ) from error
    if not isinstance(module, ModuleType):
        raise UsageError(
            f"the package {name} names {point.value} under {GROUP}, which is no module: name the "
            "module that has the parts"
        )
    try:
        release = version(name)
    except PackageNotFoundError:
        release = ""
    return _LOADED.get(module.__name__) or _loaded(name, module, point.value, version=release)


def _loaded(
    name: str, module: ModuleType, place: str, *, source: str = "", version: str = ""
) -> OwnParts:
    lines = dict(_lines(source))
    steps: dict[str, type[Any]] = {}
    faults: dict[str, type[Any]] = {}
    for given, value in vars(module).items():
        if _is_part(module, given, value):
            where = f"{place} line {lines[given]}" if given in lines else place
            _require_part(where, given, value)
            (faults if hasattr(value, "inject") else steps)[given] = value
    parts = OwnParts(
        name=name,
        source=source,
        version=version,
        module=module.__name__,
        values=dict(vars(module)),
        steps=steps,
        faults=faults,
        lines=lines,
    )
    _LOADED[module.__name__] = parts
    return parts


def _lines(source: str) -> Iterator[tuple[str, int]]:
    for node in reversed(ast.parse(source).body):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name, node.lineno
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name):
                yield target.id, node.lineno


def _top(module: str) -> str:
    return module.partition(".")[0]


def _is_part(module: ModuleType, given: str, value: Any) -> bool:
    """Return whether a name of a module is that of a step or fault that it defines."""
    return (
        isinstance(value, type)
        and (hasattr(value, "inject") or hasattr(value, "perform"))
        and given == value.__name__
        and not given.startswith("_")
        and _top(value.__module__) == _top(module.__name__)
        and not getattr(value, "_is_protocol", False)
    )


def _require_part(where: str, name: str, kind: type[Any]) -> None:
    word = "fault" if hasattr(kind, "inject") else "step"
    for table, ours in ((STEPS, "step"), (FAULTS, "fault")):
        if name in table:
            raise UsageError(
                f"{where}: {name} is the name of a {ours} of kchaos: give yours another one"
            )
    if not dataclasses.is_dataclass(kind) or not vars(kind)["__dataclass_params__"].frozen:
        raise UsageError(
            f"{where}: the {word} {name} is no frozen dataclass, so that no run could keep it: "
            "write @dataclass(frozen=True, kw_only=True) above it"
        )
    fields = {field.name for field in dataclasses.fields(kind)}
    missing = [has for has in _FAULT_HAS if not hasattr(kind, has) and has not in fields]
    if word == "fault" and missing:
        raise UsageError(
            f"{where}: the fault {name} has no {', '.join(missing)}: kchaos.Fault says what it is"
        )
    if word == "fault" and not _may_be_entered(getattr(kind, _INJECT)):
        raise UsageError(
            f"{where}: inject of the fault {name} is no context manager: write @contextmanager "
            "above it, and let it yield a kchaos.Injection"
        )


def _may_be_entered(inject: Any) -> bool:
    """Return whether a call gives a context manager, as far as the definition shows."""
    is_managed = getattr(inject, "__code__", None) is _MANAGED
    return (
        inspect.isgeneratorfunction(inspect.unwrap(inject) if is_managed else inject) is is_managed
    )
