"""Makes a source in which the environment chooses a mutant, so that many mutants need one build (scripts/mutants.py)."""

import itertools
import re

# Begins each source that has such mutants.
HEAD = """#ifndef PRIVGRAD_MUTANT
#define PRIVGRAD_MUTANT
#include <cstdlib>
#include <string_view>
inline bool privgrad_is_mutant(std::string_view id) {
  static const char* const chosen = std::getenv("PRIVGRAD_MUTANT");
  return chosen != nullptr && chosen == id;
}
#endif
"""
QUOTED = re.compile(r'R"\((?:.|\n)*?\)"|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'|//[^\n]*|/\*(?:.|\n)*?\*/')
WORD = re.compile(r"\s*(if|else|while|for|switch|return|throw|continue|break|case)\b")


def without_quotes(text):
    """The text with blanks in place of strings and comments."""
    return QUOTED.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def is_balanced(text):
    depth = 0
    for c in without_quotes(text):
        depth += (c in "([{") - (c in ")]}")
        if depth < 0:
            return False
    return depth == 0


def begin_of(text, at, stops):
    """Where the expression begins in which `at` is; or the statement, if `stops` has no equals sign."""
    depth = 0
    for at in range(at, 0, -1):
        c, behind = text[at - 1], text[at]
        if c == "}" and depth == 0 and behind.isspace():  # the end of a block
            return at
        if depth == 0 and (c in "([{" or c in stops and (c != "=" or behind != "=" and text[at - 2] not in "=!<>")):
            return at
        if depth == 0 and "=" in stops and behind in " (" and re.search(r"\b(return|throw)$", text[max(0, at - 7):at]):
            return at
        depth += (c in ")]}") - (c in "([{")
    return 0


def end_of(text, at, stops):
    depth = 0
    for at in range(at, len(text)):
        if depth == 0 and (text[at] in ")]}" or text[at] in stops):
            return at
        depth += (text[at] in "([{") - (text[at] in ")]}")
    return len(text)


def difference(old, new):
    """How many characters at the beginnings, and at the ends, are equal; brackets close between them."""
    same = next((i for i, (a, b) in enumerate(zip(old, new)) if a != b), min(len(old), len(new)))
    most = min(len(old), len(new)) - same
    tail = next((i for i, (a, b) in enumerate(zip(old[::-1][:most], new[::-1][:most])) if a != b), most)
    for first, last in itertools.product(range(same, -1, -1), range(tail, -1, -1)):
        if is_balanced(old[first:len(old) - last]) and is_balanced(new[first:len(new) - last]):
            return first, last
    return 0, 0


def switched(text, one):
    """The text with the mutant beside the original, or None where only separate builds will do."""
    place = text.find(one["from"])
    if place < 0 or text.count(one["from"]) > 1:
        return None
    same, tail = difference(one["from"], one["to"])
    first, last = place + same, place + len(one["from"]) - tail
    middle = one["to"][same:len(one["to"]) - tail]
    flat = without_quotes(text)

    def both(begin, end):
        return text[begin:first] + middle + text[last:end], text[begin:end]

    begin, end = begin_of(flat, first, ",;="), end_of(flat, last, ",;")
    made, before = both(begin, end)
    is_expression = not any(";" in without_quotes(part) or not part.strip() or WORD.match(part) for part in (made, before))
    if is_expression:
        # A comma between two arguments is none within an expression.
        if any(end_of(without_quotes(part), 0, ",") < len(part) for part in (made, before)):
            return None
        # A condition may be anything that converts to bool, and the two need not be of one type.
        is_condition = re.search(r"\b(if|while) \($", flat[:begin]) and flat[end:end + 1] == ")"
        cast = "static_cast<bool>" if is_condition else ""
        return f'{text[:begin]} (privgrad_is_mutant("{one["id"]}") ? {cast}({made}) : {cast}({before})){text[end:]}'
    begin = begin_of(flat, first, ";")
    ends = [part.rstrip().endswith(";") for part in (flat[first:last], middle) if part.strip()]
    end = last if ends and all(ends) else end_of(flat, last, ";") + 1
    made, before = both(begin, end)
    if not (is_balanced(made) and is_balanced(before)) or flat[begin - 1:begin] == "(":
        return None
    return f'{text[:begin]} if (privgrad_is_mutant("{one["id"]}")) {{{made} }} else {{{before} }}{text[end:]}'
