#!/bin/sh
# Checks that commits have the form required by CONTRIBUTING.md.
#
#   scripts/check-commits.sh                  all commits since this script exists; names the wrong ones, and then exits with 1
#   scripts/check-commits.sh --message FILE   the message in FILE, which git's hook commit-msg passes
#
# A subject has at most 72 characters, begins with a capital letter and ends without a full stop; a
# blank line separates it from the body; a line of the body has at most 100 columns, unless it is
# one word (an address) or indented (a listing). Merges and messages that git itself begins
# ("fixup!", "Revert") are not checked.
set -eu
cd "$(dirname "$0")/.."

# check NAME   checks the message on standard input
check() {
  awk -v name="$1" '
    function fail(why) { printf "%s: %s\n", name, why; bad = 1 }
    # Count characters, whatever the locale: bytes that continue a UTF-8 character do not count.
    function columns(text) { gsub(/[\200-\277]/, "", text); return length(text) }
    /^#/ { next }
    /^# -+ >8 -+/ { exit }
    ++line == 1 {
      if ($0 ~ /^(Merge|Revert|fixup!|squash!|amend!) /) exit
      if (columns($0) > 72) fail("its subject has " columns($0) " characters, at most 72")
      if ($0 !~ /^[A-Z]/) fail("its subject does not begin with a capital letter: an imperative, as in \"Refuse empty batches\"")
      if ($0 ~ /\.$/) fail("its subject ends with a full stop")
      next
    }
    line == 2 && $0 != "" { fail("its second line is not blank") }
    line > 2 && /[^ ] +[^ ]/ && !/^    / && columns($0) > 100 { fail("line " line " has " columns($0) " columns, at most 100") }
    END { exit bad }
  '
}
export LC_ALL=C

if [ "${1:-}" = --message ]; then
  check "the commit's message" <"$2"
  exit
fi
first=$(git log --diff-filter=A --format=%H -- scripts/check-commits.sh | tail -n 1)
[ -n "$first" ] || exit 0
status=0
# Landed with a line of 107 columns in its body; a commit that others have built on is not rewritten.
too_wide=f6f75488656126d50b8805ab78e9512370160600
for commit in $(git rev-list --no-merges "$first..HEAD"); do
  [ "$commit" != "$too_wide" ] || continue
  git log -1 --format=%B "$commit" | check "$(git log -1 --format=%h "$commit")" || status=1
done
exit "$status"
