# SPDX-License-Identifier: BSD-3-Clause
"""Words and references that a reader cannot resolve: private words that docs/glossary.md lists as
not used, and files that a comment names and the tree does not have."""
import re

GLOSSARY = "docs/glossary.md"
HEADING = "## Words that are not used"
# Files that exist outside the tree, or only after a build or a run.
FOREIGN_FILES = re.compile(r"^(/|https?:|build/|sys/|net/|linux/|infiniband/|rdma/|include/uapi/"
                           r"|usr/)")
REFERENCE = re.compile(
    r"(?<![\w/.<\"-])((?:[\w-]+/)*[\w-]+\.(?:cpp|hpp|py|md|cmake|pml|lua|sh|toml))(?![\w/])")
# Counters and Wireshark fields that users filter by keep their names.
PUBLIC_NAMES = re.compile(r'"(cm_)?strangers?"|"srd\.(flags\.)?wish"')
PLACEHOLDER = re.compile(r"NAME|FOLDER|FILE|KIND|[*{}$]|(^|/)[A-Z]\.")


def private_words(glossary):
    """The words of the last table of the glossary, as one pattern each."""
    if HEADING not in glossary:
        return []
    table = glossary.split(HEADING, 1)[1]
    words = re.findall(r"^\| ([a-z][a-z_ -]*) \|", table, re.M)
    return [(word, re.compile(r"(?<![a-z])" + re.escape(word).replace(r"\ ", r"[\s_]+")
                              + r"s?(?![a-z])", re.I)) for word in words if word != "word"]


def find_private_words(text, words):
    """Yields (line, word) of each private word in the text."""
    text = PUBLIC_NAMES.sub('""', text)
    for word, pattern in words:
        for match in pattern.finditer(text):
            yield text.count("\n", 0, match.start()) + 1, word


def find_dangling(text, name, known):
    """Yields (line, reference) of each file that a comment names and that is not among `known`,
    the paths of the tree and every end of them."""
    folder = name.rsplit("/", 1)[0] + "/" if "/" in name else ""
    for number, line in enumerate(text.split("\n"), 1):
        comment = re.search(r"(//|#|^ *\*|\"\"\")(.*)", line)
        if not comment or re.match(r"\s*#\s*include", line):
            continue
        for match in REFERENCE.finditer(comment.group(2)):
            reference = match.group(1)
            if FOREIGN_FILES.match(reference) or PLACEHOLDER.search(reference):
                continue
            if reference not in known and folder + reference not in known:
                yield number, reference
