"""The refund desk in a browser: `python -m demos.web`, then open the address that it prints."""

import socket
import sys
from contextlib import suppress
from pathlib import Path

import click

from demos.refund.shop import Shop
from think_agent.cli.main import run

SERVES = "127.0.0.1"  # this machine alone


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), default=8321, show_default=True)
@click.option("--folder", default="runs/web", show_default=True, help="conversations and shop")
@click.option("--pace", default=0.02, show_default=True, help="seconds a word of the script")
def web(port: int, folder: str, pace: float) -> None:
    """Serve the refund desk to the browsers of this machine."""
    try:
        from demos.web.serving import serve
    except ImportError as error:
        advice = "the web desk needs FastAPI and uvicorn; run: pip install -e '.[web]'"
        raise click.UsageError(f"{advice} ({error})") from error
    kept = Path(folder).expanduser()
    kept.mkdir(parents=True, exist_ok=True)
    try:
        listener = socket.create_server((SERVES, port))
    except OSError as error:
        problem = f"--port {port}: {error.strerror}; choose another port"
        raise click.UsageError(problem) from error
    line = f"The refund desk: http://{SERVES}:{port} (Ctrl-C stops it; the conversations stay)"
    print(line, flush=True)
    with suppress(KeyboardInterrupt):
        serve(kept, Shop(str(kept / "shop.db"), manager=True), pace, listener)
    raise KeyboardInterrupt(f"stopped; the conversations are in {kept}")


if __name__ == "__main__":
    sys.exit(run(web, "python -m demos.web"))
