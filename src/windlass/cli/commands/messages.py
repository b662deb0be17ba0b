"""`windlass signal` and `windlass publish`: send messages to runs and handlers that wait for them."""

from pathlib import Path

import click

from windlass.cli import arguments
from windlass.cli.arguments import json_option
from windlass.cli.output import say, show_json
from windlass.cli.runner import backend
from windlass.schemas.messages import Sent

payload_option = click.option("--payload", metavar="JSON", help="Payload; - reads it from standard input.")
file_option = click.option(
    "--payload-file", type=click.Path(path_type=Path), metavar="FILE", help="Read the payload from a file."
)
id_option = click.option("--id", "id_", metavar="ID", help="Send the message only once, even if this is repeated.")


@click.command()
@click.argument("run")
@click.argument("name")
@payload_option
@file_option
@id_option
@json_option
def signal(run: str, name: str, payload: str | None, payload_file: Path | None, id_: str | None, json: bool) -> None:
    """Send a signal to a run, or to a job that is not a step of a run.

    \b
    Examples:
      windlass signal 01a1e549-5254-7e2d-ae29-a2ed6084b686 approved --payload '{"by": "ann"}'
    """
    [target] = arguments.run_ids((run,))
    document = arguments.document(payload, payload_file, field="payload")
    _show(backend(lambda app: app.signal(target, name, document, id_=id_)), json=json)


@click.command()
@click.argument("name")
@click.option("--key", default="", metavar="KEY", help="Deliver it only to runs and handlers that wait for this key.")
@payload_option
@file_option
@id_option
@json_option
def publish(name: str, key: str, payload: str | None, payload_file: Path | None, id_: str | None, json: bool) -> None:
    """Publish an event to all runs and handlers that wait for its name and key.

    \b
    Examples:
      windlass publish paid --key order-42 --payload '{"cents": 995}' --id payment-7
    """
    document = arguments.document(payload, payload_file, field="payload")
    _show(backend(lambda app: app.publish_event(name, document, key=key, id_=id_)), json=json)


def _show(sent: Sent, *, json: bool) -> None:
    if json:
        show_json(sent)
    else:
        say("a message with this id was sent before" if sent.again else "sent")
