#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Names in documents against the tree: a `code_identifier` occurs in some source file, and no
document uses a word that the glossary replaces.

foreign_names.txt has names of other projects. docs/history is an archive and is not looked at.
"""
import functools
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = (".cpp", ".hpp", ".h", ".py", ".cmake", ".lua", ".pml", ".toml", ".script", ".sh", ".txt",
           ".in", ".map", ".json")
SPAN = re.compile(r"`([^`\n]+)`")
NAME = re.compile(r"~?[A-Za-z_]\w*(?:(?:::|\.)\w+)*(?:\(\))?")
CPP_LIKE = re.compile(r"_|::|[a-z][A-Z]")


@functools.lru_cache(maxsize=None)
def tracked():
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"],
                            cwd=ROOT, capture_output=True, text=True, check=False).stdout
    names = listed.split("\n") if listed else [
        path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if "build" not in path.parts]
    return [name for name in names if (ROOT / name).is_file()]


def documents():
    return [name for name in tracked()
            if name.endswith(".md") and not (name.startswith("docs/history/"))]


def sources():
    return [name for name in tracked() if not name.startswith("docs/")
            and (name.endswith(SOURCES) or name in ("dev", ".ci/run"))]


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8", errors="replace")


@functools.lru_cache(maxsize=None)
def words():
    found = set()
    for name in tracked():
        found.update(re.findall(r"\w+", name))
    for name in sources():
        if name != "tests/docs/foreign_names.txt":
            found.update(re.findall(r"\w+", text_of(name)))
    return found


def foreign():
    lines = (ROOT / "tests/docs/foreign_names.txt").read_text().splitlines()
    return re.compile("|".join(f"(?:{line})" for line in lines if line and line[0] != "#"))


def unknown_names(text, known, ours):
    """(line, name) of spans that look like C++ and of which a part is in no source."""
    for number, line in enumerate(text.splitlines(), 1):
        for span in SPAN.findall(line):
            if not NAME.fullmatch(span) or not CPP_LIKE.search(span) or span.endswith("_"):
                continue
            for word in re.findall(r"\w+", span):
                if word not in known and not ours.fullmatch(word):
                    yield number, span


def private_words():
    table = text_of("docs/glossary.md").partition("## Words that are not used")[2]
    return re.findall(r"^\| ([a-z_ ]+?) \| (?!say|---)", table, re.M)


class Names(unittest.TestCase):
    def test_names_in_documents_are_in_the_tree(self):
        found = [f"{name}:{number}: `{span}`" for name in documents()
                 for number, span in unknown_names(text_of(name), words(), foreign())]
        self.assertEqual(found, [], "no source has this name; foreign ones: foreign_names.txt")

    def test_documents_use_the_words_of_the_glossary(self):
        private = private_words()
        self.assertGreater(len(private), 8)
        pattern = re.compile(rf"\b({'|'.join(private)})\b")
        found = []
        for name in documents():
            if name in ("docs/glossary.md", "docs/history/renamed.md"):
                continue
            for number, line in enumerate(text_of(name).splitlines(), 1):
                match = pattern.search(SPAN.sub("", line))
                if match and not line.startswith("    "):
                    found.append(f"{name}:{number}: {match.group(1)}")
        self.assertEqual(found, [], "docs/glossary.md says what to write instead")

    def test_an_unknown_name_is_found(self):
        text = "`RoceQp` and `post_send`, `a b`, `weft::nowhere_at_all()`"
        found = [span for _, span in unknown_names(text, {"post_send", "weft"}, re.compile("x"))]
        self.assertEqual(found, ["RoceQp", "weft::nowhere_at_all()"])


if __name__ == "__main__":
    unittest.main()
