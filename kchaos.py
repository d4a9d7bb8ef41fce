"""kchaos: real Kafka clusters, broken on purpose, judged by their bytes.

The front door: public names, the command's entry point and the pytest hooks. Everything is
imported when it is first used, so that `kchaos --help`, and every pytest run of an environment
that has kchaos installed, stay quick.
"""

import importlib
import importlib.util
import sys
import warnings
from pathlib import Path
from typing import Any

_ROOMS = ("harness", "clusters", "faults", "checkers")
_PUBLIC = {
    "AwaitAnswer": "harness.playing.client_steps",
    "AwaitCutOff": "harness.playing.steps",
    "AwaitDecision": "harness.playing.observing_steps",
    "AwaitFollowing": "harness.playing.steps",
    "AwaitHeld": "harness.playing.steps",
    "AwaitHighWatermark": "harness.playing.steps",
    "AwaitHighWatermarkKept": "harness.playing.observing_steps",
    "AwaitInSync": "harness.playing.possible_steps",
    "AwaitLeader": "harness.playing.possible_steps",
    "AwaitLevel": "harness.playing.possible_steps",
    "AwaitLog": "harness.playing.observing_steps",
    "AwaitMessage": "harness.playing.observing_steps",
    "AwaitQuiet": "harness.playing.steps",
    "AwaitReplicated": "harness.playing.steps",
    "AwaitState": "harness.playing.steps",
    "brokers_of": "clusters.spec",
    "BrokerSpec": "clusters.spec",
    "CATALOGUE": "harness.catalogue",
    "ClusterSpec": "clusters.spec",
    "ConfigureTopic": "faults",
    "CreateTopic": "harness.playing.steps",
    "CutLink": "faults",
    "CutZooKeeper": "faults",
    "draw": "harness.player.drawing",
    "DisconnectNetwork": "faults",
    "DockerCluster": "clusters.docker_driver.cluster",
    "ExpireSession": "faults",
    "FastBounce": "faults",
    "FormatDowngrade": "faults",
    "FetchAs": "harness.playing.raw_steps",
    "Heal": "harness.playing.steps",
    "HoldController": "faults",
    "HoldPoint": "faults",
    "HoldRequests": "faults",
    "Inject": "harness.playing.steps",
    "IfPossible": "harness.playing.possible_steps",
    "judge": "checkers.judge",
    "KillBroker": "faults",
    "LocalCluster": "clusters.local",
    "LoseEpochs": "faults",
    "LoseTail": "faults",
    "MoveController": "faults",
    "PauseBroker": "faults",
    "play": "harness.playing.runner",
    "predict": "checkers.model",
    "PreferredElection": "faults",
    "Produce": "harness.playing.client_steps",
    "QUICK": "harness.catalogue.settings",
    "Read": "harness.playing.client_steps",
    "ReorderReplicas": "harness.playing.steps",
    "RollBroker": "faults",
    "RunDirectory": "checkers.run_directory",
    "RunOptions": "harness.playing.runner",
    "Scenario": "harness.playing.scenario",
    "SetLogLevel": "harness.playing.observing_steps",
    "SlowFetchReads": "faults",
    "StaleRequest": "faults",
    "StopBroker": "faults",
    "TakeSnapshot": "harness.playing.steps",
    "TearEpochs": "faults",
    "Tell": "harness.playing.steps",
    "WipeLogDirectory": "faults",
}
__all__ = [*_PUBLIC, "main"]


def __getattr__(name: str) -> Any:
    """The public name, imported now."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'kchaos' has no attribute {name!r}")
    check_rooms()
    # kafka-python reads its schemas in a deprecated way while it is imported; in the tests of
    # someone who turns warnings into errors that is not their fault.
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        return getattr(importlib.import_module(_PUBLIC[name]), name)


def check_rooms() -> None:
    """Makes sure that the four packages are kchaos's own.

    Their names are generic; another package or folder of the same name may come first on the
    path.

    Raises:
        ImportError: One of them is missing or is somebody else's; the message says where it is.
    """
    home = Path(__file__).resolve().parent
    for room in _ROOMS:
        spec = importlib.util.find_spec(room)
        origin = Path(spec.origin).resolve() if spec is not None and spec.origin else None
        if origin is None or origin.parent != home / room:
            raise ImportError(
                f"kchaos needs its own package {room!r} at {home / room}, but Python finds "
                f"{origin or 'none'}: something of the same name comes first on sys.path "
                "(a folder in the working directory, PYTHONPATH, or another distribution)"
            )


def main() -> None:
    """The command `kchaos`; exits with the code of the contract."""
    try:
        check_rooms()
    except ImportError as error:
        print(f"kchaos: {error}", file=sys.stderr)
        sys.exit(70)
    from harness.commands.process import main as main_of_the_process

    main_of_the_process(sys.argv[1:])


def pytest_addoption(parser: Any) -> None:
    """Adds kchaos's options to pytest, each with a twin in its ini file."""
    if _shadow() is None:
        from harness.pytest_plugin.options import add_options

        add_options(parser)


def pytest_configure(config: Any) -> None:
    """Registers markers, fixtures and reports.

    pytest loads this in every project of an environment. A project with a package of its own
    that is named like one of kchaos's loses kchaos's fixtures, not its tests.
    """
    shadow = _shadow()
    if shadow is not None:
        import pytest

        warning = pytest.PytestConfigWarning(f"kchaos has no fixtures and options here: {shadow}")
        config.issue_config_time_warning(warning, stacklevel=2)
        return
    from harness.pytest_plugin import fixtures, reporting
    from harness.pytest_plugin.options import configure

    configure(config)
    config.pluginmanager.register(fixtures, "kchaos-fixtures")
    config.pluginmanager.register(reporting, "kchaos-reporting")


def _shadow() -> ImportError | None:
    try:
        check_rooms()
    except ImportError as error:
        return error
    return None


if __name__ == "__main__":
    main()
