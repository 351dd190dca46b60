# SPDX-License-Identifier: BSD-3-Clause
"""Reads the options of weft's programs out of their --help, the one source of the manual pages.

The text is CLI11's: sections "Positionals:", "Options:", "Subcommands:"; names and type in the
first 30 columns, the description behind them or, if they are longer, on the next line.
"""
import dataclasses
import pathlib
import re
import subprocess

COLUMN = 30
SECTION = re.compile(r"^(Positionals|Options|Subcommands|\[Option Group: .*\]):?$")
DEFAULT = re.compile(r"=(.*?)(?= \.\.\.| x \d| REQUIRED| \(Env:| Excludes:| Needs:|$)")
RANGE = re.compile(r":(?:UINT|INT|FLOAT|TEXT) in \[(\S+) - (\S+?)\]")
CHOICE = re.compile(r":\{([^}]*)\}")

# Options that do nothing unless they are given: their default is none.
NOTHING_UNLESS_GIVEN = {
    "ARGS", "LIB", "PROGRAM", "host", "PID", "scenario", "--control", "--degraded", "--dump",
    "--end", "--end-device", "--events", "--faults", "--flows", "--kill", "--late", "--out",
    "--out_json_file", "--pcap", "--plot", "--prometheus", "--report-to-json-file", "--seeds",
    "--set", "--stats", "--topology", "--trace",
}


@dataclasses.dataclass
class Option:
    """One row of a help text: an option, a flag or a positional."""
    names: list
    kind: str = ""         # TEXT, UINT, INT, FLOAT; empty: a flag
    default: str = ""      # as the program prints it
    constraint: str = ""   # a range or a choice
    text: str = ""
    required: bool = False
    many: bool = False

    @property
    def says_default(self):
        """Whether a reader learns what happens if the option is not given."""
        return bool(self.default or self.required or not self.kind
                    or NOTHING_UNLESS_GIVEN.intersection(self.names)
                    or re.search(r"\bdefault\b", self.text, re.I))


@dataclasses.dataclass
class Command:
    """A program or one of its subcommands."""
    name: str              # "weft_sim run"
    summary: str = ""
    usage: str = ""
    positionals: list = dataclasses.field(default_factory=list)
    options: list = dataclasses.field(default_factory=list)
    subcommands: list = dataclasses.field(default_factory=list)


def rows(lines):
    """Yields (left column, description) of the indented lines of one section."""
    lines = [line for line in lines if line.strip()]
    at = 0
    while at < len(lines):
        line = lines[at]
        follows = at + 1 < len(lines) and lines[at + 1].startswith(" " * COLUMN)
        if len(line) > COLUMN and line[COLUMN - 1] == " " and not follows:
            left, text = line[:COLUMN], line[COLUMN:]
        else:
            left, text = line, ""
        at += 1
        while at < len(lines) and lines[at].startswith(" " * COLUMN):
            text += " " + lines[at]
            at += 1
        yield left.strip(), " ".join(text.split())


def option_of(left, text, positional):
    """An Option from the left column of a help text, say `-c,--count UINT:INT in [1 - 9]=4`."""
    names, _, rest = left.partition(" ")
    names = re.sub(r"\{[^}]*\}", "", names)  # a flag that is true unless given
    option = Option([names] if positional else names.split(","), text=text)
    option.required = "REQUIRED" in rest
    option.many = "..." in rest or bool(re.search(r" x \d+", rest))
    limits, choice = RANGE.search(rest), CHOICE.search(rest)
    if limits:
        option.constraint = f"{limits.group(1)} to {limits.group(2)}"
    elif choice:
        option.constraint = choice.group(1).replace(",", ", ")
    bare = CHOICE.sub("", RANGE.sub("", rest))
    default = DEFAULT.search(bare)
    if default:
        option.default = default.group(1).strip("[]") or "none"
    kind = re.match(r"[A-Z]+\b", bare)
    if kind and kind.group(0) not in ("REQUIRED",):
        option.kind = kind.group(0)
    return option


def help_of(program, words):
    """What PROGRAM WORDS... --help prints."""
    run = subprocess.run([str(program), *words, "--help"], capture_output=True, text=True,
                         timeout=20, stdin=subprocess.DEVNULL)
    if run.returncode != 0:
        raise ValueError(f"{program.name} {' '.join(words)} --help: exit code {run.returncode}")
    return run.stdout


def parse(name, text):
    """The Command that a help text describes."""
    command = Command(name)
    head, sections, current = [], {}, None
    for line in text.splitlines():
        mark = SECTION.match(line.strip()) if not line.startswith("  ") else None
        if mark:
            title = mark.group(1)
            current = sections.setdefault("Options" if title.startswith("[") else title, [])
        elif current is not None and (line.startswith(" ") or not line):
            current.append(line)
        elif line.startswith("Usage:"):
            command.usage = re.sub(r"^Usage: \S+", name.split()[0], line)
        elif line.strip():
            head.append(line.strip())
    command.summary = re.sub(rf"^{re.escape(name.split()[0])}: ", "", " ".join(head))
    for section, positional, into in (("Positionals", True, command.positionals),
                                      ("Options", False, command.options)):
        into += [option_of(left, said, positional)
                 for left, said in rows(sections.get(section, []))]
    command.subcommands = list(rows(sections.get("Subcommands", [])))
    return command


def read(program, words=()):
    """The Command of a program, then those of its subcommands, as a list."""
    program = pathlib.Path(program)
    command = parse(" ".join([program.name, *words]), help_of(program, words))
    found = [command]
    for name, _ in command.subcommands:
        found += read(program, (*words, name))
    return found


def listed(build, installed=False):
    """The programs of a build folder, by the list that CMake wrote; all, or those installed."""
    build = pathlib.Path(build)
    names = (build / "programs.txt").read_text().split()
    return [build / "bin" / name for name in sorted(names)
            if name.startswith(("weft_", "weft-")) or not installed]
