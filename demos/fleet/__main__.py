"""The fleet at a terminal.

python -m demos.fleet enqueue 20        twenty customers, an order and a conversation each
python -m demos.fleet work              a worker; start as many as you like, and kill them
python -m demos.fleet status            where each conversation stands, and what it decided
python -m demos.fleet status ORD-1001   the transcript of one that is over, as JSON lines
"""

import argparse
import os
import socket
import sqlite3
import sys
import time
from collections import Counter
from typing import Any

from demos.refund.offline import reply
from demos.refund.shop import INSTRUCTIONS, Shop
from demos.wrapping import wrapped_at_words
from think_agent import Assistant, Request
from think_agent.cli.main import add_model_flags, choose_model, guarded
from think_agent.cli.options import Parser, UserError, add_flag, positive, whole
from think_agent.messages import Json

EXIT_CODES = """\
exit codes:
  0    done
  1    a model or a file is out of reach
  2    a flag or an environment variable is wrong
  130  stopped by Ctrl-C or SIGTERM"""
FIRST = 1001  # the number of the first order made here; the shop's own are below


def arguments() -> Parser:
    shown: dict[str, Any] = {
        "epilog": EXIT_CODES,
        "formatter_class": argparse.RawDescriptionHelpFormatter,
    }
    parser = Parser(
        prog="python -m demos.fleet", description="Run the refund desk on many machines.", **shown
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    enqueue_ = commands.add_parser("enqueue", help="queue conversations", **shown)
    enqueue_.add_argument("count", type=whole, help="how many, each about an order of its own")
    enqueue_.set_defaults(run=enqueue)
    work_ = commands.add_parser("work", help="be a worker, until Ctrl-C", **shown)
    work_.set_defaults(run=work)
    status_ = commands.add_parser(
        "status", help="show where each conversation stands, and what it decided", **shown
    )
    status_.add_argument("id", nargs="?", help="print the transcript of this one")
    status_.set_defaults(run=status)
    retry_ = commands.add_parser(
        "retry", help="queue again what failed, from where it failed", **shown
    )
    retry_.set_defaults(run=retry)
    for command in (enqueue_, work_, status_, retry_):
        add_flag(
            command,
            "--fleet",
            metavar="URL",
            default="sqlite:///fleet.db",
            help="the engine's database: sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME "
            "(default: sqlite:///fleet.db)",  # not %(default)s: the variable may hold a password
        )
    for command in (enqueue_, work_):
        add_flag(
            command,
            "--db",
            metavar="PATH",
            default="shop.db",
            help="the shop's SQLite file (default: %(default)s)",
        )
    add_model_flags(work_, default="auto")
    add_flag(work_, "--name", metavar="N", help="the worker's name (default: the host and process)")
    add_flag(
        work_,
        "--concurrency",
        metavar="N",
        type=whole,
        default=4,
        help="conversations at a time (default: %(default)s)",
    )
    add_flag(
        work_,
        "--per-minute",
        metavar="N",
        type=whole,
        help="conversations the fleet may begin (default: as many as it can)",
    )
    add_flag(
        work_,
        "--silence",
        metavar="S",
        type=positive,
        default=600.0,
        help="take over what another worker has been silent about for S seconds "
        "(default: %(default)g)",
    )
    add_flag(
        work_,
        "--pace",
        metavar="S",
        type=float,
        default=0.5,
        help="seconds the stand-in takes for a reply (default: %(default)g)",
    )
    work_.add_argument("--until-done", action="store_true", help="stop when nothing is left")
    return parser


def enqueue(args: argparse.Namespace) -> int:
    from demos.fleet import fleet

    with fleet.client(args.fleet) as client:
        orders = new_orders(args.db, args.count)
        fleet.enqueue(client, orders)
    print(f"queued {len(orders)} conversations: {orders[0]} to {orders[-1]}")
    return 0


def work(args: argparse.Namespace) -> int:
    from dbos import DBOS

    from demos.fleet import fleet
    from think_agent.integrations.dbos import DurableAgent

    def unhurried(request: Request) -> Assistant:
        time.sleep(args.pace)
        return reply(request)

    worker = args.name or f"{socket.gethostname()}-{os.getpid()}"
    tools = Shop(args.db).tools()
    instructions = INSTRUCTIONS.read_text(encoding="utf-8")
    with fleet.client(args.fleet) as client:
        model = choose_model(args.provider, args.model, args.base_url, script=unhurried)
        model.check()
        agent = DurableAgent(model, tools, instructions=instructions)
        print(f"worker {worker}: {model.name}:{model.model}", flush=True)
        fleet.begin_work(
            args.fleet,
            agent,
            worker=worker,
            concurrency=args.concurrency,
            per_minute=args.per_minute,
        )
        try:
            while not (args.until_done and fleet.is_done(client)):
                for taken in fleet.take_over(args.silence):
                    print(f"{taken}: silent for {args.silence:g} s, taken over", flush=True)
                time.sleep(0.5)
        finally:  # what is under way may end; what does not is taken over by another worker
            DBOS.destroy(workflow_completion_timeout_sec=10)
    return 0


def status(args: argparse.Namespace) -> int:
    from demos.fleet import fleet

    with fleet.client(args.fleet) as client:
        runs = client.list_workflows(queue_name=fleet.NAME, workflow_ids=args.id and [args.id])
    if args.id:
        if not runs or not runs[0].output:
            raise UserError(f"{args.id}: no conversation of that number is over; see status")
        print(*runs[0].output["transcript"], sep="\n")
        return 0
    with wrapped_at_words():
        for run in runs:
            end = ended(run.output) if run.output else run.error or ""
            row = f"{run.workflow_id:10} {run.status:9} {run.executor_id or '-':20} {end}"
            print(row.rstrip())
    counts = Counter(run.status for run in runs)
    print(", ".join(f"{n} {state}" for state, n in counts.items()) or "nothing queued")
    return 0


def ended(output: Json) -> str:
    """How a conversation ended and what it decided: "-" is nothing, "?" was not noted, as by an
    earlier version of this fleet.
    """
    return f"{output['exit']:7} {', '.join(output.get('decisions', ['?'])) or '-'}"


def retry(args: argparse.Namespace) -> int:
    from demos.fleet import fleet

    with fleet.client(args.fleet) as client:
        again = fleet.retry(client)
    print(
        f"queued again: {', '.join(again)}" if again else "nothing had failed; nothing was queued"
    )
    return 0


def new_orders(path: str, count: int) -> list[str]:
    """Orders for so many new customers, who bought what the first four did; their numbers."""
    Shop(path)  # which makes the file where there is none
    with sqlite3.connect(path) as db:
        (made,) = db.execute(
            "SELECT count(*) FROM orders WHERE id >= ?", (f"ORD-{FIRST}",)
        ).fetchone()
        numbers = range(FIRST + made, FIRST + made + count)
        db.executemany(
            "INSERT INTO orders SELECT"
            " ?, item, price_cents, bought_on, final_sale, refunded_on, note"
            " FROM orders WHERE id = ?",
            [(f"ORD-{number}", f"ORD-00{number % 4 + 1}") for number in numbers],
        )
    return [f"ORD-{number}" for number in numbers]


def main() -> int:
    args = arguments().parse_args()
    try:
        return int(args.run(args))
    except ImportError as error:
        if error.name != "dbos":
            raise
        raise UserError('the fleet needs DBOS; in the clone run: pip install ".[fleet]"') from error


if __name__ == "__main__":
    sys.exit(guarded(main))
