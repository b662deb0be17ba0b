"""/secrets."""

from windlass.client.descriptors import Group, W, operation, upwards
from windlass.client.request import Call, one, page
from windlass.schemas.common import Page
from windlass.schemas.secrets import Secret, SecretRotation

SECRET = "/secrets/{name}"  # noqa: S105 - a path


class Secrets(Group[W]):
    """Values for `{{secrets.NAME}}`. They are set, and never returned."""

    @upwards
    def list(self, *, after: str | None = None, limit: int | None = None) -> Call[Page[Secret]]:
        """By name."""
        return page(Secret, "/secrets", after=after, limit=limit)

    @operation
    def set(self, name: str, value: str) -> Call[Secret]:
        """Create a secret, or replace its value."""
        return one(Secret, "PUT", SECRET, {"name": name}, body={"value": value})

    @operation
    def delete(self, name: str) -> Call[None]:
        """Delete a secret; attempts that need it fail from now on."""
        return Call("DELETE", SECRET, lambda _: None, {"name": name})

    @operation
    def rotate(self) -> Call[SecretRotation]:
        """Seal all secrets again with a new data key; their values stay the same."""
        return one(SecretRotation, "POST", "/secrets/rotate")

    @operation
    def rotate_master(self) -> Call[SecretRotation]:
        """Seal the data keys of all orgs with the server's first master key. Only for the operator."""
        return one(SecretRotation, "POST", "/secrets/rotate-master")
