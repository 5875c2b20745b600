"""The refund desk in a browser: `python -m demos.web`, then open the address that it prints."""

import sys
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
        import uvicorn

        from demos.web.server import make_app
    except ImportError as error:
        advice = "the web desk needs FastAPI and uvicorn; run: pip install -e '.[web]'"
        raise click.UsageError(f"{advice} ({error})") from error
    kept = Path(folder)
    kept.mkdir(parents=True, exist_ok=True)
    app = make_app(kept, Shop(str(kept / "shop.db"), manager=True), pace=pace)
    print(f"The refund desk: http://{SERVES}:{port} (Ctrl-C stops it; the conversations stay)")
    # An open page never ends its request by itself: stopping does not wait for it.
    uvicorn.run(app, host=SERVES, port=port, log_level="warning", timeout_graceful_shutdown=1)


if __name__ == "__main__":
    sys.exit(run(web, "python -m demos.web"))
