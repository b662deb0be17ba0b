"""Durations that are recorded in a batch give the same histogram as single ones."""

from prometheus_client import CollectorRegistry, Histogram, generate_latest

from windlass.runtime.metrics import BatchHistogram


def test_a_batch_of_durations_is_counted_as_each_of_them_would_be() -> None:
    buckets, amounts = (0.1, 0.5, 1.0), [0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 7.0, 0.05]
    one_by_one, together = CollectorRegistry(), CollectorRegistry()
    each = Histogram("seconds", "How long.", ("type",), buckets=buckets, registry=one_by_one).labels("a")
    batch = BatchHistogram("seconds", "How long.", ("type",), buckets=buckets, registry=together).labels("a")
    for amount in amounts:
        each.observe(amount)
    batch.observe_many(amounts)

    assert _lines(together) == _lines(one_by_one)


def _lines(registry: CollectorRegistry) -> list[bytes]:
    return [line for line in generate_latest(registry).splitlines() if b"_created" not in line]
