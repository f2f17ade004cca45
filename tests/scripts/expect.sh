# expect WHAT TEXT PATTERN: ends the test unless a line of the text matches.
expect() {
  grep -qE -- "$3" <<<"$2" && return
  printf 'FAILED: %s\nexpected: %s\nfound: %s\n' "$1" "$3" "$2" >&2
  exit 1
}
