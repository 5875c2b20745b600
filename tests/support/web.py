"""The web desk as a server in a process of its own, so that it can be killed.

Its shop is slow on purpose, before and after it books: a kill may come on either side.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import httpx

from tests.support.commands import environment
from tests.support.sizes import ROOT

OFFLINE = {"model": "offline:stand-in"}
MANAGERS = "My monitor arm (ORD-004) wobbles. Refund it, please"
SERVER = """
import socket, sys, time
from contextlib import contextmanager
from pathlib import Path
import uvicorn
from demos.refund.shop import Shop
from demos.web.server import make_app

class SlowShop(Shop):
    @contextmanager
    def _transaction(self):
        time.sleep(slow)
        with super()._transaction() as db:
            yield db
        time.sleep(slow)

folder, port, slow, pace = Path(sys.argv[1]), int(sys.argv[2]), *map(float, sys.argv[3:])
shop = SlowShop(str(folder / "shop.db"), manager=True)
config = uvicorn.Config(make_app(folder, shop, pace=pace), log_level="error")
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
listener.bind(("127.0.0.1", port))
uvicorn.Server(config).run(sockets=[listener])
"""


class WebDesk:
    """A client of one server, which is started anew after `kill`."""

    def __init__(self, folder: Path, slow: float = 0.0, pace: float = 0.0) -> None:
        self.folder, self.speed = folder, [str(slow), str(pace)]
        # Bound until the end, and never listening: no other process is given this port.
        self.kept = socket.socket()
        self.kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self.kept.bind(("127.0.0.1", 0))
        self.port = self.kept.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=self.url, headers={"origin": self.url}, timeout=30)
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-c", SERVER, str(self.folder), str(self.port), *self.speed]
        self.server = subprocess.Popen(command, cwd=ROOT, env=environment())
        while True:
            assert self.server.poll() is None, "the server did not start"
            with suppress(httpx.TransportError):
                self.client.get("/")
                return
            time.sleep(0.05)

    def kill(self) -> None:
        self.server.send_signal(signal.SIGKILL)
        self.server.wait()

    def post(self, name: str, action: str, **body: object) -> httpx.Response:
        return self.client.post(f"/conversations/{name}/{action}", json={**OFFLINE, **body})

    def post_plain(self, name: str, action: str, **body: object) -> httpx.Response:
        """A request that needs no model."""
        return self.client.post(f"/conversations/{name}/{action}", json=body)

    def begin(self, text: str) -> str:
        name = uuid4().hex
        assert self.post(name, "turn", text=text).status_code == 200
        return name

    def rows(self, name: str) -> list[tuple[str, str]]:
        """The rows of the conversation so far: the kind and the text of each."""
        return [(row["kind"], row["text"]) for row in next(self.events(name))["rows"]]

    def events(self, name: str) -> Iterator[dict]:
        with self.client.stream("GET", f"/conversations/{name}/events") as lines:
            for line in lines.iter_lines():
                if line:
                    yield json.loads(line.removeprefix("data: "))

    def until(self, name: str, *states: str) -> dict:
        """The first standing of the conversation in one of these states."""
        return next(event for event in self.events(name) if event.get("state") in states)

    def finish(self, name: str) -> None:
        """Press what the page offers until the turn has ended."""
        while (standing := self.until(name, "waits", "stopped", "ended"))["state"] != "ended":
            if standing["state"] == "waits":
                question = standing["card"]["id"]
                answered = self.post(name, "verdict", question=question, decision="yes")
                assert answered.status_code == 200
            else:
                assert self.post(name, "resume").status_code == 200
            self.until(name, "running", "waits", "ended")
            time.sleep(0.01)


@contextmanager
def web_desk(folder: Path, **speed: float) -> Iterator[WebDesk]:
    desk = WebDesk(folder, **speed)
    try:
        yield desk
    finally:
        desk.client.close()
        desk.kept.close()
        if desk.server.poll() is None:
            desk.kill()


KILLS = int(os.environ.get("THINK_AGENT_TEST_KILLS", "2"))  # at each moment; by hand 20
