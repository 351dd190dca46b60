#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Renders README, docs/ and the pages beside the code as a static site, with the manual pages of
the programs of a build folder: site.py OUT BUILD. Doxygen's reference is in OUT/api already.

Every page of docs/ must have a place in SECTIONS. Links between pages are kept; those to files that
are not rendered are shown as plain paths. Needs Debian's python3-markdown.
"""
import html
import os
import pathlib
import re
import sys

import markdown

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import man  # noqa: E402
import programs  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECTIONS = (
    ("Start", ("README.md", "docs/README.md", "docs/choosing.md", "docs/tutorial.md", "docs/c.md",
               "docs/python.md", "docs/from-libibverbs.md", "docs/packages.md",
               "docs/support-matrix.md", "docs/versions.md", "CHANGELOG.md")),
    ("Use", ("docs/drop-in.md", "docs/libfabric.md", "docs/nccl.md", "docs/nccl-compat.md",
             "docs/providers.md", "docs/device-strings.md", "docs/programs.md", "docs/srd.md",
             "docs/collectives.md", "docs/congestion-control.md", "docs/simulator.md",
             "docs/simulator-python.md",
             "docs/packet-scripts.md", "docs/test-your-roce.md", "docs/wire-habits.md",
             "docs/hardware.md",
             "docs/observability.md", "docs/performance.md", "docs/troubleshooting.md")),
    ("Guarantees", ("docs/failure-model.md", "docs/security.md", "SECURITY.md", "docs/design.md")),
    ("Change weft", ("docs/internals/*.md", "docs/extending/*.md", "docs/glossary.md")),
    ("History", ("docs/history/*.md",)),
    ("Beside the code", ("lib/*/*.md", "lib/*/*/README.md", "providers/**/*.md",
                         "tests/**/README.md", "bench/**/README.md", "scenarios/**/README.md",
                         "tools/**/README.md")),
)
STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --link: #06c; }
@media (prefers-color-scheme: dark) { :root { --link: #7bf; } }
body { margin: 0; display: grid; grid-template-columns: 17rem minmax(0, 52rem); gap: 2.5rem;
       font: 16px/1.55 system-ui, sans-serif; }
nav { border-right: 1px solid var(--line); padding: 1.2rem; min-height: 100vh; font-size: 14px; }
nav h2 { font-size: 12px; text-transform: uppercase; margin: 1.1rem 0 .2rem; opacity: .7; }
nav a { display: block; padding: .1rem 0; text-decoration: none; }
nav a.here { font-weight: 700; }
main { padding: 1.2rem 1.2rem 4rem 0; }
a { color: var(--link); }
table { border-collapse: collapse; display: block; overflow-x: auto; margin: 1rem 0; }
th, td { border: 1px solid var(--line); padding: .3rem .6rem; text-align: left;
         vertical-align: top; }
pre, code { font: 14px/1.45 ui-monospace, monospace; background: var(--soft); border-radius: 4px; }
code { padding: .1em .25em; }
pre { padding: .8rem; overflow-x: auto; }
pre code { padding: 0; background: none; }
@media (max-width: 60rem) { body { display: block; }
  nav { min-height: 0; border: 0; border-bottom: 1px solid var(--line); }
  main { padding: 1.2rem; } }
"""


def expand(pattern):
    found = [path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern)]
    return sorted(found, key=lambda name: (not name.endswith("README.md"), name))


def sections():
    """(title, page names) for each section; a page is in the first that names it."""
    placed, result = set(), []
    for title, patterns in SECTIONS:
        names = [name for pattern in patterns for name in expand(pattern) if name not in placed]
        names = list(dict.fromkeys(names))
        placed |= set(names)
        result.append((title, names))
    return result


def unplaced():
    """Pages of docs/ that no section has."""
    placed = {name for _, names in sections() for name in names}
    return sorted(set(expand("docs/**/*.md")) - placed)


def title_of(name):
    match = re.search(r"^# (.*)$", (ROOT / name).read_text(), re.M)
    return match.group(1).replace("`", "") if match else name


def target_of(name):
    return "index.html" if name == "README.md" else re.sub(r"\.md$", ".html", name)


def relative(target, page):
    return os.path.relpath(target, os.path.dirname(page) or ".")


def navigation(page, all_sections, titles):
    lines = [f'<a href="{relative("index.html", page)}"><b>weft</b></a>']
    for title, names in all_sections:
        lines.append(f"<h2>{html.escape(title)}</h2>")
        for name in names:
            here = ' class="here"' if target_of(name) == page else ""
            lines.append(f'<a{here} href="{relative(target_of(name), page)}">'
                         f"{html.escape(titles[name])}</a>")
        if title == "Use":
            for target, label in (("man/index.html", "Manual pages"),
                                  ("api/index.html", "API reference")):
                lines.append(f'<a href="{relative(target, page)}">{label}</a>')
    return "\n".join(lines)


def relink(body, name, titles):
    """Links to rendered pages go to their HTML; links to other files of the tree lose the link."""
    page = target_of(name)

    def replace(match):
        target, anchor, text = match.group(1), match.group(2) or "", match.group(3)
        if "://" in target or not target:
            return match.group(0)
        path = os.path.normpath(os.path.join(os.path.dirname(name), target))
        if os.path.isdir(ROOT / path) and f"{path}/README.md" in titles:
            path += "/README.md"
        if path in titles:
            return f'<a href="{relative(target_of(path), page)}{anchor}">{text}</a>'
        header = re.fullmatch(r"include/(weft/\w+)\.hpp", path)
        if header:
            file = header.group(1).split("/")[1].replace("_", "__") + "_8hpp.html"
            return f'<a href="{relative("api/" + file, page)}">{text}</a>'
        return text if path in text else f"{text} (<code>{html.escape(path)}</code>)"

    return re.sub(r'<a href="([^"#]*)(#[^"]*)?">(.*?)</a>', replace, body, flags=re.S)


def document(title, nav, body):
    return (f'<!doctype html>\n<html lang="en-GB"><head><meta charset="utf-8">\n<meta '
            f'name="viewport" content="width=device-width"><title>{html.escape(title)}</title>\n'
            f"<style>{STYLE}</style></head>\n<body><nav>{nav}</nav>\n<main>{body}</main></body>"
            f"</html>\n")


def render(text):
    return markdown.markdown(text, extensions=["tables", "fenced_code", "toc", "sane_lists"])


def write(out, build):
    """Writes the site into the folder and returns how many pages it has."""
    out, all_sections = pathlib.Path(out), sections()
    titles = {name: title_of(name) for _, names in all_sections for name in names}
    pages = {}
    for name in titles:
        text = re.sub(r"<!-- .*? -->\n", "", (ROOT / name).read_text())
        pages[target_of(name)] = titles[name], relink(render(text), name, titles)
    for picture in ROOT.glob("docs/**/*.svg"):
        copy = out / picture.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(picture.read_bytes())
    index = []
    for program in programs.listed(build):
        commands = programs.read(program)
        pages[f"man/{program.name}.html"] = program.name, render(man.markdown(commands))
        index.append(f"| [{program.name}]({program.name}.html) | {commands[0].summary} |")
    table = "\n".join(["# Manual pages", "", "| program | what it does |", "| --- | --- |", *index])
    pages["man/index.html"] = "Manual pages", render(table)
    for page, (title, body) in pages.items():
        (out / page).parent.mkdir(parents=True, exist_ok=True)
        (out / page).write_text(document(title, navigation(page, all_sections, titles), body))
    return len(pages)


def broken_links(out):
    """Links of the site's own pages that lead nowhere."""
    out, found = pathlib.Path(out), []
    for path in sorted(out.rglob("*.html")):
        if path.relative_to(out).parts[0] == "api":
            continue
        for link in re.findall(r'(?:href|src)="([^"#]+)', path.read_text()):
            if "://" not in link and not (path.parent / link).exists():
                found.append(f"{path.relative_to(out)}: {link}")
    return found


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: site.py OUT BUILD")
    if unplaced():
        sys.exit(f"site: no section for {', '.join(unplaced())}")
    print(f"site: {write(sys.argv[1], sys.argv[2])} pages in {sys.argv[1]}")
    if broken_links(sys.argv[1]):
        sys.exit("site: links to nothing: " + ", ".join(broken_links(sys.argv[1])))
