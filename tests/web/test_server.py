"""Options of the sockets on which the server listens."""

import socket

from windlass.web.server import listen


def test_accepted_connections_have_tcp_nodelay() -> None:
    listener = listen("127.0.0.1", 0)
    with (
        listener.socket,
        socket.create_connection(("127.0.0.1", listener.port)),
        listener.socket.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
