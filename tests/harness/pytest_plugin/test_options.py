"""Options, their twins, markers and multiplication; no cluster is started here."""

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest

from kchaos.clusters.errors import ReleaseError
from kchaos.clusters.spec import ClusterSpec
from kchaos.harness.pytest_plugin import shared
from kchaos.harness.pytest_plugin.options import PluginSettings, settings_of
from kchaos.harness.pytest_plugin.shapes import (
    Shape,
    release_for,
    releases_of,
    settle_bound_for,
    spec_for,
)

pytestmark = pytest.mark.slow

pytest_plugins = ("pytester",)

_ENVIRONMENT = (
    "KCHAOS_KAFKA_RELEASE",
    "KCHAOS_JUDGED_AS",
    "KCHAOS_DRIVER",
    "KCHAOS_RUNS_DIR",
    "KCHAOS_KEEP",
    "KCHAOS_SEED",
    "KCHAOS_OFFLINE",
    "KCHAOS_SETTLE_BOUND",
)


@pytest.fixture(autouse=True)
def _no_outer_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)


def _settings(pytester: pytest.Pytester, *arguments: str) -> PluginSettings:
    return settings_of(pytester.parseconfigure(*arguments))


def test_without_any_setting_the_defaults_hold(pytester: pytest.Pytester):
    assert _settings(pytester) == PluginSettings(
        releases=(),
        driver="local",
        runs_directory=pytester.path / "kchaos-runs",
        keep="failed",
        seed=None,
        offline=False,
    )


def test_every_option_has_an_ini_twin(pytester: pytest.Pytester):
    pytester.makeini(
        """
        [pytest]
        kafka_release = 1.1.1 2.0.1
        kafka_judged_as = 2.0.0
        kafka_driver = local
        kchaos_runs_dir = evidence
        kchaos_keep = always
        kchaos_seed = 7
        kchaos_offline = true
        kchaos_settle_bound = 90
        """
    )
    assert _settings(pytester) == PluginSettings(
        releases=("1.1.1", "2.0.1"),
        judged_as="2.0.0",
        driver="local",
        runs_directory=pytester.path / "evidence",
        keep="always",
        seed=7,
        offline=True,
        settle_bound_s=90.0,
    )


def test_a_toml_list_gives_releases(pytester: pytest.Pytester):
    pytester.makepyprojecttoml('[tool.pytest.ini_options]\nkafka_release = ["1.1.1", "2.0.1"]\n')
    assert _settings(pytester).releases == ("1.1.1", "2.0.1")


def test_the_environment_comes_before_the_ini_file(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    pytester.makeini("[pytest]\nkafka_release = 1.1.1\nkchaos_keep = always\nkchaos_seed = 7\n")
    monkeypatch.setenv("KCHAOS_KAFKA_RELEASE", "2.0.1, 2.1.1")
    monkeypatch.setenv("KCHAOS_KEEP", "never")
    monkeypatch.setenv("KCHAOS_SEED", "0")
    monkeypatch.setenv("KCHAOS_OFFLINE", "yes")
    settings = _settings(pytester)
    assert settings.releases == ("2.0.1", "2.1.1")
    assert (settings.keep, settings.seed, settings.offline) == ("never", 0, True)


def test_the_command_line_comes_before_the_environment(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    pytester.makeini("[pytest]\nkafka_release = 1.1.1\nkchaos_keep = always\n")
    monkeypatch.setenv("KCHAOS_KAFKA_RELEASE", "2.0.1")
    monkeypatch.setenv("KCHAOS_KEEP", "never")
    monkeypatch.setenv("KCHAOS_SEED", "1")
    monkeypatch.setenv("KCHAOS_RUNS_DIR", "from-environment")
    settings = _settings(
        pytester,
        "--kafka-release=2.8.2",
        "--kafka-release=3.9.1",
        "--kchaos-keep=failed",
        "--kchaos-seed=2",
        "--kchaos-runs-dir=typed",
        "--kchaos-offline",
    )
    assert settings.releases == ("2.8.2", "3.9.1")
    assert (settings.keep, settings.seed, settings.offline) == ("failed", 2, True)
    assert settings.runs_directory == pytester.path / "typed"


def test_a_typed_folder_is_beside_the_caller_and_one_from_the_ini_file_beside_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    pytester.makeini("[pytest]\nkchaos_runs_dir = evidence\n")
    below = pytester.mkdir("below")
    monkeypatch.chdir(below)
    root = f"--rootdir={pytester.path}"
    assert _settings(pytester, root).runs_directory == pytester.path / "evidence"
    assert _settings(pytester, root, "--kchaos-runs-dir=x").runs_directory == below / "x"


@pytest.mark.parametrize(
    ("ini", "said"),
    [
        ("kchaos_keep = sometimes", "*kchaos_keep in *tox.ini is 'sometimes'; it must be never*"),
        ("kchaos_seed = many", "*kchaos_seed in *tox.ini is 'many'; it must be a whole number*"),
        (
            "kafka_driver = cloud",
            "*kafka_driver in *tox.ini is 'cloud'; it must be local or docker*",
        ),
        (
            "kchaos_settle_bound = nan",
            "*kchaos_settle_bound in *tox.ini is 'nan'; it must be a number of seconds above 0*",
        ),
        ("kchaos_settle_bound = -1", "*it must be a number of seconds above 0*"),
    ],
)
def test_a_bad_value_is_refused_with_its_place(pytester: pytest.Pytester, ini: str, said: str):
    pytester.makeini(f"[pytest]\n{ini}\n")
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])


def test_a_bad_value_in_the_environment_names_the_variable(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KCHAOS_OFFLINE", "perhaps")
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*KCHAOS_OFFLINE in the environment is 'perhaps'; it must be *"])


def test_the_markers_are_known_under_strict_markers(pytester: pytest.Pytester):
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kafka_cluster(release="1.1.1", brokers=3)
        @pytest.mark.chaos_seed(3)
        def test_x():
            pass
        """
    )
    pytester.runpytest("--strict-markers").assert_outcomes(passed=1)
    pytester.runpytest("--markers").stdout.fnmatch_lines(
        ["@pytest.mark.kafka_cluster(release=*", "@pytest.mark.chaos_seed(n)*"]
    )


def test_every_argument_of_the_marker_is_listed(pytester: pytest.Pytester):
    (listed,) = [
        line
        for line in pytester.runpytest("--markers").stdout.lines
        if line.startswith("@pytest.mark.kafka_cluster(")
    ]
    arguments = listed[: listed.index("):")].partition("(")[2]
    names = {argument.partition("=")[0] for argument in arguments.split(", ")}
    assert names == {field.name for field in fields(Shape)}


def test_the_marker_for_the_settle_bound_comes_before_the_option(pytester: pytest.Pytester):
    marked, plain, wrong = pytester.getitems(
        """
        import pytest

        @pytest.mark.chaos_settle_bound(90)
        def test_marked(): pass
        def test_plain(): pass
        @pytest.mark.chaos_settle_bound(0)
        def test_wrong(): pass
        """
    )
    settings = _settings(pytester, "--kchaos-settle-bound=45")
    assert (settle_bound_for(marked, settings), settle_bound_for(plain, settings)) == (90, 45)
    with pytest.raises(pytest.UsageError, match="takes one number of seconds above 0"):
        settle_bound_for(wrong, settings)


def test_a_marker_says_what_its_kafka_is_judged_as_and_an_option_of_its_own_releases_alone(
    pytester: pytest.Pytester,
):
    marked, plain = pytester.getitems(
        """
        import pytest

        @pytest.mark.kafka_cluster(release="/builds/a", judged_as="3.9.0")
        def test_marked(): pass

        def test_plain(): pass
        """
    )
    settings = _settings(pytester, "--kafka-release", "/builds/b", "--kafka-judged-as", "3.9.1")

    def judged_as(node: pytest.Item, release: str) -> set[str | None]:
        return {broker.judged_as for broker in spec_for(node, release, settings).brokers}

    assert judged_as(marked, "/builds/a") == {"3.9.0"}
    assert judged_as(plain, "/builds/b") == {"3.9.1"}
    assert judged_as(plain, "2.8.2") == {None}


def test_the_option_may_name_the_releases_of_a_mixed_cluster(pytester: pytest.Pytester):
    plain = pytester.getitem("def test_func(): pass")
    settings = _settings(pytester, "--kafka-release", "1.1.1+2.0.1", "--kafka-release", "/a+b")

    def kafkas(release: str) -> list[str]:
        return [broker.kafka for broker in spec_for(plain, release, settings).brokers]

    assert [kafkas(release) for release in settings.releases] == [
        ["1.1.1", "2.0.1", "1.1.1"],
        ["/a+b", "/a+b", "/a+b"],
    ]


def test_a_marker_may_give_each_broker_its_release(pytester: pytest.Pytester):
    mixed, wrong, short = pytester.getitems(
        """
        import pytest

        @pytest.mark.kafka_cluster(release={1: "2.0.1", 0: "1.1.1"})
        def test_mixed(): pass
        @pytest.mark.kafka_cluster(release={"0": "1.1.1"})
        def test_wrong(): pass
        @pytest.mark.kafka_cluster(release={0: "1.1.1"}, brokers=3)
        def test_short(): pass
        """
    )
    settings = _settings(pytester, "--kafka-release", "2.8.2")
    spec = spec_for(mixed, release_for(mixed), settings)

    assert releases_of(mixed, settings) == ()
    assert [(broker.id, broker.kafka) for broker in spec.brokers] == [(0, "1.1.1"), (1, "2.0.1")]
    with pytest.raises(pytest.UsageError, match="must give each broker's id its release"):
        spec_for(wrong, "1.1.1", settings)
    with pytest.raises(pytest.UsageError, match="release names 1 brokers, and brokers=3"):
        spec_for(short, "1.1.1", settings)


def test_a_marker_may_ask_for_folders_a_tier_and_the_first_controller(pytester: pytest.Pytester):
    folders, tier, nobody = pytester.getitems(
        """
        import pytest

        @pytest.mark.kafka_cluster(release="2.8.2", log_directories=2, first_broker=0)
        def test_folders(): pass
        @pytest.mark.kafka_cluster(release="3.9.1", mode="zookeeper", tiered=True)
        def test_tier(): pass
        @pytest.mark.kafka_cluster(release="2.8.2", first_broker=7)
        def test_nobody(): pass
        """
    )
    settings = _settings(pytester)
    spec = spec_for(folders, "2.8.2", settings)

    assert {broker.log_directories for broker in spec.brokers} == {2}
    assert (spec.first_broker, spec.tiered) == (0, False)
    spec = spec_for(tier, "3.9.1", settings)
    assert (spec.first_broker, spec.tiered) == (2, True)
    with pytest.raises(ReleaseError, match="first_broker 7 is none of the brokers"):
        spec_for(nobody, "2.8.2", settings)


def test_a_marker_may_name_a_file_of_settings(pytester: pytest.Pytester):
    file = pytester.path / "server.properties"
    file.write_text("num.io.threads=16\nbroker.id=4\n")
    (test,) = pytester.getitems(
        f"""
        import pytest

        @pytest.mark.kafka_cluster(release="2.8.2", properties={str(file)!r})
        def test_own(): pass
        """
    )
    properties = spec_for(test, "2.8.2", _settings(pytester)).properties
    assert properties["num.io.threads"] == "16"
    assert "broker.id" not in properties


def test_a_marker_may_ask_for_a_kraft_cluster(pytester: pytest.Pytester):
    newest, both, wrong = pytester.getitems(
        """
        import pytest

        LEVELS = {"eligible.leader.replicas.version": 0}

        @pytest.mark.kafka_cluster(release="4.1.2", features=LEVELS)
        def test_newest(): pass
        @pytest.mark.kafka_cluster(release="3.9.1", mode="kraft", controllers=3)
        def test_both(): pass
        @pytest.mark.kafka_cluster(release="2.8.2", controllers=3)
        def test_wrong(): pass
        """
    )
    settings = _settings(pytester)
    spec = spec_for(newest, release_for(newest), settings)

    assert spec.is_kraft
    assert spec.features == {"eligible.leader.replicas.version": 0}
    assert "zookeeper.session.timeout.ms" not in spec.properties
    assert len(spec_for(both, "3.9.1", settings).controller_ids) == 3
    with pytest.raises(ReleaseError, match="this one has ZooKeeper"):
        spec_for(wrong, "2.8.2", settings)


def test_an_unknown_argument_of_the_marker_is_refused(pytester: pytest.Pytester):
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kafka_cluster(broker=3)
        def test_x(kafka_cluster):
            pass
        """
    )
    result = pytester.runpytest()
    assert result.ret != pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        ["*kafka_cluster does not take broker; it takes release, judged_as, brokers, zookeepers, *"]
    )


_RELEASES = """
import pytest

def test_plain(chaos):
    pass

def test_without_kafka():
    pass

@pytest.mark.kafka_cluster(release="1.1.1")
def test_about_one(kafka_cluster):
    pass

@pytest.mark.kafka_cluster(release=("2.0.0", "2.0.1"))
def test_about_two(zookeeper):
    pass

@pytest.mark.parametrize("kafka_release", ["0.10.2.2"], indirect=True)
def test_by_hand(shared_kafka_cluster):
    pass
"""


def _collected(pytester: pytest.Pytester, *arguments: str) -> list[str]:
    result = pytester.runpytest("--collect-only", "-q", *arguments)
    assert result.ret == pytest.ExitCode.OK
    return [line.partition("::")[2] for line in result.outlines if "::" in line]


def test_a_test_that_uses_kafka_runs_once_on_each_release(pytester: pytest.Pytester):
    pytester.makepyfile(_RELEASES)
    distribution = pytester.mkdir("kafka-patched")
    assert _collected(
        pytester, "--kafka-release=2.1.1", f"--kafka-release={distribution}", "-k", "not _two"
    ) == [
        "test_plain[2.1.1]",
        "test_plain[kafka-patched]",
        "test_without_kafka",
        "test_about_one",
        "test_by_hand[0.10.2.2]",
    ]


def test_without_a_release_option_only_the_marker_multiplies(pytester: pytest.Pytester):
    pytester.makepyfile(_RELEASES)
    assert _collected(pytester) == [
        "test_plain",
        "test_without_kafka",
        "test_about_one",
        "test_about_two[2.0.0]",
        "test_about_two[2.0.1]",
        "test_by_hand[0.10.2.2]",
    ]


def test_tests_that_share_a_cluster_follow_each_other(pytester: pytest.Pytester):
    pytester.makepyfile(
        """
        import pytest

        def test_a(shared_kafka_cluster):
            pass

        def test_b():
            pass

        @pytest.mark.kafka_cluster(brokers=1)
        def test_c(shared_kafka_cluster):
            pass

        def test_d(shared_kafka_cluster):
            pass
        """
    )
    assert _collected(pytester) == ["test_a", "test_d", "test_b", "test_c"]
    assert _collected(pytester, "--kafka-release=1.1.1", "--kafka-release=2.0.1") == [
        "test_a[1.1.1]",
        "test_d[1.1.1]",
        "test_a[2.0.1]",
        "test_d[2.0.1]",
        "test_b",
        "test_c[1.1.1]",
        "test_c[2.0.1]",
    ]


_TWO_FILES = """
import pytest

@pytest.mark.parametrize("number", [1, 2])
def test_shares(shared_kafka_cluster, number):
    pass

def test_between():
    pass

@pytest.mark.kafka_cluster(brokers=1)
def test_shares_another(shared_kafka_cluster):
    pass
"""


def stand_ins(happened: list[str]) -> type:
    """Returns what a pool makes in place of clusters; starts and stops are written down."""

    class StandIn:
        def __init__(self, _driver: str, spec: ClusterSpec, **_options: Any) -> None:
            self.size = len(spec.brokers)
            self.brokers: dict[int, Any] = {}
            self.metadata = SimpleNamespace(registered=frozenset)

        def start(self) -> None:
            happened.append(f"{self.size} started")

        def stop(self) -> None:
            happened.append(f"{self.size} stopped")

    return StandIn


def test_a_shared_cluster_is_stopped_before_tests_of_another_file_that_share_none(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    happened: list[str] = []
    monkeypatch.setattr(shared, "make_cluster", stand_ins(happened))
    pytester.makeconftest(
        """
        def pytest_runtest_call(item):
            item.config.happened.append(item.name)
        """
    )
    pytester.makepyfile(test_first=_TWO_FILES, test_last="def test_alone():\n    pass")

    class Told:
        def pytest_configure(self, config: Any) -> None:
            config.happened = happened

    pytester.inline_run("--kafka-release=1.1.1", plugins=[Told()])

    assert happened == [
        "3 started",
        "test_shares[1.1.1-1]",
        "test_shares[1.1.1-2]",
        "test_between",
        "3 stopped",
        "1 started",
        "test_shares_another[1.1.1]",
        "1 stopped",
        "test_alone",
    ]


def test_a_line_about_kchaos_is_printed_only_when_a_test_uses_it(pytester: pytest.Pytester):
    pytester.makepyfile(_RELEASES)
    arguments = ("--collect-only", "--kchaos-seed=5")
    used = pytester.runpytest(*arguments)
    used.stdout.fnmatch_lines(
        ["kchaos: 5 tests use Kafka (local; releases: *; seed: 5); runs go *"]
    )
    unused = pytester.runpytest(*arguments, "-k", "without_kafka")
    unused.stdout.no_fnmatch_line("kchaos:*tests use Kafka*")


def test_an_unknown_release_is_refused_without_a_traceback(pytester: pytest.Pytester):
    pytester.makepyfile(
        """
        def test_own(chaos):
            pass

        def test_shared(shared_kafka_cluster):
            pass
        """
    )
    result = pytester.runpytest("--kafka-release=9.9.9")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(
        ["kchaos: '9.9.9' is no known Kafka release; *", "kchaos: '9.9.9' is no known *"]
    )
    result.stdout.no_fnmatch_line("*ReleaseError*")


_UNRELATED = """
import sys

def test_unrelated():
    heavy = {"kafka", "kazoo", "docker", "pyspark", "pyarrow", "jinja2", "click", "cramjam", "jgo"}
    assert heavy & set(sys.modules) == set()
    ours = {name for name in sys.modules if name.startswith("kchaos.")}
    light = {f"kchaos.clusters{name}" for name in ("", ".front", ".front.drivers", ".errors")}
    assert {name for name in ours if not name.startswith("kchaos.harness")} == light
    assert "kchaos.harness.pytest_plugin.fixtures" in ours
"""


def test_an_unrelated_run_imports_nothing_heavy(pytester: pytest.Pytester):
    pytester.makepyfile(_UNRELATED)
    pytester.runpytest_subprocess("--strict-markers", "-W", "error").assert_outcomes(passed=1)


_KEEPS_A_CLUSTER = """
import pytest
from kchaos import ClusterSpec
from kchaos.clusters.spec import brokers_of

@pytest.fixture(scope="session")
def kept(kafka_cluster_pool):
    return kafka_cluster_pool(ClusterSpec(brokers=brokers_of("1.1.1", (0,))))

@pytest.fixture(scope="session")
def asked(kafka_cluster_pool):
    return lambda: kafka_cluster_pool(ClusterSpec(brokers=brokers_of("1.1.1", (0,))))
"""


def test_a_cluster_that_a_fixture_kept_while_the_pool_stopped_it_is_told(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(shared, "make_cluster", stand_ins([]))
    pytester.makeconftest(_KEEPS_A_CLUSTER)
    pytester.makepyfile(
        test_a="def test_keeps(kept):\n    pass\ndef test_asks(asked):\n    asked()",
        test_b="def test_alone():\n    pass",
        test_c="def test_keeps(kept):\n    pass\ndef test_asks(asked):\n    asked()",
    )

    done = pytester.runpytest_inprocess()

    done.assert_outcomes(passed=4, failed=1)
    done.stdout.fnmatch_lines(
        ["*fixture 'kept' kept a cluster*call it in each test", "FAILED test_c.py::test_keeps*"]
    )
