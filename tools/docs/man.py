#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes a manual page of every program from its --help: man.py [--installed] BUILD OUT."""
import gzip
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import programs  # noqa: E402

SEE_ALSO = "The pages of docs/ in weft's tree, or share/doc/weft where it is installed."
ENVIRONMENT = (("WEFT_DEVICE", "The device string of a program that was given none; without it "
                "roce+udp:lo."),
               ("WEFT_MODULE_PATH", "Folders with modules (port_NAME.so, provider_NAME.so), "
                "separated by colons, that are searched before weft/modules beside libweft.so. "
                "Ignored in a process with more rights than its caller."),
               ("WEFT_STAT", "0: the process offers no socket to weft_stat."),
               ("WEFT_LOG", "Lines on stderr: LEVEL[,SUBSYSTEM=LEVEL]...[,json], as "
                "info,roce=debug. Levels: debug, info, warning (the default), error, off."))


def roff(text):
    """Text as roff takes it literally."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti")
    return re.sub(r"^([.'])", r"\\&\1", text)


def sentence(text):
    return text if not text or text.endswith((".", "!", "?")) else text + "."


def description(option):
    """The text of an option, what it may be and what it is if not given."""
    said = [sentence(option.text)]
    if option.constraint:
        said.append(f"Allowed: {option.constraint}.")
    if option.required:
        said.append("Required.")
    elif option.default or programs.NOTHING_UNLESS_GIVEN.intersection(option.names):
        said.append(f"Default: {option.default or 'none'}.")
    return " ".join(part for part in said if part)


def option_rows(options):
    """The .TP entries of options."""
    lines = []
    for option in options:
        value = f" \\fI{option.kind}\\fR" if option.kind else ""
        value += " ..." if option.many else ""
        names = ", ".join(f"\\fB{roff(name)}\\fR" for name in option.names)
        lines += [".TP", names + value, roff(description(option))]
    return lines


def synopsis(command, program):
    """The words behind the program's name."""
    if command is program:
        return command.usage.partition(" ")[2]
    arguments = [name if option.required else f"[{name}]" for option in command.positionals
                 for name in option.names]
    return " ".join([*command.name.split()[1:], "[OPTIONS]", *arguments])


def markdown(commands):
    """The page of a program for the site."""
    program = commands[0]
    lines = [f"# {program.name}", "", sentence(program.summary), ""]
    lines += [f"    {program.name} {synopsis(command, program)}" for command in commands]
    for command in commands:
        if command is not program:
            lines += ["", f"## {command.name}", "", sentence(command.summary)]
        lines += ["", "| option | meaning |", "| --- | --- |"]
        for option in command.positionals + command.options:
            names = ", ".join(f"`{name}`" for name in option.names)
            text = description(option).replace("|", "\\|").replace("<", "&lt;")
            lines.append(f"| {names} {option.kind}{' ...' if option.many else ''} | {text} |")
    return "\n".join(lines)


def page(commands, version):
    """The manual page of a program: its first Command is the program, the others subcommands."""
    program = commands[0]
    lines = [f'.TH {program.name.upper()} 1 "" "weft {version}" "weft"', ".SH NAME",
             f"{roff(program.name)} \\- {roff(program.summary.split('. ')[0].rstrip('.'))}",
             ".SH SYNOPSIS"]
    for command in commands:
        lines += [f".B {roff(program.name)}", roff(synopsis(command, program)), ".br"]
    lines += [".SH DESCRIPTION", roff(sentence(program.summary[:1].upper() + program.summary[1:]))]
    for command in commands:
        title = "OPTIONS" if command is program else command.name.split()[-1].upper()
        lines.append(f".SH {roff(title)}")
        if command is not program:
            lines += [roff(sentence(command.summary)), ".PP"]
        lines += option_rows(command.positionals + command.options)
    lines.append(".SH ENVIRONMENT")
    for name, text in ENVIRONMENT:
        lines += [".TP", f".B {name}", roff(text)]
    return "\n".join([*lines, ".SH SEE ALSO", roff(SEE_ALSO), ""])


def version_of(root):
    return re.search(r"project\(weft VERSION (\S+)", (root / "CMakeLists.txt").read_text()).group(1)


def write(build, out, installed=False):
    """Writes OUT/man1/NAME.1 of each program of BUILD, or NAME.1.gz of those installed; returns
    the names."""
    folder = pathlib.Path(out) / "man1"
    folder.mkdir(parents=True, exist_ok=True)
    version = version_of(pathlib.Path(__file__).resolve().parents[2])
    names = []
    for program in programs.listed(build, installed):
        text = page(programs.read(program), version).encode()
        partial = folder / f".{program.name}.{os.getpid()}"
        partial.write_bytes(gzip.compress(text, mtime=0) if installed else text)
        # Two installations may run at a time.
        partial.replace(folder / f"{program.name}.1{'.gz' if installed else ''}")
        names.append(program.name)
    return names


if __name__ == "__main__":
    INSTALLED = sys.argv[1:2] == ["--installed"]
    FOLDERS = sys.argv[1 + INSTALLED:]
    if len(FOLDERS) != 2:
        sys.exit("usage: man.py [--installed] BUILD OUT")
    print(f"man: {len(write(*FOLDERS, INSTALLED))} pages in {FOLDERS[1]}/man1")
