#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Lists what of the public API has no comment, from Doxygen's XML: api.py XML_FOLDER; exit code 1
if there is something. A type, an enumeration, and a function that takes arguments or can fail need
one; overloads share it, and so do declarations that follow each other without an empty line.
Names of constructors, operators, conversions, accessors and fields say enough.
"""
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

# Members of the handles that the library uses; the verbs rooms stand behind them.
INTERNAL = {"impl"}


def text_of(element):
    return "".join(element.itertext()).strip() if element is not None else ""


def documented(element):
    return any(text_of(element.find(part))
               for part in ("briefdescription", "detaileddescription", "inbodydescription"))


def needs_comment(member, owner):
    name, kind = text_of(member.find("name")), member.get("kind")
    if kind == "enum":
        return True
    if kind != "function" or name in INTERNAL or name.startswith(("operator", "~", "from_")):
        return False
    own = owner.rsplit("::", 1)[-1].split("<")[0]
    fails = text_of(member.find("type")).startswith("Result")
    return name != own and (fails or member.find("param") is not None)


def shares_comment(path, line):
    """Whether a comment opens the paragraph of declarations that `line` is in."""
    lines = (pathlib.Path("include") / path).read_text().split("\n")
    line -= 1
    while line > 0 and lines[line].strip() not in ("", "public:", "}"):
        if lines[line].lstrip().startswith("//"):
            return True
        line -= 1
    return False


def missing(folder):
    found = []
    for path in sorted(pathlib.Path(folder).glob("*.xml")):
        for compound in ElementTree.parse(path).getroot().iter("compounddef"):
            if compound.get("kind") not in ("class", "struct", "namespace"):
                continue
            owner = text_of(compound.find("compoundname"))
            if compound.get("kind") != "namespace" and not documented(compound):
                found.append((compound.find("location").get("file"),
                              int(compound.find("location").get("line")), owner))
            members = [member for member in compound.iter("memberdef")
                       if member.get("prot") == "public"]
            said = {text_of(member.find("name")) for member in members if documented(member)}
            for member in members:
                name = text_of(member.find("name"))
                if name not in said and needs_comment(member, owner):
                    location = member.find("location")
                    path, line = location.get("file"), int(location.get("line"))
                    if member.get("kind") == "enum" or not shares_comment(path, line):
                        found.append((path, line, f"{owner}::{name}"))
    return sorted(set(found))


def main(folder):
    found = missing(folder)
    for path, line, name in found:
        print(f"{path}:{line}: {name} has no comment")
    print(f"api: {len(found)} entities without a comment that need one")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
