#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""House style as a failing test: sizes, first lines, banned words, references to files that exist,
which room includes which, and no circle of folders.

Prints each violation as file:line: text and exits 1 if there is one. Usage: tidy.py [ROOT]
The scanners of functions (here) and classes (classes.py) are no C++ parsers: they follow braces,
and are right for code that clang-format has laid out.
"""
import collections
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import circles  # noqa: E402
import classes  # noqa: E402
import words  # noqa: E402

MAX_FILE, MAX_FUNCTION, MAX_COLUMNS = 400, 70, 100
# What one class declares: methods with friends, and data members of one that has methods.
MAX_METHODS, MAX_MEMBERS = 40, 30
MAX_FILES_IN_FOLDER, MAX_TESTS_IN_FOLDER = 40, 60
TREES = ("include", "lib", "providers", "bench", "tools", "examples", "tests", "cmake")
ROOT_FILES = ("CMakeLists.txt", "dev", ".ci/run")
# What else lies at the top: a program that leaves a file where it was started is found so.
TOP_FILES = {".clang-format", ".clang-tidy", ".git", ".gitignore", "CHANGELOG.md",
             "CMakePresets.json", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "LICENSE", "README.md",
             "SECURITY.md", "compile_commands.json"}
SPDX = "SPDX-License-Identifier: BSD-3-Clause"

EVERYTHING = "everything"
# What extensions may include: a room whose name begins so and that has no row below. To those of a
# port or provider come the rooms that its port.cmake or provider.cmake sets.
PORT = "transport wire memory base"
EXTENSIONS = {"port_": PORT, "provider_": "verbs memory base", "crypto_": "crypto base",
              "tool_": "base crypto bench_perftest tool_chart"}
EXTRA_ROOMS = re.compile(r"^set\((?:PORT|PROVIDER)_ROOMS ([a-z_ ]+)\)", re.M)
PROTOCOL = "transport base wire memory congestion"

# Room -> the other rooms it may include (order is permission). Every room may include the public
# API and itself. cmake/rooms.cmake has the same permissions for linking.
MAY_INCLUDE = {
    "api": "",
    "base": "",
    "wire": "base",
    "memory": "base",
    "congestion": "base",
    "transport": "base wire memory congestion",
    "roce": PROTOCOL,
    "srd": PROTOCOL,
    "driver": "base memory transport",
    "sim": "base wire congestion transport roce srd",
    "crypto": "base",
    "verbs": "base memory crypto",
    "collective": "base crypto",
    "job": "base sim collective",
    "message": "base",
    "adapters": "base message collective congestion sim",
    "software": "verbs driver transport congestion wire memory base crypto port_middleware "
                "port_secure roce srd",
    "registry": "verbs",
    "port_sim": PORT + " sim",
    "port_secure": PORT + " crypto port_middleware",
    "examples": "sim collective",
    # bench/raw: what lies below the API
    "bench_raw": PORT + " port_udp port_shm port_af_xdp port_dpdk bench_perftest",
    "bench_perftest": "base",
    "bench_cost": "base bench_perftest crypto port_secure",
    "bench_verbs": "base bench_perftest",
    "bench_sim_speed": "base congestion sim bench_perftest",
    "bench_peers": "base bench_perftest",
    "tool_chart": "",  # charts as SVG
    "tool_sim": "base bench_perftest congestion sim collective job tool_chart",
    "tool_coll": "base bench_perftest collective crypto tool_chart",
    "tool_switch": "base bench_perftest wire congestion transport sim port_udp",
    "tool_srd_demo": "base bench_perftest wire congestion transport sim port_udp tool_switch",
    "tool_postmortem": "base bench_perftest wire transport driver",
    "tool_nccl_check": "adapters bench_perftest",
    "tool_script": "base bench_perftest wire transport roce verbs software",
    "bench": "",  # bench/CMakeLists.txt
    "tools": "",
    "cmake": "tests",  # cmake/precompiled: headers that are parsed once
    "tests": EVERYTHING,
}

# A part of a tree, to be copied into this one (docs/extending/port.md).
COPIED = "examples/port/"

# Functions of libraries whose names are not ours to choose.
FOREIGN = {"get_nprocs", "get_nprocs_conf", "get_mempolicy", "get_if", "get_to", "get_ptr"}
GETTER = re.compile(r"(?<![.>:\w])(get_\w+)\s*\(")
VAGUE = re.compile(r"\b\w*(?:Manager|Helper|Utils?)(?![a-z])\w*")
# A test case, by a macro of Catch2 or of the suite, and its title, which may be several literals.
TITLE = re.compile(r'^[A-Z_]+\((?:\s*[\w:]+,)?(?:\s*"(?:[^"\\]|\\.)*")+', re.M)
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')


def room_of(path):
    """The room that a path relative to the root (or an include path) belongs to, or None."""
    parts = path.removeprefix(COPIED).split("/")
    if parts[0] == "weft" or parts[:2] == ["include", "weft"]:
        return "api"
    if parts[0] == "providers" and parts[1] in ("port", "crypto") and len(parts) > 3:
        return f"{parts[1]}_{parts[2]}"
    if parts[0] == "providers" and len(parts) > 2:
        shared = parts[1] in ("software", "registry")
        return parts[1] if shared else "provider_" + parts[1]
    if parts[0] == "lib" and len(parts) > 2:
        return parts[1]
    if parts[0] == "bench" and len(parts) > 2:
        return "bench_" + parts[1]
    if parts[0] == "tools" and len(parts) > 2:
        return "tool_" + parts[1]
    if parts[0] in ("bench", "tools", "examples", "tests", "cmake"):
        return parts[0]
    return None


def blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


CODE_NOISE = re.compile(
    r'R"([^()\\\s]*)\(.*?\)\1"'            # raw string
    r"|//[^\n]*|/\*.*?\*/"                 # comment
    r'|"(?:\\.|[^"\\\n])*"'                # string
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"  # character; not a digit separator
    r"|^[ \t]*#(?:\\\n|[^\n])*",           # preprocessor line with its continuations
    re.S | re.M)
CONTAINER = re.compile(r"(namespace|class|struct|union|enum|extern)\b")


def opens_container(head):
    """True if a brace after `head` opens a namespace or a type."""
    head = re.sub(r"alignas\s*\([^)]*\)|__attribute__\s*\(\(.*?\)\)|\[\[.*?\]\]", " ", head)
    head = re.sub(r"^\s*(template\s*<.*>|inline|constexpr|typedef|static|public:|private:"
                  r"|protected:|requires\s[^{]*?|\s)*", "", head, flags=re.S)
    return bool(CONTAINER.match(head)) and "(" not in head


def functions(text):
    """Yields (first line, last line) of each outermost function in C++ text."""
    code = CODE_NOISE.sub(blank, text)
    stack = []  # per open brace: "container", "data", or the function's first line
    head_start, line = 0, 1
    for at, char in enumerate(code):
        if char == "\n":
            line += 1
        elif char == ";" and not any(isinstance(s, int) for s in stack):
            head_start = at + 1
        elif char == "{":
            stack.append(block_kind(code, head_start, at, line, stack))
            head_start = at + 1
        elif char == "}":
            if stack and isinstance(stack[-1], int):
                yield stack[-1], line
            if stack:
                stack.pop()
            head_start = at + 1


def block_kind(code, head_start, at, line, stack):
    if any(s != "container" for s in stack):
        return "data"  # inside a function or an initializer
    head = code[head_start:at]
    if opens_container(head):
        return "container"
    if "(" not in head or head.rstrip().endswith("="):
        return "data"
    lead = re.match(r"(\s|public:|private:|protected:)*", head).group(0)
    return line - head.count("\n") + lead.count("\n")


class Checker:
    def __init__(self, root):
        self.root = root
        self.found = []
        self.private = []
        self.known = set()

    def say(self, name, line, text):
        self.found.append((name, line, text))

    def run(self):
        glossary = self.root / words.GLOSSARY
        self.private = words.private_words(glossary.read_text() if glossary.is_file() else "")
        self.known = self.known_files()
        for path in self.files():
            name = path.relative_to(self.root).as_posix()
            text = path.read_text(encoding="utf-8", errors="replace")
            self.check_file(name, text)
        self.check_folders()
        for path in self.root.iterdir():
            if path.is_file() and path.name not in TOP_FILES.union(ROOT_FILES):
                self.say(ascii(path.name)[1:-1], 1, "no file of the top level (TOP_FILES)")
        for circle in circles.circles(circles.arrows(self.root, ("lib", "providers"))):
            self.say(circle[0], 1, "folders that include each other: " + ", ".join(circle))
        for page in self.pages():
            self.check_private_words(page.relative_to(self.root).as_posix(), page.read_text())
        return sorted(self.found)

    def pages(self):
        """The documents, but for the archive and the list of private words itself."""
        for page in sorted(self.root.glob("*.md")) + sorted(self.root.glob("docs/**/*.md")) + \
                sorted(self.root.glob("lib/**/*.md")):
            name = page.relative_to(self.root).as_posix()
            if not name.startswith("docs/history/") and name != words.GLOSSARY:
                yield page

    def known_files(self):
        """Every path of the tree, and every end of one."""
        known = set()
        for tree in TREES + ("docs", "scenarios"):
            for path in (self.root / tree).rglob("*"):
                parts = path.relative_to(self.root).parts
                known.update("/".join(parts[at:]) for at in range(len(parts)))
        return known | {path.name for path in self.root.iterdir()}

    def check_folders(self):
        counts = collections.Counter(
            path.parent.relative_to(self.root).as_posix() for path in self.files())
        for folder, count in counts.items():
            most = MAX_TESTS_IN_FOLDER if folder.startswith("tests") else MAX_FILES_IN_FOLDER
            if count > most:
                self.say(folder, 1, f"{count} files in one folder, at most {most}")

    def check_private_words(self, name, text):
        for line, word in words.find_private_words(text, self.private):
            self.say(name, line, f'"{word}": docs/glossary.md has the field\'s word for it')

    def check_classes(self, name, text):
        for found in classes.classes(CODE_NOISE.sub(blank, text)):
            if found.methods > MAX_METHODS:
                self.say(name, found.line, f"{found.name} declares {found.methods} methods, at "
                         f"most {MAX_METHODS}")
            if found.methods and found.members > MAX_MEMBERS:
                self.say(name, found.line, f"{found.name} has {found.members} data members, at "
                         f"most {MAX_MEMBERS}")

    def files(self):
        suffixes = (".cpp", ".hpp", ".h", ".py", ".sh", ".cmake", ".lua", ".pml")
        for tree in TREES:
            for path in sorted((self.root / tree).rglob("*")):
                wanted = path.suffix in suffixes or path.name == "CMakeLists.txt"
                if wanted and path.is_file() and "build" not in path.parts[len(self.root.parts):]:
                    yield path
        for name in ROOT_FILES:
            if (self.root / name).is_file():
                yield self.root / name

    def check_file(self, name, text):
        lines = text.split("\n")
        if lines and lines[-1] == "":
            lines.pop()
        if len(lines) > MAX_FILE:
            self.say(name, len(lines), f"{len(lines)} lines, at most {MAX_FILE}")
        for number, line in enumerate(lines, 1):
            if len(line) > MAX_COLUMNS:
                self.say(name, number, f"{len(line)} columns, at most {MAX_COLUMNS}")
            if "\t" in line or line != line.rstrip():
                self.say(name, number, "tab or trailing space")
        self.check_opening(name, lines)
        self.check_words(name, text, lines)
        if not name.startswith("tests/tidy/"):  # which spells the words
            self.check_private_words(name, text)
            for number, reference in words.find_dangling(text, name, self.known):
                self.say(name, number, f"{reference}: there is no such file")
        if name.endswith((".cpp", ".hpp", ".h")):
            for title in TITLE.finditer(text):
                if ";" in title.group(0):
                    self.say(name, text.count("\n", 0, title.start()) + 1,
                             "a test's title with a ';': CMake takes it for two, and runs neither")
            self.check_includes(name, lines)
            self.check_classes(name, text)
            for first, last in functions(text):
                if last - first + 1 > MAX_FUNCTION:
                    self.say(name, first, f"function of {last - first + 1} lines, at most "
                             f"{MAX_FUNCTION}")
        if name.endswith((".hpp", ".h")) and "#pragma once" not in lines:
            self.say(name, 1, "no #pragma once")

    def check_opening(self, name, lines):
        first = 1 if lines and lines[0].startswith("#!") else 0
        if len(lines) <= first or SPDX not in lines[first]:
            self.say(name, first + 1, "the first line is not the SPDX line")
            return
        opening = lines[first + 1] if len(lines) > first + 1 else ""
        if not re.match(r"(//|--|#(?!include|pragma)|\"\"\"| \*)\s*\S", opening):
            self.say(name, first + 2, "no opening comment that says what the file is and why")

    def check_words(self, name, text, lines):
        if name.startswith("tests/tidy/"):
            return  # this file and its test spell the words
        code = CODE_NOISE.sub(blank, text).split("\n") if name.endswith((".cpp", ".hpp")) else lines
        for number, line in enumerate(lines, 1):
            if UNFINISHED.search(line):
                self.say(name, number, "mark of unfinished work: finish it or file it")
        for number, line in enumerate(code, 1):
            getter = GETTER.search(line)
            if getter and getter.group(1) not in FOREIGN and name.endswith((".cpp", ".hpp")):
                self.say(name, number, f"{getter.group(1)}: a query is named by what it returns")
            vague = VAGUE.search(line)
            if vague:
                self.say(name, number, f"{vague.group(0)}: say what it does")
        if re.search(r"(^|_)(manager|helper|util)s?$", pathlib.PurePath(name).stem):
            self.say(name, 1, "file name: say what it does")

    def check_includes(self, name, lines):
        room = room_of(name)
        if room is None:
            self.say(name, 1, "belongs to no room")
            return
        allowed = self.permission(room, name)
        if allowed is None:
            self.say(name, 1, f"room {room} has no row in MAY_INCLUDE (tests/tidy/tidy.py)")
            return
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if match:
                self.check_include(name, number, room, allowed, match.group(1), match.group(2))

    def permission(self, room, name):
        """The rooms that a file of `room` may include; None if that is nowhere said."""
        if room in MAY_INCLUDE:
            return MAY_INCLUDE[room]
        for prefix, allowed in EXTENSIONS.items():
            if room.startswith(prefix):
                kind = prefix.rstrip("_")
                folder = name[:name.index("/" + room[len(prefix):] + "/")]
                manifest = self.root / folder / room[len(prefix):] / f"{kind}.cmake"
                more = EXTRA_ROOMS.search(manifest.read_text()) if manifest.is_file() else None
                return f"{allowed} {more.group(1)}" if more else allowed
        return None

    def check_include(self, name, number, room, allowed, quote, target):
        if quote == "<":
            if target == "iostream" and name.startswith(("lib/", "providers/", "include/")):
                self.say(name, number, "<iostream> in the library: it is silent but for its log")
            return
        other = room_of(target)
        if other is None:
            # An example is built as a user's program: its own header lies beside it.
            if room != "examples" or not (self.root / name).parent.joinpath(target).is_file():
                self.say(name, number, f'"{target}": write the path from the root')
            return
        if allowed == EVERYTHING or other in ("api", room) or other in allowed.split():
            return
        self.say(name, number, f'room {room} may not include "{target}" (room {other})')


def main():
    here = pathlib.Path(__file__).resolve().parents[2]
    root = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else here
    checker = Checker(root)
    count = sum(1 for _ in checker.files())
    found = checker.run()
    for name, line, text in found:
        print(f"{name}:{line}: {text}")
    print(f"tidy: {count} files, {len(found)} problems")
    return 1 if found or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
