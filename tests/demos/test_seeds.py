"""The designs that the kit grew from, item by item, each tried by a command.

There are five: a reasoning tool with two ways out (items 1 to 39), an autonomous ReAct agent (40 to
66), an agent that consults its model after each action (67 to 96), a graph node with tool calling
(97 to 106), and tags in a stream (107, 108).

A row says what the item is, how it is tried, and a pattern of what is right. It is tried by a
command (`demos.refund ORD-001`), or by a program after PRELUDE. What the kit leaves out on purpose
is in LEFT_OUT, and in the table of a README with its reason.
"""

import io
import re
import shlex
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import NamedTuple

import pytest

from tests.support.commands import run_here
from tests.support.sizes import ROOT

PRELUDE = '''
import asyncio, json, tempfile
from pathlib import Path
from think_agent import *
from think_agent.dialects import Tags, json_plan, react, tagged
from think_agent.messages import from_json, to_json
from think_agent.testing import call, think
from think_agent.transcript import Transcript
from think_agent.policies import Price
from think_agent.wire.forms import form_of
from think_agent.wire.settings import Settings
from tests.support.commands import run_here
from tests.support.wires import to_wire

DONE = think("All is done.", should_continue=False)
LOOK = call("look", order_id="ORD-001")

@tool(read_only=True)
def look(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id}: 13 days"

@tool(think_first=True)
def pay(cents: int) -> str:
    """Pay money out."""
    return f"{cents} cents paid"

@tool(read_only=True)
def broken() -> str:
    """Does not work."""
    raise NoResult("the service is down")

def run(*replies, tools=(look, pay, broken), **options):
    options = {"force": "never", **options}
    return Agent(ScriptedModel(list(replies)), tools, **options).run("Go.")

def plan(reasoning="So.", done=False, actions=(), response=""):
    return json.dumps({"understanding": "", "reasoning": reasoning, "task_complete": done,
                       "actions": list(actions), "response": response})

def act(tool, **arguments):
    return {"tool": tool, "arguments": arguments}

def run_plans(*plans, **options):
    return Agent(json_plan(ScriptedModel(list(plans))), [look, broken], force="never",
                 **options).run("Go.")

def results(outcome):
    return [m.content for m in outcome.transcript if isinstance(m, ToolResult)]
'''
DESK = "demos.refund --provider offline"


class Item(NamedTuple):
    """An item of a design. `right` is a pattern of the output, stdout and stderr.

    `file` is the config file at {file}, `env` are variables, `code` is the exit code of a command.
    """

    number: str
    what: str
    tried: str
    right: str
    file: str = ""
    env: Mapping[str, str] = {}
    code: int = 0


REASONING_TOOL = [
    Item(
        "1",
        "think, minimal: a thought alone",
        'print([*THINK_MINIMAL.parameters["properties"]]); '
        'print(run(call("think", thought="Hm."), "Hello.", think=THINK_MINIMAL).exit)',
        r"\['thought'\]\nsilence",
    ),
    Item(
        "2",
        "think, extended: should_continue is an enum, both are required",
        'print(THINK.parameters["required"], '
        'THINK.parameters["properties"]["should_continue"]["enum"])',
        r"\['thought', 'should_continue'\] \['true', 'false'\]",
    ),
    Item(
        "3",
        "it has no effect; it is acknowledged as a tool message",
        'print(results(run(think("Hm."), DONE, "Yes.")))',
        r"\['Thought recorded\.', 'Thought recorded\.'\]",
    ),
    Item(
        "4",
        "first way out: silence",
        'print(run(LOOK, "It is 13 days old.").exit)',
        "silence",
    ),
    Item(
        "5",
        "second way out: the other calls of that turn are finished, then a closing call",
        'outcome = run((DONE, LOOK), "Bye.")\n'
        "print(outcome.exit, len(outcome.actions), "
        "[reply.tool_choice for reply in outcome.turn.replies])",
        r"signal 1 \['auto', 'none'\]",
    ),
    Item(
        "6",
        "in the closing call no tool can be called",
        'outcome = run(DONE, Assistant("Bye.", tool_calls=(LOOK,)))\n'
        "print(outcome.exit, len(outcome.actions), outcome.answer)",
        "signal 0 Bye.",
    ),
    Item(
        "7",
        "the final message is in the history",
        'print([m.text for m in run(DONE, "Bye.").transcript if isinstance(m, Assistant)][-1])',
        "Bye.",
    ),
    Item("8", "thoughts on the console", f"{DESK} ORD-001", "💭 Plan: look up ORD-001"),
    Item(
        "9",
        "a thought can be seen, stored and searched",
        "with tempfile.TemporaryDirectory() as folder:\n"
        '    path = Path(folder) / "run.jsonl"\n'
        '    Agent(ScriptedModel([think("A heron."), DONE, "Bye."])).run("Go.", transcript=path)\n'
        "    print([line for line in path.read_text().splitlines() if 'A heron.' in line])",
        r'"thought": ?"A heron\."',
    ),
    Item(
        "10",
        "the exit is typed",
        f"{DESK} --json ORD-001",
        r'"exit": "signal"',
    ),
    Item(
        "11",
        "any tool can be forced, on three providers",
        'asked = Request((User("Go."),), (THINK, look), tool_choice="required")\n'
        'for wire in ("anthropic", "openai-chat", "gemini"):\n'
        "    print(json.dumps(to_wire(wire, asked)))",
        r'(?s)"type": "any".*"tool_choice": "required".*"mode": "ANY"',
    ),
    Item(
        "12",
        "think can be forced, on three providers",
        'asked = Request((User("Go."),), (THINK, look), tool_choice=Force("think"))\n'
        'for wire in ("anthropic", "openai-chat", "gemini"):\n'
        '    print(json.dumps({k: v for k, v in to_wire(wire, asked).items() if k != "tools"}))',
        r'(?s)"name": "think".*"name": "think".*"think"',
    ),
    Item(
        "13",
        "the row for the Vercel AI SDK",
        'print(Path("demos/vercel_ai_sdk.ts").read_text())',
        r'toolChoice: \{ type: "tool", toolName: "think" \}',
    ),
    Item(
        "14",
        "Ollama has no tool choice: a schema forces the thought",
        'asked = Request((User("Go."),), (THINK, look), tool_choice=Force("think"))\n'
        'print("tool_choice" in to_wire("ollama", asked), [*form_of(asked)["properties"]])',
        r"False \['thought'\]",
    ),
    Item(
        "15",
        "a model that does not think is right all the same",
        'print(run(LOOK, "It is 13 days old.").answer)',
        "It is 13 days old.",
    ),
    Item(
        "16",
        "the pattern is the same on every provider: add the tool",
        'asked = Request((User("Go."),), (THINK, look))\n'
        'for wire in ("anthropic", "openai-chat", "openai-responses", "gemini", "ollama"):\n'
        '    print(wire, "should_continue" in json.dumps(to_wire(wire, asked)))',
        r"(\S+ True\n){5}",
    ),
    Item(
        "17",
        "variant: the heartbeat of MemGPT",
        "demos.11_who_may_say_that_it_is_done",
        "heartbeat +1 of 2",
    ),
    Item(
        "18",
        "variant: a conditional edge",
        "demos.11_who_may_say_that_it_is_done",
        "edge +2 of 2",
    ),
    Item(
        "19",
        "variant: no exit signal, as first published",
        "demos.02_silence_is_not_a_signal",
        "without the signal: exit silence",
    ),
    Item(
        "20",
        "README says when to use it",
        'print(Path("README.md").read_text())',
        r"\*\*Use it\*\* .*audit trail, if rules must hold .*several tools in no obvious order",
    ),
    Item(
        "21",
        "README says when to skip it",
        'print(Path("README.md").read_text())',
        r"\*\*Skip it\*\* for one-tool tasks, if latency matters, .*models that reason natively",
    ),
    Item(
        "22",
        "the figures of the airline tasks",
        'print(Path("demos/IN_THE_WILD.md").read_text())',
        r"\.584.*\.332",
    ),
    Item(
        "23",
        "the figure of SWE-bench",
        'print(Path("demos/IN_THE_WILD.md").read_text())',
        r"SWE-bench: 1\.6 %",
    ),
    Item(
        "24",
        "the model's own reasoning instead",
        'asked = Request((User("Go."),))\n'
        'print(to_wire("openai-chat", asked, Settings(reasoning="high"))["reasoning_effort"])',
        "^high$",
    ),
    Item("25", "ORD-001 step by step", f"{DESK} ORD-001", r"3 actions.* 6 model calls"),
    Item("26", "ORD-001 is approved", f"{DESK} --json ORD-001", '"decision": "approve"'),
    Item("27", "ORD-002 is denied", f"{DESK} --json ORD-002", '"decision": "deny"'),
    Item("28", "ORD-003 is approved", f"{DESK} --json ORD-003", '"decision": "approve"'),
    Item("29", "ORD-004 is for a manager", f"{DESK} --json ORD-004", '"decision": "escalate"'),
    Item(
        "30",
        "the three tools of the desk",
        "from demos.refund.shop import Shop\nprint(sorted(t.name for t in Shop().tools()))",
        r"\['check_refund_policy', 'lookup_order', 'process_refund'\]",
    ),
    Item(
        "31",
        "one command",
        "think_agent demo --provider offline ORD-001",
        r"ORD-001 .*approved",
    ),
    *[
        Item(
            number,
            f"in the wild: {name}",
            'print(Path("demos/IN_THE_WILD.md").read_text())',
            rf"(?m)^\| {name} \| .*https://",
        )
        for number, name in {
            "32": "aider",
            "33": "Cursor",
            "34": "Claude Code",
            "35": "Windsurf",
            "36": "Manus",
        }.items()
    ],
    Item("37", "architect and editor", "demos.12_architect_and_editor", "architect -> think"),
    Item(
        "38",
        "further reading: ReAct and MemGPT",
        'print(Path("demos/IN_THE_WILD.md").read_text())',
        r"(?s)arXiv 2210\.03629.*arXiv 2310\.08560",
    ),
    Item("39", "a lesson says what to remember", "demos.03_both_exits", r"\nremember: "),
]
REACT = [
    Item(
        "40",
        "Thought, Action, Observation, Final Answer",
        "heard = []\n"
        "def brain(request):\n"
        "    heard.append(request.messages[-1].text)\n"
        "    return Assistant(texts.pop(0))\n"
        'texts = [\'Thought: Hm.\\nAction: look\\nAction Input: {"order_id": "A"}\',\n'
        '         "Thought: Known.\\nFinal Answer: 13 days."]\n'
        "outcome = Agent(react(ScriptedModel(brain)), [look], force='never').run('Go.')\n"
        "print(outcome.exit, outcome.answer, heard[-1])",
        r'signal 13 days\. (.*\n)*Observation \(look \{"order_id": "A"\}\): A: 13 days',
    ),
    Item(
        "41",
        "the example with two cities",
        "from tests.dialects.test_react import temperature, two_cities\n"
        "agent = Agent(react(ScriptedModel(two_cities)), [temperature])\n"
        "print(agent.run('Oslo or Rome?').answer)",
        r"Rome is 15 degrees warmer\.",
    ),
    Item(
        "42",
        "the prompt has the form, the tools and the end",
        "asked = Request((User('Go.'),), (THINK, look))\n"
        "print(react(ScriptedModel([])).ask(asked)[1].system)",
        r'(?s)Thought: .*Action: .*Action Input: .*Final Answer: .*\{"name": "look"',
    ),
    Item(
        "43",
        "the prompt has ten rules and an example",
        "asked = Request((User('Go.'),), (THINK, look))\n"
        "print(react(ScriptedModel([])).ask(asked)[1].system)",
        r"(?s)# Rules\n.*\n1\. .*\n10\. .*# Example\n.*Observation ",
    ),
    Item(
        "44",
        "tools are told with what they return",
        "asked = Request((User('Go.'),), (THINK, look))\n"
        "print(react(ScriptedModel([])).ask(asked)[1].system)",
        r'"parameters": .*"required": \["order_id"\].*"returns": \{"type": "string"\}',
    ),
    Item(
        "45",
        "a parser that one can call",
        'p = react.parse(\'Thought: Hm.\\nAction: look\\nAction Input: {"order_id": "A"}\')\n'
        "print(p.thought, p.action, p.input, p.is_final, p.final_answer)",
        r"Hm\. look \{'order_id': 'A'\} False None",
    ),
    Item(
        "46",
        "a Final Answer ends it, and the model reads of broken JSON",
        "print(react.parse('Final Answer: Yes.').is_final)\n"
        "texts = ['Action: look\\nAction Input: {broken', 'Final Answer: No.']\n"
        "outcome = Agent(react(ScriptedModel(texts)), [look], force='never').run('Go.')\n"
        "print(results(outcome)[0])",
        r"True\nerror: the arguments of look are not a JSON object",
    ),
    Item(
        "47",
        "a limit on the iterations",
        "looks = [call('look', order_id=str(n)) for n in range(9)]\n"
        "print(run(*looks[:2], 'So far: 2.', max_model_calls=3).exit)",
        "limit",
    ),
    Item(
        "48",
        "which iteration it is, of how many: in the events of a run",
        "agent = Agent(ScriptedModel([LOOK, 'It is old.']), [look], force='never')\n"
        "for event in agent.stream('Go.', max_model_calls=3):\n"
        "    if isinstance(event, Progress):\n"
        "        print(event.model_call, 'of', event.most)",
        r"^1 of 3\n2 of 3\n$",
    ),
    Item(
        "48",
        "and on the console",
        f"{DESK} --max-model-calls 25 --verbose ORD-001",
        r"(?s)model call 1 of 25.*model call 6 of 25",
    ),
    Item(
        "49",
        "a chain of steps, and an answer that names them",
        "demos.15_where_did_this_come_from",
        r"A packet is \$5\. \[1\]",
    ),
    Item(
        "50",
        "an error of a tool is an observation, and the run continues",
        "outcome = run(call('broken'), 'It is down.')\nprint(results(outcome), outcome.exit)",
        r"\['error: the service is down'\] silence",
    ),
    Item(
        "51",
        "an unknown tool: the error names what there is",
        "print(results(run(call('nope'), 'Well.')))",
        r"there is no tool 'nope'\. Tools: look, pay, broken\.",
    ),
    Item(
        "52",
        "a reply without an action is an error, and there is an end to it",
        "agent = Agent(react(ScriptedModel(['Well.'] * 9)), [look], force='never')\n"
        "outcome = agent.run('Go.')\n"
        "print(outcome.exit, outcome.model_calls, outcome.transcript[2].text)",
        r"gave_up 3 Your reply could not be read: it has no label",
    ),
    Item(
        "53",
        "an agent has a name: in the header of its record, in the audit and in the events",
        "with tempfile.TemporaryDirectory() as folder:\n"
        '    path = Path(folder) / "run.jsonl"\n'
        "    agent = Agent(ScriptedModel(['Hello.']), force='never', name='Ada')\n"
        "    agent.run('Hi.', transcript=path, on_event=lambda event: print(\n"
        "        event.agent if isinstance(event, Progress) else ''))\n"
        "    print(json.loads(path.read_text().splitlines()[0])['name'])\n"
        "    print(run_here('think_agent', 'audit', str(path)).stdout)",
        r"Ada\n+Ada\nAudit · Ada · run ",
    ),
    Item(
        "53",
        "and in the spans",
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "from opentelemetry.sdk.trace.export import SimpleSpanProcessor\n"
        "from opentelemetry.sdk.trace.export.in_memory_span_exporter import *\n"
        "from think_agent.integrations.otel import Spans\n"
        "provider, exporter = TracerProvider(), InMemorySpanExporter()\n"
        "provider.add_span_processor(SimpleSpanProcessor(exporter))\n"
        "with Spans(provider.get_tracer('seeds')) as spans:\n"
        "    Agent(ScriptedModel(['Hello.']), name='Ada').run('Hi.', on_event=spans)\n"
        "print(exporter.get_finished_spans()[-1].attributes['gen_ai.agent.name'])",
        "^Ada$",
    ),
    Item(
        "54",
        "async for",
        "async def main():\n"
        "    agent = Agent(ScriptedModel([LOOK, 'It is old.']), [look], force='never')\n"
        "    return [type(event).__name__ async for event in agent.astream('Go.')]\n"
        "print(asyncio.run(main()))",
        r"'User'.*'ToolResult'.*'Outcome'\]",
    ),
    Item(
        "55",
        "tools are added as functions",
        "print([*Agent(ScriptedModel([]), [look, pay]).tools])",
        r"\['look', 'pay'\]",
    ),
    Item(
        "56",
        "a rate limit: requests are a minute apart",
        "from think_agent.providers.pace import Pace\n"
        "pace = Pace(per_minute=1)\n"
        "places = [pace.reserve()[0] for _ in range(3)]\n"
        "print([round(later - first) for first, later in zip(places, places[1:])])",
        r"\[60, 60\]",
    ),
    Item(
        "57",
        "the cost, counted and limited",
        "used = Usage(1_000_000, 1_000_000)\n"
        "prices = {'script': Price(input=1, output=2)}\n"
        "answers = [Assistant(tool_calls=(LOOK,), usage=used), 'So far.']\n"
        "outcome = run(*answers, prices=prices, max_cost=3)\n"
        "print(outcome.cost, outcome.exit)",
        r"3\.0 budget",
    ),
    Item(
        "58",
        "the user's own storage",
        "class Kept(Transcript):\n"
        "    def append(self, message):\n"
        "        super().append(message)\n"
        "        print('kept', type(message).__name__)\n"
        "Agent(ScriptedModel(['Hello.']), force='never').run('Hi.', transcript=Kept())",
        r"kept User\nkept Assistant\nkept Ended",
    ),
    Item(
        "59",
        "model and iterations are settings",
        f"{DESK} --model stand-in --max-model-calls 9 --show-config",
        r"(?s)model +stand-in +flag.*max_model_calls +9 +flag",
    ),
    Item(
        "59",
        "so is the temperature",
        'asked = Request((User("Go."),))\n'
        'print(to_wire("openai-chat", asked, Settings(temperature=0.5))["temperature"])',
        r"^0\.5$",
    ),
    Item(
        "60",
        "a model as a tool",
        "helper = Agent(ScriptedModel(['42.']), force='never')\n"
        "@tool(read_only=True)\n"
        "def ask(question: str) -> str:\n"
        "    'Ask a helper.'\n"
        "    return helper.run(question).answer\n"
        "print(results(run(call('ask', question='What?'), 'It is 42.', tools=[ask])))",
        r"\['42\.'\]",
    ),
    Item(
        "61",
        "a service that is missing: the user reads that",
        "print(run(call('broken'), think('It is down.', should_continue=False), "
        "'The service is down.').answer)",
        r"The service is down\.",
    ),
    Item(
        "61",
        "or the model says that it cannot be done",
        "cannot = call('think', thought='No mail.', should_continue='cannot', missing='a mailer')\n"
        "outcome = run(cannot, 'There is no way to send mail.', think=THINK_CANNOT)\n"
        "print(outcome.exit, outcome.answer)",
        r"cannot There is no way to send mail\.",
    ),
    Item(
        "62",
        "streaming, piece by piece",
        "agent = Agent(ScriptedModel(['It is 13 days old.']), force='never')\n"
        "pieces = [e.text for e in agent.stream('Go.') if isinstance(e, Delta)]\n"
        "print(len(pieces), ''.join(pieces))",
        r"5 It is 13 days old\.",
    ),
    Item(
        "63",
        "a person is asked before a call",
        "demos.07_approval",
        r"(?s)not run: Ada said no.*exit needs_human: .*a day later, exit signal",
    ),
    Item(
        "64",
        "variants of the prompt are compared",
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    cases, out = Path(folder) / 'cases.jsonl', Path(folder) / 'results.jsonl'\n"
        "    cases.write_text(Path('demos/refund/cases.jsonl').read_text().splitlines()[0])\n"
        "    words = ['--suite', 'demos.refund.suite', '--provider', 'offline:careful',\n"
        "             '--trials', '1', '--advice', 'off,on', '--out', str(out)]\n"
        "    print(run_here('think_agent', 'eval', str(cases), *words).stdout)",
        r"(?s)\| advice=off .*\| advice=on .*advice=on against advice=off: ",
    ),
    Item(
        "65",
        "the same call again and again is pointed out, and ended",
        "outcome = run(*[LOOK] * 20, max_model_calls=20)\n"
        "print(outcome.exit, outcome.model_calls < 10, "
        "[m.kind for m in outcome.transcript if isinstance(m, User)])",
        r"gave_up True \['person', 'repeat'",
    ),
    Item("66", "a task is all that it needs", f"{DESK} 'Refund ORD-003'", "ORD-003 .*approved"),
]
CONSULTING = [
    Item(
        "67",
        "one action a consultation",
        "two = plan(actions=[act('look', order_id='A'), act('look', order_id='B')])\n"
        "outcome = run_plans(two, plan(done=True, response='Well.'))\n"
        "print(outcome.transcript[2].text)",
        "actions: it must hold at most 1, not 2",
    ),
    Item(
        "68",
        "the file of that design as it is",
        f"{DESK} --config {{file}} ORD-001",
        r"error: .*a section \[think_agent\]",
        file="[autonomous_agent]\nmax_iterations = 10\n",
        code=2,
    ),
    Item(
        "70",
        "max_iterations",
        f"{DESK} --config {{file}} --json ORD-001",
        r'"exit": "limit".*"model_calls": 3\b|"model_calls": 3\b.*"exit": "limit"',
        file="[think_agent]\nmax_iterations = 3\n",
        code=3,
    ),
    *[
        Item(
            "71",
            f"an unknown setting is an error: {name}",
            f"{DESK} --config {{file}} ORD-001",
            rf"error: {name}: there is no such setting; ",
            file=f"[think_agent]\n{name} = 1\n",
            code=2,
        )
        for name in (
            "max_turns",
            "max_steps",
            "max_calls",
            "max_tokens_total",
            "budget",
            "timeout_seconds",
            "on_error",
        )
    ],
    Item(
        "71",
        "an unknown variable is an error",
        f"{DESK} ORD-001",
        r"error: max_turns: there is no such setting; .*\(THINK_AGENT_MAX_TURNS\)",
        env={"THINK_AGENT_MAX_TURNS": "1"},
        code=2,
    ),
    Item(
        "72",
        "max_context_entries: the error names what there is",
        f"{DESK} --config {{file}} ORD-001",
        r"max_context_entries: .*keep_turns",
        file="[think_agent]\nmax_context_entries = 20\n",
        code=2,
    ),
    Item(
        "72",
        "within a turn, the results that a request shows are bounded",
        "sizes = []\n"
        "def brain(request):\n"
        "    contents = [m.content for m in request.messages if isinstance(m, ToolResult)]\n"
        "    sizes.append(sum(map(len, contents)))\n"
        "    return Assistant(tool_calls=(call('look', order_id=f'{len(sizes)}' * 300),))\n"
        "agent = Agent(ScriptedModel(brain), [look], force='never', max_context_chars=2_000)\n"
        "outcome = agent.run('Go.', max_model_calls=30)\n"
        "print(len(sizes), max(sizes) < 2_000, sum(map(len, results(outcome))) > 10_000)",
        "30 True True",
    ),
    Item(
        "73",
        "context_strategy: the error says that nothing is summarized",
        f"{DESK} --config {{file}} ORD-001",
        r"context_strategy: .*nothing is summarized; keep_turns",
        file='[think_agent]\ncontext_strategy = "summarize"\n',
        code=2,
    ),
    Item(
        "74",
        "send_intermediate_responses: the error names what there is",
        f"{DESK} --config {{file}} ORD-001",
        r"send_intermediate_responses: .*hide_thoughts",
        file="[think_agent]\nsend_intermediate_responses = false\n",
        code=2,
    ),
    Item(
        "74",
        "a response beside an action is a remark on the way",
        "plans = [plan(actions=[act('look', order_id='A')], response='Fetching...'),\n"
        "         plan(done=True, response='It is 1.')]\n"
        "agent = Agent(json_plan(ScriptedModel(plans)), [look], force='never')\n"
        "events = [e for e in agent.stream('Go.') if isinstance(e, Delta)]\n"
        "for kind in ('commentary', 'answer'):\n"
        "    print(kind, ''.join(e.text for e in events if e.kind == kind))",
        r"commentary Fetching\.\.\.\nanswer It is 1\.",
    ),
    Item(
        "75",
        "max_consecutive_failures and failure_handling",
        f"{DESK}:stubborn --config {{file}} ORD-002",
        r"I gave up\. 2 unproductive replies in a row",
        file='[think_agent]\nmax_consecutive_failures = 2\nfailure_handling = "ask_user"\n',
        code=3,
    ),
    Item(
        "76",
        "a failed run shows what was accomplished",
        f"{DESK}:stubborn ORD-002",
        r"✓ lookup_order\(order_id=\"ORD-002\"\)\n✗ process_refund",
        code=3,
    ),
    Item(
        "77",
        "after failures a person guides it: another approach",
        "def brain(request):\n"
        "    if 'Use the mirror.' in str(request.messages[-1]):\n"
        "        return Assistant('The mirror has it.')\n"
        "    return Assistant(tool_calls=(call('broken'),))\n"
        "def guide(question):\n"
        "    return question.yes(by='Ada', reason='Use the mirror.')\n"
        "agent = Agent(ScriptedModel(brain), [broken], force='never', approve=guide)\n"
        "outcome = agent.run('Go.')\n"
        "print(outcome.answer, outcome.model_calls)",
        r"The mirror has it\. 4",
    ),
    Item(
        "77",
        "or ends it, to do it by hand",
        "def end(question):\n"
        "    return question.no('I do it by hand.', by='Ada')\n"
        "outcome = run(*[call('broken')] * 9, approve=end)\n"
        "print(outcome.exit, outcome.answer)",
        r"declined Stopped by Ada\. I do it by hand\.",
    ),
    Item(
        "78",
        "failure_handling = abort",
        f"{DESK}:stubborn ORD-002",
        r"I gave up at the first error:\n✓ lookup_order.*\n✗ process_refund",
        env={"THINK_AGENT_FAILURE_HANDLING": "abort"},
        code=3,
    ),
    Item(
        "79",
        "a flag wins over the environment",
        f"{DESK} --max-actions 2 --show-config ORD-001",
        r"max_actions +2 +flag",
        env={"THINK_AGENT_MAX_ACTIONS": "9"},
    ),
    Item(
        "80",
        "the environment wins over the file",
        f"{DESK} --config {{file}} --show-config ORD-001",
        r"max_actions +9 +THINK_AGENT_MAX_ACTIONS",
        file="[think_agent]\nmax_actions = 5\n",
        env={"THINK_AGENT_MAX_ACTIONS": "9"},
    ),
    Item(
        "81",
        "after an action the model sees the request, the history and the result",
        "heard = []\n"
        "plans = [plan(actions=[act('look', order_id='A')]), plan(done=True, response='Old.')]\n"
        "def brain(request):\n"
        "    heard.append([m.text for m in request.messages])\n"
        "    return Assistant(plans.pop(0))\n"
        "Agent(json_plan(ScriptedModel(brain)), [look], force='never').run('Go.')\n"
        "print(heard[-1])",
        r"\['Go\.', '\{.*\"actions\".*Observation \(look .*A: 13 days'\]",
    ),
    Item(
        "82",
        "a plan: understanding, reasoning, task_complete, actions, response",
        "asked = Request((User('Go.'),), (THINK, look))\n"
        "print([*json_plan(ScriptedModel([])).ask(asked)[1].output_schema['properties']])",
        r"\['understanding', 'reasoning', 'task_complete', 'actions', 'response'\]",
    ),
    Item(
        "83",
        "each action has a reason of its own",
        "looked = {**act('look', order_id='A'), 'reasoning': 'It was asked for.'}\n"
        "outcome = run_plans(plan(actions=[looked]), plan(done=True, response='Old.'))\n"
        "print(outcome.actions[0].thought, outcome.actions[0].how)",
        r"It was asked for\. carried",
    ),
    Item(
        "84",
        "the result of an action: what, whether it succeeded, result or error; as JSON",
        "outcome = run(LOOK, call('broken'), 'Well.')\n"
        "for action in outcome.actions:\n"
        "    back = from_json(to_json(action.result))\n"
        "    print(action.call.name, back.is_error, back.content)",
        r"look False ORD-001: 13 days\nbroken True error: the service is down",
    ),
    Item(
        "85",
        "a price, a calculation, done: three consultations",
        "@tool(read_only=True)\n"
        "def rate() -> int:\n"
        "    'The price of one.'\n"
        "    return 70455\n"
        "@tool(read_only=True)\n"
        "def multiply(number: float, by: float) -> float:\n"
        "    'Multiply.'\n"
        "    return number * by\n"
        "plans = [plan(actions=[act('rate')]),\n"
        "         plan(actions=[act('multiply', number=70455, by=0.5)]),\n"
        "         plan(done=True, response='$35,227.50')]\n"
        "agent = Agent(json_plan(ScriptedModel(plans)), [rate, multiply], force='never')\n"
        "outcome = agent.run('What are 0.5 worth?')\n"
        "print(outcome.model_calls, results(outcome)[1::2], outcome.answer)",
        r"3 \['70455', '35227\.5'\] \$35,227\.50",
    ),
    Item(
        "87",
        "after a 403, another way",
        "@tool(read_only=True)\n"
        "def fetch(agent: str = '') -> str:\n"
        "    'Fetch the data.'\n"
        "    if not agent:\n"
        "        raise NoResult('403 Forbidden')\n"
        "    return 'the data'\n"
        "outcome = run(call('fetch'), call('fetch', agent='think-agent'), 'Here it is.', "
        "tools=[fetch])\n"
        "print(results(outcome))",
        r"\['error: 403 Forbidden', 'the data'\]",
    ),
    Item(
        "88",
        "at the limit: what was completed, and it can be continued",
        "agent = Agent(ScriptedModel([LOOK, 'Done: ORD-001. Left: ORD-002.', "
        "call('look', order_id='ORD-002'), 'Both.']), [look], force='never', max_model_calls=2)\n"
        "first = agent.run('Both.')\n"
        "second = agent.run('Go on.', transcript=first.transcript)\n"
        "print(first.exit, first.answer, '|', second.answer)",
        r"limit Done: ORD-001\. Left: ORD-002\. \| Both\.",
    ),
    Item(
        "89",
        "budgets for actions, seconds and cost",
        "minutes = (f'2026-11-29T10:{n:02}:00Z' for n in range(60))\n"
        "used = Assistant(tool_calls=(LOOK,), usage=Usage(1_000_000, 0))\n"
        "price = {'script': Price(input=1, output=1)}\n"
        "for budget in ({'max_actions': 1}, {'max_seconds': 90, 'now': minutes.__next__},\n"
        "               {'max_cost': 0.5, 'prices': price}):\n"
        "    outcome = run(used, 'So far.', **budget)\n"
        "    print(outcome.exit, outcome.answer)",
        r"^limit So far\.\nlimit So far\.\nbudget So far\.\n$",
    ),
    Item(
        "90",
        "over HTTP: one POST a message",
        "from fastapi.testclient import TestClient\n"
        "from tests.readme import programs\n"
        "[code] = [c for c in programs(Path('demos/README.md').read_text()) if 'FastAPI' in c]\n"
        "names = {}\n"
        "exec(compile(code, 'demos/README.md', 'exec'), names)\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    app = names['make_app'](ScriptedModel([DONE, 'It is old.']), Path(folder))\n"
        "    print(TestClient(app).post('/mine', json={'text': 'How old is it?'}).text)",
        r'data: \{"exit": "signal", "answer": "It is old\."\}',
    ),
    Item(
        "91",
        "the final response has all results",
        f"{DESK} --quiet 'Refund ORD-001 and ORD-002'",
        r"(?s)ORD-001 .*approved.*ORD-002 .*denied",
    ),
    Item(
        "92",
        "the batch loop beside the iterative one",
        "demos.17_all_at_once_or_one_by_one",
        r"(?s)model calls: 1; .*60.*model calls: 8; .*135",
    ),
    Item(
        "93",
        "reads of one reply run at the same time",
        "async def main():\n"
        "    all_three = asyncio.Barrier(3)\n"
        "    @tool(read_only=True)\n"
        "    async def meet(n: int) -> str:\n"
        "        'Waits for the other two.'\n"
        "        await all_three.wait()\n"
        "        return f'{n} was here'\n"
        "    calls = tuple(call('meet', n=n) for n in range(3))\n"
        "    agent = Agent(ScriptedModel([calls, 'Done.']), [meet], force='never')\n"
        "    return await asyncio.wait_for(agent.arun('Go.'), 60)\n"
        "print(results(asyncio.run(main())))",
        r"\['0 was here', '1 was here', '2 was here'\]",
    ),
    Item(
        "94",
        "a run is kept step by step, and resumed",
        "demos.08_crash_and_resume",
        r"(?s)Started refund\n\nresumed, exit signal",
    ),
    Item(
        "95",
        "a person changes a call before it runs",
        "@tool(needs_approval=True)\n"
        "def order(packets: int) -> str:\n"
        "    'Order.'\n"
        "    return f'{packets} packets'\n"
        "def fewer(question):\n"
        "    return question.yes(by='Ada', arguments={'packets': 5})\n"
        "outcome = run(call('order', packets=50), 'Ordered.', tools=[order], approve=fewer)\n"
        "print(results(outcome))",
        r"5 packets.*A person changed this call to order\(packets=5\)",
    ),
]
GRAPH_NODE = [
    Item(
        "97",
        "a tool: name, description, schema; the root is an object",
        "print(look.name, look.description, look.parameters['type'])\n"
        "try:\n"
        "    Tool(name='x', description='', parameters={'type': 'string'})\n"
        "except ValueError as error:\n"
        "    print(error)",
        r"look Look an order up\. object\ntool x: parameters must be a JSON schema of type object",
    ),
    Item(
        "98",
        "names are unique",
        "try:\n"
        "    Agent(ScriptedModel([]), [look, look])\n"
        "except ValueError as error:\n"
        "    print(error)",
        "two tools are named 'look'",
    ),
    Item(
        "99",
        "a model is one method",
        "class Parrot(Model):\n"
        "    def complete(self, request):\n"
        "        return Assistant(request.messages[-1].text)\n"
        "print(Agent(Parrot(), force='never').run('Hello.').answer)",
        r"Hello\.",
    ),
    Item(
        "100",
        "steps have types, and come back from JSON as they were",
        "outcome = run(think('Hm.'), LOOK, DONE, 'Bye.')\n"
        "print(all(from_json(to_json(m)) == m for m in outcome.transcript))",
        "True",
    ),
    Item(
        "101",
        "the system prompt has the behavior alone",
        "heard = []\n"
        "def brain(request):\n"
        "    heard.append(request.system)\n"
        "    return Assistant('Hello.')\n"
        "Agent(ScriptedModel(brain), [look], instructions='Be kind.', force='never').run('Hi.')\n"
        "print(heard)",
        r"\['Be kind\.'\]",
    ),
    Item(
        "102",
        "the limit of a run is the smaller one: the agent's own, or what the caller has left",
        "def brain(request):\n"
        "    return Assistant(tool_calls=(call('look', order_id=str(len(request.messages))),))\n"
        "for own, left in ((9, 2), (2, 9)):\n"
        "    agent = Agent(ScriptedModel(brain), [look], force='never', max_model_calls=own)\n"
        "    print(agent.run('Go.', max_model_calls=left).model_calls)",
        r"^2\n2\n$",
    ),
    Item(
        "103",
        "three policies for a failure",
        "demos.19_three_ways_to_fail",
        r"(?s)tell_model\n  exit signal.*fail_fast\n  exit gave_up.*raise\n  raised here",
    ),
    Item(
        "104",
        "an observer: node begins and ends, tool call, tool result",
        "demos.18_observers",
        r"(?s)node begins: .*tool calls: lookup_order.*tool result: lookup_order.*node ends: ",
    ),
    Item(
        "105",
        "the count persists over a resume",
        "stopped = []\n"
        "@tool(read_only=True)\n"
        "def slow() -> str:\n"
        "    'Is stopped the first time.'\n"
        "    if not stopped:\n"
        "        stopped.append(True)\n"
        "        raise KeyboardInterrupt\n"
        "    return 'done'\n"
        "agent = Agent(ScriptedModel([call('slow'), 'So far.']), [slow], force='never', "
        "max_model_calls=2)\n"
        "try:\n"
        "    agent.run('Go.')\n"
        "except KeyboardInterrupt as stop:\n"
        "    kept = stop.transcript\n"
        "outcome = agent.resume(kept)\n"
        "print(outcome.model_calls, outcome.exit)",
        "2 limit",
    ),
    Item(
        "106",
        "examples: failure policies, an observer",
        "demos",
        r"(?s)18_observers.*19_three_ways_to_fail",
    ),
]
TAGS = [
    *[
        Item(
            "107",
            f"tags: {what}",
            f"reply = tagged(ScriptedModel([{text!r}])).complete(Request((User('Go.'),)))\n"
            "print([reply.thinking, reply.text])",
            re.escape(f"{[thinking, answer]}"),
        )
        for what, text, thinking, answer in (
            ("before any tag it is thinking", "Hm. <answer>42</answer>", "Hm.", "42"),
            ("thinking that is not closed", "<thinking>Hm.", "Hm.", ""),
            ("an answer that is not closed", "<answer>42", "", "42"),
            ("no tags: thinking", "Hm. 42", "Hm. 42", ""),
        )
    ],
    Item(
        "108",
        "the instruction to write the tags",
        "asked = Request((User('Go.'),), system='Be kind.')\n"
        "print(tagged(ScriptedModel([])).ask(asked)[1].system)",
        r"(?s)^Be kind\..*<thinking> and </thinking>.*<answer> and </answer>",
    ),
]
ITEMS = [*REASONING_TOOL, *REACT, *CONSULTING, *GRAPH_NODE, *TAGS]
LEFT_OUT = {  # items, or a part of one, with the row of the table in think_agent/README.md
    53: "an id, a description and a version for an agent",
    64: "automatic prompt search",
    66: "an agent built from a task description",
    69: "a switch back to all actions at once",
    73: "summaries of old messages",
    86: "skills that are loaded during a run",
    95: "a new message in the middle of a turn",
    96: "sub-tasks, and learning from earlier runs",
}


def output_of(item: Item, file: str) -> tuple[int, str]:
    """The exit code and the output of a command or of a program."""
    if re.match(r"(demos|think_agent)\b", item.tried):
        module, *words = shlex.split(item.tried.replace("{file}", file))
        done = run_here(module, *words, **item.env)
        return done.returncode, done.stdout + done.stderr
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(PRELUDE + item.tried, f"item {item.number}", "exec"), {"__name__": "item"})
    return 0, out.getvalue()


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: f"{item.number}: {item.what}")
def test_an_item_of_the_designs_works(item, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    file = tmp_path / "agent.toml"
    file.write_text(item.file)
    code, output = output_of(item, str(file))
    assert re.search(item.right, output), output
    assert code == item.code


def test_every_item_of_the_list_is_tried_or_left_out():
    numbers = [int(item.number) for item in ITEMS]
    assert numbers == sorted(numbers)
    assert {*numbers, *LEFT_OUT} == set(range(1, 109))


@pytest.mark.parametrize("what", LEFT_OUT.values(), ids=str)
def test_what_is_left_out_is_in_the_readme_with_its_reason(what):
    text = (ROOT / "think_agent/README.md").read_text(encoding="utf-8")
    [row] = re.findall(rf"(?m)^\| {re.escape(what)} \| (.*) \|$", text)
    assert len(row.split()) > 8
