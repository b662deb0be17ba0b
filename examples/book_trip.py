"""A saga: `python -m examples.book_trip` books a flight and a hotel, fails to charge the card, and cancels both.

`windlass worker examples.book_trip:app` runs its handlers in a worker.
"""

import asyncio
from typing import Any

from windlass import NonRetryable, Windlass

app = Windlass()  # embedded Postgres, or WINDLASS_DATABASE_URL
trip = app.workflow("book-trip")


def book_flight(trip: int) -> dict[str, Any]:
    return {"id": f"flight-{trip}", "price": 300}


def book_hotel(trip: int) -> dict[str, Any]:
    return {"id": f"hotel-{trip}", "price": 200}


def cancel_flight(booking: str) -> str:
    return f"cancelled {booking}"


def cancel_hotel(booking: str) -> str:
    return f"cancelled {booking}"


def charge(amount: list[int]) -> None:
    raise NonRetryable(f"the card was declined: {sum(amount)}")


flight = trip.step("flight", book_flight, trip=trip.input["trip"])
flight.compensate(cancel_flight, input={"booking": flight["id"]})
hotel = trip.step("hotel", book_hotel, needs=flight, trip=trip.input["trip"])
hotel.compensate(cancel_hotel, input={"booking": hotel["id"]}, max_attempts=10)
trip.step("pay", charge, needs=hotel, amount=[flight["price"], hotel["price"]])


async def main() -> None:
    async with app:
        stop = asyncio.Event()
        worker = asyncio.create_task(app.work(stop=stop))
        run = await app.start("book-trip", {"trip": 7})
        result = await run.wait()
        print(f"{result.state}: {result.steps}")
        print((await run.account()).reason)
        stop.set()
        await worker


if __name__ == "__main__":
    asyncio.run(main())
