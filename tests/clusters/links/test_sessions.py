"""Partitions that a fetch covers, and fetches that say nothing new."""

from kchaos.clusters.links.sessions import FetchSessions, IdleFetches

T0, T1 = ("t", 0), ("t", 1)


def ask(sessions, session_id, epoch, named=None, forgotten=()):
    return sessions.requested(
        session_id=session_id, session_epoch=epoch, named=named or {}, forgotten=forgotten
    )


def test_a_session_follows_changes_and_forgets():
    sessions = FetchSessions()
    sessions.opened(7, ask(sessions, 0, 0, {T0: 0, T1: 5}))
    assert ask(sessions, 7, 1) == {T0: 0, T1: 5}
    assert ask(sessions, 7, 2, {T0: 3}) == {T0: 3, T1: 5}
    assert ask(sessions, 7, 3, forgotten=[T1]) == {T0: 3}
    assert ask(sessions, 7, 4, {T1: 9}) == {T0: 3, T1: 9}


def test_a_topic_that_was_made_again_is_forgotten_and_named_at_once():
    sessions = FetchSessions()
    sessions.opened(7, ask(sessions, 0, 0, {T0: 8, T1: 5}))
    assert ask(sessions, 7, 1, {T0: 0}, forgotten=[T0]) == {T0: 0, T1: 5}


def test_a_full_fetch_closes_the_session_that_it_names():
    sessions = FetchSessions()
    sessions.opened(7, ask(sessions, 0, 0, {T0: 0}))
    assert ask(sessions, 7, 0, {T1: 1}) == {T1: 1}
    assert ask(sessions, 7, 1) is None


def test_a_fetch_without_session_covers_what_it_names():
    sessions = FetchSessions()
    assert ask(sessions, 0, -1, {T0: 4}) == {T0: 4}
    sessions.opened(0, {T0: 4})
    assert ask(sessions, 0, 1) is None


def test_a_repeated_sessionless_fetch_is_idle_and_a_changed_one_is_not():
    idle = IdleFetches()
    first = {"partitions": [{"topic": "t", "partition": 0, "fetch_offset": 3}]}
    later = {"partitions": [{"topic": "t", "partition": 0, "fetch_offset": 4}]}
    verdicts = [idle.is_idle_request(each) for each in (first, first, later, later)]
    assert verdicts == [False, True, False, True]


def test_an_incremental_fetch_that_only_forgets_is_not_idle():
    idle = IdleFetches()
    assert idle.is_idle_request({"session_epoch": 3, "partitions": []})
    assert not idle.is_idle_request(
        {"session_epoch": 4, "partitions": [], "forgotten": [{"topic": "t", "partition": 0}]}
    )


def test_a_second_incremental_fetch_that_only_forgets_is_not_idle_either():
    idle = IdleFetches()
    forgets = [
        {"session_epoch": epoch, "partitions": [], "forgotten": [{"topic": "t", "partition": left}]}
        for epoch, left in ((3, 1), (4, 0))
    ]
    assert [idle.is_idle_request(each) for each in forgets] == [False, False]


def answer(high_watermark, *, size=0, error=0):
    return {
        "error_code": 0,
        "partitions": [
            {
                "topic": "t",
                "partition": 0,
                "error_code": error,
                "high_watermark": high_watermark,
                "log_start_offset": 0,
                "records_size_bytes": size,
            }
        ],
    }


def test_an_answer_with_a_new_high_watermark_records_or_an_error_is_not_idle():
    idle = IdleFetches()
    seen = [answer(3), answer(3), answer(4), answer(4), answer(4, size=9), answer(4, error=6)]
    assert [idle.is_idle_response(each) for each in seen] == [
        False,
        True,
        False,
        True,
        False,
        False,
    ]


def test_an_empty_incremental_answer_is_idle_unless_the_session_failed():
    idle = IdleFetches()
    assert idle.is_idle_response({"error_code": 0, "partitions": []})
    assert not idle.is_idle_response({"error_code": 71, "partitions": []})
