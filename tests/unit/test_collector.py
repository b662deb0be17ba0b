"""A worker's full garbage collections do not visit the modules."""

import gc

from windlass.runtime.collector import freeze_modules


def test_objects_that_exist_at_worker_start_are_exempt_from_garbage_collection() -> None:
    freeze_modules.cache_clear()
    try:
        freeze_modules()
        assert gc.get_freeze_count() > len(gc.get_objects())
    finally:
        gc.unfreeze()
