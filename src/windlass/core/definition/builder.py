"""Builder for workflows in Python: produces the same `Workflow` as a workflow file.

The builder writes a document and `core.definition` parses it, so rules, defaults and error messages are those of
workflow files. Mistakes are collected and `build` reports all of them; only misuse of a `Reference` raises at once.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from windlass.core.cron.schedule import CatchUp, Overlap
from windlass.core.definition.action import UNREADABLE
from windlass.core.definition.fields import Mistakes, format_value, inside
from windlass.core.definition.parser import parse
from windlass.core.definition.step_builder import Reference, Served, Span, StepBuilder, span
from windlass.core.workflows.step import Condition
from windlass.core.workflows.workflow import Workflow
from windlass.errors import Invalid, InvalidWorkflow

__all__ = ["Served"]
Register = Callable[[str, Callable[..., Any]], Served]
Needs = StepBuilder | str | Collection[StepBuilder | str] | Mapping[StepBuilder | str, Condition | str] | None


class WorkflowBuilder:
    """A workflow under construction. Steps may be created and connected in any order."""

    def __init__(
        self,
        name: str,
        *,
        cron: str | None = None,
        timezone: str = "UTC",
        cron_input: Any = None,
        overlap: Overlap | str = Overlap.ALLOW,
        catch_up: CatchUp | str = CatchUp.ONE,
        webhook: bool | Mapping[str, str] = False,
        event: str | Mapping[str, str] | None = None,
        description: str | None = None,
        max_duration: Span | None = None,
        concurrency: int | None = None,
        labels: Mapping[str, str] | None = None,
        input: Any = None,  # noqa: A002 - as in definitions
        register: Register | None = None,
    ) -> None:
        """Create a workflow without steps. `input` is a JSON Schema that the input of a run must fit.

        `register` registers a function as the handler of a type and returns the type and its default options; a
        function that is already a handler keeps its type.
        """
        self.name = name
        self._register = register
        self._steps: list[StepBuilder] = []
        self._names: set[str] = set()  # names of steps whose function was registered
        self._mistakes = Mistakes()
        times = {"timezone": timezone, "input": cron_input, "overlap": overlap, "catch_up": catch_up}
        self._options = {
            "name": name,
            "trigger": self._trigger(cron, times, webhook=webhook, event=event),
            "description": description,
            "max_duration": span(max_duration),
            "concurrency": concurrency,
            "labels": dict(labels) if isinstance(labels, Mapping) else labels,
            "input": input,
        }

    # References

    @property
    def input(self) -> Reference:
        """Return a reference to the input of the run."""
        return Reference(self, "input", "input")

    @property
    def item(self) -> Reference:
        """Return a reference to the item of an instance, in a step with `foreach`."""
        return Reference(self, "item")

    @property
    def index(self) -> Reference:
        """Return a reference to the number of an instance, from 0, in a fanned-out step."""
        return Reference(self, "index")

    # Steps

    def step(
        self,
        name: str,
        work: Callable[..., Any] | str,
        /,
        *,
        needs: Needs = None,
        input: Any = None,  # noqa: A002 - as in definitions
        **named: Any,
    ) -> StepBuilder:
        """Add a job step: a function, or the type of a job that any worker may handle.

        Keywords are its input; keys named `needs` or `input` must go into `input={...}`.
        """
        served = self.serve(name, work)
        step = self._add(name, needs, job=served.type, input=self._input(name, input, named))
        return step.with_defaults(served.defaults)

    def http(
        self,
        name: str,
        url: str | Reference,
        *,
        method: str = "POST",
        headers: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        needs: Needs = None,
    ) -> StepBuilder:
        return self._add(name, needs, url=url, method=method, headers=headers, query=query, body=body)

    def sleep(self, name: str, duration: Span, *, needs: Needs = None) -> StepBuilder:
        return self._add(name, needs, sleep=span(duration))

    def wait_for_webhook(
        self, name: str, *, timeout: Span | None = None, secret: str | None = None, needs: Needs = None
    ) -> StepBuilder:
        """Add a step that waits for a callback to its `callback_url`."""
        words = {"timeout": span(timeout), "secret": secret}
        hook = {key: value for key, value in words.items() if value is not None}
        return self._add(name, needs, wait_for_webhook=hook or True)

    def wait_for_event(
        self,
        name: str,
        event: str,
        *,
        key: "str | Reference | None" = None,
        timeout: Span | None = None,
        count: int | None = None,
        needs: Needs = None,
    ) -> StepBuilder:
        """Add a step that waits for an event with a key, or, without a key, for a signal to the run."""
        words = {"name": event, "key": key, "timeout": span(timeout), "count": count}
        return self._add(
            name, needs, wait_for_event={word: value for word, value in words.items() if value is not None}
        )

    def approve(
        self,
        name: str,
        message: "str | Reference",
        *,
        form: Mapping[str, Any] | None = None,
        roles: Sequence[str] | None = None,
        timeout: Span | None = None,
        on_timeout: "str | Mapping[str, Any] | None" = None,
        remind: Span | None = None,
        needs: Needs = None,
    ) -> StepBuilder:
        """Add a step that waits until a person approves or rejects. `form` is a JSON Schema of the entered values."""
        words = {
            "message": message,
            "form": form,
            "roles": None if roles is None else list(roles),
            "timeout": span(timeout),
            "on_timeout": on_timeout,
            "remind": span(remind),
        }
        return self._add(name, needs, approve={word: value for word, value in words.items() if value is not None})

    def command(
        self,
        name: str,
        run: str,
        *,
        runs_on: str | None = None,
        input: Any = None,  # noqa: A002
        needs: Needs = None,
    ) -> StepBuilder:
        return self._add(name, needs, run=run, runs_on=runs_on, input=input)

    def child(
        self,
        name: str,
        workflow: "WorkflowBuilder | str",
        *,
        input: Any = None,  # noqa: A002
        needs: Needs = None,
    ) -> StepBuilder:
        """Add a step that starts a run of another workflow."""
        called = workflow.name if isinstance(workflow, WorkflowBuilder) else workflow
        return self._add(name, needs, workflow=called, input=input)

    # Building

    def build(self) -> Workflow:
        """Return the workflow; raise `InvalidWorkflow` with all errors if it is not valid."""
        mistakes = Mistakes()
        mistakes.errors += self._mistakes.errors
        names = {step.name for step in self._steps}
        tasks = [step.to_document(names, mistakes) for step in self._steps]
        try:
            workflow = parse({**self._options, "tasks": tasks})
        except InvalidWorkflow as error:
            raise InvalidWorkflow([*mistakes.errors, *error.errors]) from None
        if mistakes.errors:
            raise InvalidWorkflow(mistakes.errors)
        return workflow

    def _add(self, name: str, needs: Needs, **action: Any) -> StepBuilder:
        step = StepBuilder(self, name, {k: v for k, v in action.items() if v is not None}, self._mistakes)
        self._steps.append(step)
        if isinstance(needs, Mapping):
            for parent, condition in needs.items():
                step.after(parent, on=condition)
            return step
        if isinstance(needs, Collection) and not isinstance(needs, str):
            return step.after(*needs)
        return step if needs is None else step.after(needs)

    def serve(self, name: str, work: Callable[..., Any] | str) -> Served:
        """Return the job type and the default options of a step. A function is registered as a handler."""
        return Served(work) if isinstance(work, str) else self._served(name, work)

    def _served(self, name: str, work: object) -> Served:
        path = inside(inside("tasks", name), "job")
        if not callable(work):
            self._mistakes.add(path, f"it is {format_value(work)}: it must be a function or the type of a job")
        elif self._register is None:
            self._mistakes.add(path, "a function needs an app to run it: use app.workflow, or give the type of a job")
        elif name not in self._names:  # a second step with this name is refused by `build`
            try:
                self._names.add(name)
                return self._register(f"{self.name}.{name}", work)
            except Invalid as error:
                self._mistakes.add_invalid(path, error)
        return Served(UNREADABLE.type)

    def _input(self, name: str, whole: Any, named: Mapping[str, Any]) -> Any:
        path = inside(inside("tasks", name), "input")
        if not named:
            return whole
        if whole is None:
            return named
        if not isinstance(whole, Mapping):
            self._mistakes.add(
                path, "keywords are given too: give all of the input in `input`, or all of it as keywords"
            )
            return whole
        for key in [key for key in whole if key in named]:
            self._mistakes.add(inside(path, key), "it is given as a keyword too: give it once")
        return {**whole, **named}

    def _trigger(
        self,
        cron: str | None,
        times: Mapping[str, Any],
        *,
        webhook: bool | Mapping[str, str],
        event: str | Mapping[str, str] | None,
    ) -> Any:
        kinds = {"cron": cron is not None, "webhook": bool(webhook), "event": event is not None}
        several = [f"`{kind}`" for kind, is_given in kinds.items() if is_given]
        if len(several) > 1:
            self._mistakes.add("trigger", f"{' and '.join(several)} are both given: a workflow has one trigger")
        if cron is not None:
            return {"cron": cron} | {key: value for key, value in times.items() if value is not None}
        usual = {"timezone": "UTC", "input": None, "overlap": Overlap.ALLOW, "catch_up": CatchUp.ONE}
        for key in [key for key in usual if times[key] != usual[key]]:
            self._mistakes.add("cron_input" if key == "input" else key, "it requires `cron`")
        if event is not None:
            return {"event": event} if isinstance(event, str) else event
        if isinstance(webhook, Mapping):
            return {"webhook": dict(webhook)}
        return "webhook" if webhook else "api"
