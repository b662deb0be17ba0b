"""The benchmark of idle processes counts transactions in the log of the server."""

from bench.idle import NAMES, transactions

LANES = next(text for text, name in NAMES.items() if name == "jobs.find_lanes")
SEEN = next(text for text, name in NAMES.items() if name == "workers.seen")


def test_a_lone_statement_is_a_transaction_and_a_begin_commit_block_is_one() -> None:
    log = [
        (1, LANES),
        (1, "begin"),
        (2, SEEN),  # another session
        (1, LANES),
        (1, SEEN),
        (1, "commit"),
        (2, LANES),
    ]
    assert transactions(log) == {"jobs.find_lanes": 2, "workers.seen": 1, "jobs.find_lanes + workers.seen": 1}


def test_a_rolled_back_transaction_counts_and_an_open_one_does_not() -> None:
    assert transactions([(1, "begin; set local x = 1"), (1, SEEN), (1, "rollback"), (1, "begin")]) == {
        "workers.seen": 1
    }


def test_an_unnamed_statement_is_counted_under_its_text() -> None:
    assert transactions([(1, "select 1")]) == {"select 1": 1}
