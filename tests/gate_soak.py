"""Kills of a gate and of the server behind it, by hand: `python -m tests.gate_soak [TIMES] [SEED]`.

A client makes payments through the gate. At a random moment the gate or the server is killed with
SIGKILL; the client begins again and makes the same call until it is settled. One client in two can
ask its user, who looks into the books before saying yes. The other gives up when the gate says that
the payment may have happened.

Prints the counts, and exits with 1 if a payment was made twice, or was reported but not made. 100
kills take some minutes.
"""

import asyncio
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path

import click
from mcp import MCPError
from mcp import types as wire

from tests.support.gates import ERAS, AtTheGate, Till, pid_of_gate, text_of
from tests.support.mcp import is_running, until
from think_agent.cli.main import run
from think_agent.cli.options import Command, whole
from think_agent.cli.screen import say

BAD = ("twice", "reported but not made")
LONGEST = 0.05  # seconds from a call to a kill


class Payer:
    """A client that makes one payment, however often it is killed meanwhile."""

    def __init__(self, till: Till, cents: int, chance: random.Random) -> None:
        self.till = till
        self.cents = cents
        self.chance = chance
        self.counts: Counter[str] = Counter()
        self.servers: list[int] = []  # of each try, the last one is alive
        self.is_settled = False

    async def ask(self, _: object, params: wire.ElicitRequestParams) -> wire.ElicitResult:
        """The user: yes, if it is not in the books. A server that lost its gate may still write
        them, so the user waits until it is gone.
        """
        self.counts["questions"] += 1
        if "may have happened" not in params.message:
            return wire.ElicitResult(action="accept")
        self.counts["questions about a repeat"] += 1
        orphans = self.servers[:-1]
        await asyncio.to_thread(until, lambda: not any(map(is_running, orphans)))
        if self.cents in self.till.paid:
            self.is_settled = True
            return wire.ElicitResult(action="decline")
        return wire.ElicitResult(action="accept")

    async def pay(self, kills: int) -> None:
        """Pay; the first tries are killed."""
        can_ask = self.chance.random() < 0.5
        era = self.chance.choice(ERAS)
        while not self.is_settled:
            with suppress(MCPError, ExceptionGroup):
                async with self.till.session(
                    "--read-only", "pid", ask=self.ask if can_ask else None, era=era
                ) as gate:
                    await self.try_to_pay(gate, kill=kills > 0, gives_up=not can_ask)
            kills -= 1

    async def try_to_pay(self, gate: AtTheGate, *, kill: bool, gives_up: bool) -> None:
        server = int(text_of(await gate.call("pid")))
        self.servers.append(server)
        paying = asyncio.create_task(gate.call("pay", cents=self.cents, thought="It is due."))
        if kill:
            victim = self.chance.choice([server, pid_of_gate(self.till.folder)])
            await asyncio.wait({paying}, timeout=self.chance.uniform(0, LONGEST))
            os.kill(victim, signal.SIGKILL)
            self.counts["kills of the server" if victim == server else "kills of the gate"] += 1
        result = await paying
        if not result.is_error:
            self.is_settled = True
            self.counts["reported"] += 1
            self.counts["reported but not made"] += self.cents not in self.till.paid
        elif "it was done before the gate was killed" in text_of(result):
            self.is_settled = True
            self.counts["reported"] += 1
            self.counts["reported after a kill"] += 1
            self.counts["reported but not made"] += self.cents not in self.till.paid
        elif gives_up and "check whether it did" in text_of(result):
            self.is_settled = True
            self.counts["given up"] += 1


def soak(folder: Path, times: int, seed: int) -> Counter[str]:
    """So many kills; what became of the payments."""
    chance = random.Random(seed)
    till = Till(folder)
    counts: Counter[str] = Counter()
    killed = 0
    while killed < times:
        payer = Payer(till, len(till.paid) + 1000 * counts["payments"] + 1, chance)
        kills = min(chance.choice([1, 1, 2, 3]), times - killed)
        asyncio.run(payer.pay(kills))
        counts += payer.counts
        counts["payments"] += 1
        killed = counts["kills of the gate"] + counts["kills of the server"]
        say(f"{killed} of {times} kills")
    counts["twice"] = sum(times > 1 for times in Counter(till.paid).values())
    return counts


@click.command(cls=Command, help=__doc__)
@click.argument("times", type=whole, default=100)
@click.argument("seed", type=int, default=1)
def command(times: int, seed: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        counts = soak(Path(folder), times, seed)
    for name in [*sorted(counts.keys() - {*BAD}), *BAD]:
        print(f"{name:28}{counts[name]:5}")
    return int(any(counts[name] for name in BAD))


if __name__ == "__main__":
    sys.exit(run(command, "python -m tests.gate_soak"))
