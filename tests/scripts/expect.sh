# expect WHAT TEXT PATTERN: ends the test unless the text has a line that fits.
expect() {
  grep -qE -- "$3" <<<"$2" && return
  printf 'FAILED: %s\nexpected: %s\nfound: %s\n' "$1" "$3" "$2" >&2
  exit 1
}
