from windlass import Context, Windlass
from windlass.testing import run_until_idle


async def test_a_submitted_job_is_executed_and_its_result_is_stored(app: Windlass) -> None:
    @app.job("greet.person.v1")
    async def greet(ctx: Context, name: str) -> dict[str, str]:
        ctx.log.info("hello %s", name)
        return {"text": f"hello {name}"}

    id_ = await app.submit("greet.person.v1", {"name": "Ada"})
    await run_until_idle(app)
    job = await app.get(id_)
    assert (job.status, job.result) == ("succeeded", {"text": "hello Ada"})
    assert [event.event_type for event in await app.events(id_)] == ["created", "leased", "succeeded"]
    assert [line.message for line in await app.logs(id_)] == ["hello Ada"]
