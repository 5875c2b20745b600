# Every habit of this project, one command each. `just` lists them.

python := ".venv/bin/python"

_list:
    @just --list

# a virtual environment with all that development needs
setup:
    python3 -m venv .venv
    {{python}} -m pip install --quiet -e ".[dev]"

# the tests: no key, no network, no Ollama
test *words:
    {{python}} -m pytest {{words}}

# the property tests, with examples that nobody has seen
random *words:
    {{python}} -m pytest -m hypothesis --hypothesis-profile=random {{words}}

# lint, format and types
lint:
    {{python}} -m ruff check .
    {{python}} -m ruff format --check .
    {{python}} -m mypy --strict think_agent demos

# the refund desk
demo *words:
    {{python}} -m demos.refund {{words}}

# what a command writes into the READMEs: tables, the picture
readme:
    {{python}} -m tests.readme --write

# what the kit costs, beside a hand-written loop
bench *words:
    {{python}} -m tests.benchmarks.overhead {{words}}

# what the core costs by itself
bench-core:
    {{python}} -m tests.benchmarks.core

# 200 random kills, 200 late answers, and random examples
soak *words:
    {{python}} -m tests.soak {{words}}

# small faults on purpose, in one room or in each: does a test see them?
mutants *words:
    {{python}} -m tests.mutants {{words}}

# everything, as CI does it
ci:
    .ci/run
