"""The benchmark of idle processes counts transactions in the log of the server."""

from bench.idle import NAMES, transactions

LANES = next(text for text, name in NAMES.items() if name == "jobs.find_lanes")
SEEN = next(text for text, name in NAMES.items() if name == "workers.seen")


def test_a_statement_alone_is_a_transaction_and_those_between_begin_and_commit_are_one() -> None:
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


def test_a_transaction_that_is_rolled_back_counts_and_one_that_is_open_does_not() -> None:
    assert transactions([(1, "begin; set local x = 1"), (1, SEEN), (1, "rollback"), (1, "begin")]) == {
        "workers.seen": 1
    }


def test_a_statement_without_a_name_is_shown() -> None:
    assert transactions([(1, "select 1")]) == {"select 1": 1}
