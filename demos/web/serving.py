"""Serves the desk until Ctrl-C. An open page never ends its request, so the desk ends it."""

import socket
from pathlib import Path

import uvicorn

from demos.refund.shop import Shop
from demos.web.server import WebDesk, make_app


class DeskServer(uvicorn.Server):
    """uvicorn's server, which closes the desk before it waits for open requests."""

    def __init__(self, config: uvicorn.Config, desk: WebDesk) -> None:
        super().__init__(config)
        self._desk = desk

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop the runs, end the event streams, and then all the rest."""
        self._desk.close()
        await super().shutdown(sockets)


def serve(folder: Path, shop: Shop, pace: float, listener: socket.socket) -> None:
    """Serve the conversations in a folder on this socket. Raises KeyboardInterrupt at the end."""
    app = make_app(folder, shop, pace=pace)
    # A request that the desk cannot end, such as a tool at work, is given a second.
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    DeskServer(config, app.state.desk).run(sockets=[listener])
