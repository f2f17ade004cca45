#!/bin/bash
# scripts/site.py: the site has every page, and a broken link makes the build fail.
set -uo pipefail
. tests/scripts/expect.sh
python=$(scripts/environment.sh site scripts/site-packages.txt 2>/dev/null)/bin/python
[ -x "$python" ] || { echo "SKIPPED: PyPI cannot be reached for scripts/site-packages.txt"; exit 0; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

said=$("$python" scripts/site.py "$place/site" 2>&1) || expect "the site of all pages is built" "$said" '^no warning$'
git ls-files 'docs/*.md' | while read -r page; do
  [ -e "$place/site/${page%.md}.html" ] || [ -e "$place/site/$(dirname "$page")/index.html" ] ||
    expect "the site has all pages" "no $page" '^all$'
done || exit 1
expect "the package's modules have pages" "$(cat "$place/site/api/python.html")" 'href="privgrad\.sklearn\.html"'
expect "the package's functions are there, folded" \
  "$(grep -A9 '^<summary><code>calibrate</code>: ' "$place/site/api/privgrad.html")" '<h2 id="privgrad\.calibrate"'
for module in python/privgrad/[!_]*.py; do # the page of privgrad has the content of some, data is internal
  name=$(basename "$module" .py)
  grep -qE "^from \.$name import" python/privgrad/__init__.py || [ "$name" = data ] ||
    expect "modules that are imported by name have pages" "$(ls "$place/site/api")" "^privgrad\.$name\.html$"
done
expect "the SDK's headers are there" "$(cat "$place/site/api/sdk.html")" 'privgrad/schedule\.hpp'
if command -v doxygen >/dev/null; then
  expect "Doxygen's pages are there" "$(cat "$place/site/api/sdk/classprivgrad_1_1Schedule.html")" 'is_shape'
else
  expect "that Doxygen is missing is said" "$said" 'site: Doxygen is not installed'
fi
expect "it searches without a network" "$(ls "$place/site/search")" '^search_index\.js$'
expect "no page has a script from elsewhere" \
  "$(grep -rlE '<script[^>]*src="?(https?:)?//' --include='*.html' "$place/site" || echo none)" '^none$'
if command -v chromium >/dev/null; then
  for term in transformer lstm resnet imbalance encoding 'free text' 'batch size' Opacus; do
    found=$(timeout 90 chromium --headless=new --no-sandbox --disable-gpu --user-data-dir="$place/browser" \
      --virtual-time-budget=8000 --dump-dom "file://$place/site/docs/faq.html?q=${term// /%20}" 2>/dev/null)
    expect "pages that are opened as files can be searched for $term" "$found" '[0-9]+ matching document'
  done
else
  echo "chromium is not installed: the search is not tried"
fi

expect "a notebook is a page, with what its cells show" \
  "$(tr '\n' ' ' <"$place/site/docs/notebooks/quickstart.html" | grep -o '<div class="output">.*' | head -c 4000)" 'epsilon</td>'
expect "studies are folded, and keep their anchors" \
  "$(grep -A1 '^<summary>at-size</summary>' "$place/site/docs/experiments/studies/tran2022.html")" '^<h2 id="at-size">'
expect "rows of faults are folded, and keep their anchors" \
  "$(grep -A1 '^<summary>Samplers</summary>' "$place/site/docs/falsify.html")" '^<h3 id="samplers">'
expect "tables of parameters are marked, because they wrap on phones" \
  "$(cat "$place/site/docs/components/sampler.poisson.html")" '<div class="parameters">'

# A small repository with the same script.
mkdir -p "$place/small/docs" "$place/small/scripts" "$place/small/src"
cp scripts/site.py "$place/small/scripts/"
sed '/^nav:/,$d' mkdocs.yml >"$place/small/mkdocs.yml"
cd "$place/small"
git init -q
echo 'int x;' >src/x.cpp
printf '# Begin\n\n[a page](docs/a.md#here), [its source](src/x.cpp), [a folder](src/)\n' >README.md
printf '# A\n\n## Here\n\n    [code](is-no-link.md)\n\n1. item\n\n    its second paragraph\n\ntext\n\n    privgrad run a # b\n' >docs/a.md
git add -A
build() { "$python" scripts/site.py "$place/small/site" 2>&1 && echo built; }
expect "what pages link to is there" "$(build && ls site/src)" '^x\.cpp$'
expect "a folder is a list of its files" "$(cat site/src/README.html site/src/index.html 2>/dev/null)" 'x\.cpp'
expect "code has the language of its first line" "$(cat site/docs/a.html)" '<span class="c1"># b</span>'
expect "a paragraph of a list is no code" "$(cat site/docs/a.html)" '<p>its second paragraph</p>'
expect "without an address there is no link to a repository" "$(grep -c md-source__repository site/index.html)" '^0$'
expect "an address is linked" "$(PRIVGRAD_REPOSITORY=https://example.org/p build >/dev/null; cat site/index.html)" 'https://example.org/p'
echo '[nowhere](b.md)' >>docs/a.md
expect "a link to no file is named" "$(build)" "docs/a.md.*'b.md'"
printf '# A\n' >docs/a.md
expect "a link to no heading is named" "$(build)" "README.md.*#here"
