"""Signals that stop a process gracefully."""

import asyncio
import signal
import threading

from windlass.effects.signals import Signals


async def test_a_signal_received_by_another_thread_wakes_the_event_loop() -> None:
    def receive() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        over.wait()

    over = threading.Event()
    thread = threading.Thread(target=receive)
    with Signals() as signals:
        thread.start()
        try:
            async with asyncio.timeout(30):
                await signals.stop.wait()
        finally:
            over.set()
            thread.join()
    assert signal.set_wakeup_fd(-1) == -1
