"""What the tests of the server share."""

from tests import shared_routes

shared_routes.share()
