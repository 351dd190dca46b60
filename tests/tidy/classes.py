# SPDX-License-Identifier: BSD-3-Clause
"""Counts what each class of C++ text declares: methods (friends included; constructors, destructors
and assignments are not) and data members.

No C++ parser: it follows braces, and is right for code that clang-format has laid out. Nested
classes are counted on their own and not again for the class around them.
"""
import dataclasses
import re

HEAD = re.compile(r"\b(?:class|struct|union)\s+(?:alignas\([^)]*\)\s*|\[\[[^\]]*\]\]\s*)*"
                  r"([A-Za-z_]\w*(?:::\w+)*)[^;{}()=]*(?:\([^)]*\)[^;{}()=]*)*$", re.S)

@dataclasses.dataclass
class Class:
    name: str
    line: int
    methods: int = 0
    members: int = 0


def matching(code, at):
    """The index behind the brace that closes the one at `at`."""
    depth = 0
    for index in range(at, len(code)):
        if code[index] == "{":
            depth += 1
        elif code[index] == "}":
            depth -= 1
            if depth == 0:
                return index + 1
    return len(code)


def classes(code):
    """Yields each class of `code`, in which comments and strings are blank."""
    for brace in re.finditer(r"\{", code):
        head = code[max(code.rfind(c, 0, brace.start()) for c in ";{}") + 1:brace.start()]
        head = re.sub(r"\b(public|private|protected)\s*:", " ", head)
        head = re.sub(r"^\s*template\s*<.*?>\s*(?=class|struct|union|requires)", "", head,
                      flags=re.S)
        found = HEAD.search(head)
        if not found or re.search(r"\benum\b", head) or re.match(r"\s*friend\b", head):
            continue
        end = matching(code, brace.start())
        counted = Class(found.group(1), code.count("\n", 0, brace.start()) + 1)
        count(code[brace.start() + 1:end - 1], counted)
        yield counted


def declarations(body):
    """Yields the declarations of a class body, bodies of functions and initializers left out."""
    text, at = "", 0
    while at < len(body):
        char = body[at]
        if char == ";":
            yield text.strip()
            text = ""
        elif char == "{":
            at = matching(body, at)
            text += "{}"
            rest = body[at:].lstrip()
            # The body of a function ends its declaration, an initializer or a class does not.
            if is_method(text) and not rest.startswith((",", ";")) \
                    and not re.search(r"=\s*\{\}$", text):
                if not rest.startswith("{"):
                    yield text.strip()
                    text = ""
            continue
        else:
            text += char
        at += 1


def without_templates(text):
    while True:
        shorter = re.sub(r"<[^<>()]*>", "", text)
        shorter = re.sub(r"<[^<>]*>", "", shorter)
        if shorter == text:
            return text
        text = shorter


def is_method(text):
    text = re.sub(r"\b(public|private|protected)\s*:", " ", text)
    text = re.sub(r"alignas\s*\([^)]*\)|\[\[.*?\]\]|__attribute__\s*\(\(.*?\)\)|decltype\([^)]*\)",
                  " ", text)
    text = without_templates(text.replace("->", " ").replace("<=>", " ")
                             .replace("operator<", "operator").replace("operator>", "operator"))
    before = re.split(r"[={]", text, maxsplit=1)[0] if "operator" not in text else text
    return bool(re.search(r"[\w~=\]+\-*/!&|)]\s*\(", before)) and \
        not re.match(r"\s*(static_assert|using|typedef)\b", text) and \
        not re.search(r"\(\s*\*\s*\w*\s*\)\s*\(", before)


def count(body, counted):
    for text in declarations(body):
        text = re.sub(r"\b(public|private|protected)\s*:", " ", text).strip()
        if not text:
            continue
        if is_method(text):
            special = rf"(^|[\s~]){counted.name.rsplit('::', 1)[-1]}\s*\(|\boperator=\s*\("
            if not re.search(special, text):
                counted.methods += 1
        elif re.match(r"friend\b", text):
            counted.methods += 1
        elif re.match(r"(class|struct|union|enum)\b[^{]*\{\}$", text) or \
                re.match(r"(template\s*<.*>\s*)?(using|typedef|static_assert|enum|class|struct)\b",
                         text, re.S) and "{}" not in text.rstrip("{}") and \
                not re.match(r"struct\s+\w+\s+\w+", text):
            continue
        elif not re.match(r"(static|inline static|static constexpr|constexpr static)\b", text):
            counted.members += len(re.findall(r",", without_templates(
                re.sub(r"\{\}|=[^,]*", "", text)))) + 1
