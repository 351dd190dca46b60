#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Input filter of Doxygen: doxygen_filter.py HEADER prints the header with its `//` comments as
Doxygen's. A comment above a declaration becomes `///`, one behind it `///<`, with its lines that
follow in the same column; the opening comment describes the file. The number of lines stays.
"""
import re
import sys

WHOLE = re.compile(r"^(\s*)//(?!/)( ?)(.*)$")
BEHIND = re.compile(r"^(.*?\S.*?)\s+//(?!/) ?(.*)$")
MARKER = re.compile(r"\s*//= [\w:.,\- ]+")  # of tests/tidy/conformance.py


def escape(text):
    """Plain text for Doxygen: outside of backticks its commands and links are taken literally."""
    text = MARKER.sub("", text)
    parts = text.split("`")
    for at in range(0, len(parts), 2):
        parts[at] = re.sub(r"([\\@<>#])", r"\\\1", parts[at])
        parts[at] = re.sub(r"(?<![\w>)])::", r"\\::", parts[at])
    return "`".join(parts)


def opening(lines):
    """The comment that opens a file: outside of namespaces Doxygen finds no names, so it looks for
    none; lines indented after an empty one are code."""
    out, code = [], False
    for line in lines:
        text = line[2:].rstrip()
        code = text.startswith("   ") and (code or not out or out[-1] == "///")
        if code:
            out.append("///    " + text)
        else:
            out.append(("/// " + re.sub(r"\b(\w+(?:\\?::\w+)+)", r"%\1",
                                        escape(text.strip()))).rstrip())
    return out


def comment_behind(line):
    """(code, comment, column) of a line that ends in a comment, or None."""
    match = BEHIND.match(line)
    if not match or match.group(1).count('"') % 2:
        return None
    return match.group(1), match.group(2), line.rindex("//", len(match.group(1)))


def convert(lines):
    out, column, at = [], None, 0
    if len(lines) > 1 and lines[0].startswith("// SPDX"):
        out.append("/// @file")
        at = next((n for n, line in enumerate(lines) if not line.startswith("//")), len(lines))
        out += opening(lines[1:at])
    while at < len(lines):
        whole, behind = WHOLE.match(lines[at]), comment_behind(lines[at])
        if whole and column is not None and len(whole.group(1)) == column:
            out.append(f"{whole.group(1)}///< {escape(whole.group(3))}")
        elif whole:
            column = None
            out.append(f"{whole.group(1)}/// {escape(whole.group(3))}")
        elif behind:
            code, text, column = behind
            out.append(code if code.strip() == "}" else f"{code}  ///< {escape(text)}")
        else:
            column = None
            out.append(lines[at])
        at += 1
    return detach(out)


def detach(lines):
    """A comment before an empty line or a closing brace belongs to no declaration."""
    for at in range(len(lines) - 1, -1, -1):
        if re.match(r"\s*///(?!<)", lines[at]) and not lines[at].startswith("/// @file"):
            follows = lines[at + 1] if at + 1 < len(lines) else ""
            if not follows.strip() or re.match(r"\s*(}|//(?!/)|(private|public):)", follows):
                if at > 0 and not is_opening(lines, at):
                    lines[at] = lines[at].replace("///", "//", 1)
    return lines


def is_opening(lines, at):
    """Whether line `at` is in the comment that opens the file."""
    while at > 0 and lines[at].startswith("///"):
        at -= 1
    return at == 0 and lines[0].startswith("/// @file")


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as header:
        print("\n".join(convert(header.read().split("\n"))))
