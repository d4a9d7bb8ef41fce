"""Part of a log that error messages show."""

from pathlib import Path

from kchaos.clusters.system.log_tail import why_it_ended


def test_the_first_error_is_shown_though_many_lines_came_after_it(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    shutting_down = [f"[10:00:01] INFO step {number}" for number in range(40)]
    error = ["[10:00:00] ERROR Fatal error during startup", "java.lang.IllegalState: no", "\tat x"]
    log.write_text("\n".join(["[10:00:00] INFO starting", *error, *shutting_down]))

    shown = why_it_ended(log)

    assert shown == [*error, "...", *shutting_down[-15:]]


def test_an_error_among_the_last_lines_is_shown_once(tmp_path: Path) -> None:
    log, console = tmp_path / "server.log", tmp_path / "console.log"
    log.write_text("[10:00:00] INFO starting\n[10:00:01] ERROR no\n")
    console.write_text("Killed\n")

    shown = why_it_ended(log, [console, tmp_path / "none"])

    assert shown == ["[10:00:00] INFO starting", "[10:00:01] ERROR no", "Killed"]
