#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes a bash completion of each installed program from its --help: completion.py BUILD OUT.
It offers subcommands, options, and the values of an option that is one of a few words.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import programs  # noqa: E402

HEAD = """# SPDX-License-Identifier: BSD-3-Clause
# bash completion of {program}, written from its --help.
{function}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}
  local command= offered= each
  for each in "${{COMP_WORDS[@]:1:COMP_CWORD - 1}}"; do
    case $each in {subcommands}) command=$each && break ;; esac
  done
  case "$command $before" in
"""
MIDDLE = """    *)
      case $command in
"""
TAIL = """      esac
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$offered" -- "$word")
}}
complete -o default -F {function} {program}
"""


def choices(option):
    """The words that an option may have as its value; none: another kind of value."""
    return [] if " to " in option.constraint else option.constraint.split(", ")


def script(commands):
    """The completion of a program: its first Command is the program, the others subcommands."""
    program = commands[0]
    names = [command.name.split()[-1] for command in commands[1:]]
    how = {"program": program.name, "function": "_" + program.name.replace("-", "_"),
           "subcommands": " | ".join(names) or "''"}
    lines = [HEAD.format(**how)]
    for command in commands:
        word = "" if command is program else command.name.split()[-1]
        for option in command.options:
            if words := " ".join(choices(option)).strip():
                wanted = " | ".join(f'"{word} {name}"' for name in option.names)
                lines.append(f'    {wanted}) offered="{words}" ;;\n')
    lines.append(MIDDLE)
    for command in commands:
        word = "''" if command is program else command.name.split()[-1]
        offered = [name for option in command.options for name in option.names]
        offered += names if command is program else []
        lines.append(f'        {word}) offered="{" ".join(offered)}" ;;\n')
    return "".join(lines) + TAIL.format(**how)


def write(build, out):
    """Writes OUT/NAME for each installed program of BUILD; returns the names."""
    folder = pathlib.Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for program in programs.listed(build, installed=True):
        (folder / program.name).write_text(script(programs.read(program)))
        names.append(program.name)
    return names


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: completion.py BUILD OUT")
    print(f"completion: {len(write(*sys.argv[1:]))} programs in {sys.argv[2]}")
