#!/bin/sh
# Checks the form of sources and pages, as far as this is possible without compiling.
#
#   scripts/check-form.sh      exits with 1, and says each place, if something is not as CONTRIBUTING.md has it:
#     C++ as clang-format 14 lays it out
#     prose in Markdown within 100 columns; tables, fenced and indented code, and the pages that programs write
#       (docs/components, docs/experiments) are exempt
#     no listing in Markdown that was wrapped as if it were prose: a line of prose right behind indented code, or with
#       three blanks inside
#     headers that begin with a line on what they are for
#     sources of at most 600 lines, or with a comment "File length: ..." that says why not
#     files of changes/ that are named after their kind
#     messages of commits (scripts/check-commits.sh)
set -eu
cd "$(dirname "$0")/.."
status=0

git ls-files '*.cpp' '*.hpp' ':!examples/plugin_template' |
  xargs -r -P "$(nproc)" -n 80 clang-format-14 --dry-run --Werror || status=1

git ls-files '*.hpp' ':!examples/plugin_template' | xargs awk '
  FNR == 1 && !/^\/\/ [^ ]/ { printf "%s: does not begin with a line on what it is for\n", FILENAME; bad = 1 }
  END { exit bad }
' || status=1

# Columns are counted in characters: bytes that continue a UTF-8 character do not count.
LC_ALL=C awk '
  FNR == 1      { fenced = indented = 0; before = "" }
  /^ *```/      { fenced = !fenced; next }
  fenced        { next }
  /^    /       { indented = indented || before == ""; before = $0; next }
  /^ *$/        { indented = 0; before = ""; next }
  /^ *\|/       { next }
  {
    if (indented || $0 ~ /[^ ]   +[^ ]/) {
      printf "%s:%d: a listing that was wrapped as if it were prose\n", FILENAME, FNR
      bad = 1
    }
    before = $0
    line = $0
    gsub(/[\200-\277]/, "", line)
    if (length(line) > 100) {
      printf "%s:%d: %d columns, at most 100\n", FILENAME, FNR, length(line)
      bad = 1
    }
  }
  END { exit bad }
' $(git ls-files '*.md' ':!docs/components' ':!docs/experiments') || status=1

git ls-files '*.cpp' '*.hpp' '*.cu' '*.py' '*.sh' '*.cmake' | xargs awk '
  FNR == 1          { if (lines > 600 && !said) report(); lines = 0; said = 0; file = FILENAME }
  /File length: ./  { said = 1 }
                    { lines = FNR }
  END               { if (lines > 600 && !said) report(); exit bad }
  function report() { printf "%s: %d lines, at most 600 (CONTRIBUTING.md, Form)\n", file, lines; bad = 1 }
' || status=1

git ls-files changes | grep -vxE 'changes/(README|\+[a-z0-9-]+\.(added|changed|removed|fixed|security))\.md' |
  sed 's/$/: its name is not +WHAT.KIND.md (changes\/README.md)/' | grep . && status=1
scripts/check-commits.sh || status=1
exit "$status"
