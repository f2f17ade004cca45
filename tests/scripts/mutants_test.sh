#!/bin/bash
# The list of mutants: each record's text stands once in its source, and its test exists (tests/mutants/README.md).
set -uo pipefail
. tests/scripts/expect.sh
python=$(scripts/environment.sh mutants scripts/mutants-packages.txt 2>/dev/null)/bin/python
[ -x "$python" ] || { echo "SKIPPED: PyPI cannot be reached for scripts/mutants-packages.txt"; exit 0; }
expect "each mutant has its place and its test" "$("$python" scripts/mutants.py none 1 --check 2>&1)" \
  '^[0-9]+ mutants, each with its place and its test$'
