#!/bin/sh
# Checks the form of sources and pages, as far as this is possible without compiling.
#
#   scripts/check-form.sh      checks these rules of CONTRIBUTING.md; prints each violation, and then exits with 1:
#     C++ has the layout of clang-format 14
#     prose in Markdown has at most 100 columns; tables, fenced and indented code, and generated pages (docs/components,
#       docs/experiments) are exempt
#     no listing in Markdown was wrapped like prose: no line of prose follows indented code directly, and none contains
#       three blanks in a row
#     README.md, which a newcomer reads whole, has at most 900 words; docs/ has at most 100 000, without the tables that
#       programs make: generated pages, and what stands between `<!-- table ... -->` or `<!-- made by ... -->` and
#       `<!-- end -->`, or below `<!-- Below, ... -->`
#     headers begin with a line that says what they are for
#     sources have at most 600 lines, or a comment "File length: ..." that gives the reason
#     the names of the files in changes/ contain their kind
#     mutants (tests/mutants) quote text that their source has, and name a test that there is
#     messages of commits have the required form (scripts/check-commits.sh)
set -eu
cd "$(dirname "$0")/.."
status=0

git ls-files '*.cpp' '*.hpp' ':!examples/plugin_template' |
  xargs -r -P "$(nproc)" -n 80 clang-format-14 --dry-run --Werror || status=1

words=$(wc -w <README.md)
[ "$words" -le 900 ] || { echo "README.md: $words words, at most 900"; status=1; }

words=$(git ls-files 'docs/*.md' ':!docs/components' ':!docs/experiments/studies' | xargs awk '
  FNR == 1                         { made = 0 }
  /^<!-- (table|made by|Below)/    { made = 1 }
  !made                            { words += NF }
  /^<!-- end -->/                  { made = 0 }
  END                              { print words }
')
[ "$words" -le 100000 ] || { echo "docs: $words words, at most 100000"; status=1; }

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
if environment=$(scripts/environment.sh mutants scripts/mutants-packages.txt); then
  "$environment/bin/python" scripts/mutants.py build 1 --check >/dev/null || status=1
else
  echo "not run: whether mutants find their places: PyPI cannot be reached"
fi
scripts/check-commits.sh || status=1
exit "$status"
