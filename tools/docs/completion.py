#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes completions of each installed program from its --help, for bash, zsh and fish, into
folders of OUT with these names: completion.py BUILD OUT. They offer subcommands, options, and the
values of an option that is one of a few words.
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


def word_of(command, commands):
    return "" if command is commands[0] else command.name.split()[-1]


def quoted(text):
    """A word in single quotes, where zsh and fish have no escape in common: others stand for quotes
    and backslashes."""
    return "'" + text.replace("'", "’").replace("\\", "/") + "'"


def zsh(commands):
    """The completion of a program for zsh."""
    program, names = commands[0], [word_of(each, commands) for each in commands[1:]]
    lines = [f"#compdef {program.name}\n# SPDX-License-Identifier: BSD-3-Clause\n"
             f"# zsh completion of {program.name}, written from its --help.\n"
             "local command= each\nfor each in $words[2,CURRENT-1]; do\n"
             f"  case $each in {' | '.join(names) or '-'}) command=$each && break ;; esac\ndone\n"
             "case $command in\n"]
    for command in commands:
        lines.append(f"  '{word_of(command, commands)}') _arguments -s \\\n")
        for option in command.options:
            text = option.text.translate(str.maketrans("[]:", "(),"))
            value = ""
            if option.kind or option.constraint:
                value = f":{option.kind or 'value'}:" + (
                    f"({' '.join(choices(option))})" if choices(option)[0:1] > [""] else "_files")
            for name in option.names:
                lines.append(f"    {quoted(f'{name}[{text}]{value}')} \\\n")
        offered = f"*:command:({' '.join(names)})"
        lines.append(f"    '{offered if names and command is program else '*:: :_files'}' ;;\n")
    return "".join(lines) + "esac\n"


def fish(commands):
    """The completion of a program for fish."""
    program, names = commands[0], [word_of(each, commands) for each in commands[1:]]
    lines = [f"# SPDX-License-Identifier: BSD-3-Clause\n# fish completion of {program.name}, "
             "written from its --help.\n"]
    for name in names:
        lines.append(f"complete -c {program.name} -n __fish_use_subcommand -f -a {name}\n")
    for command in commands:
        when = f" -n '__fish_seen_subcommand_from {word_of(command, commands)}'"
        when = "" if command is program else when
        for option in command.options:
            flags = "".join(f" -{'l' if name.startswith('--') else 's'} {name.lstrip('-')}"
                            for name in option.names if name.startswith("--") or len(name) == 2)
            words = " ".join(choices(option)).strip()
            value = f" -x -a {quoted(words)}" if words else " -r" if option.kind else ""
            lines.append(f"complete -c {program.name}{when}{flags}{value} "
                         f"-d {quoted(option.text)}\n")
    return "".join(lines)


# The name of a program's file, by the shell and what writes its text.
SHELLS = {"bash": (script, "{}"), "zsh": (zsh, "_{}"), "fish": (fish, "{}.fish")}


def write(build, out):
    """Writes the files of each installed program of BUILD; returns the programs' names."""
    read = [programs.read(program) for program in programs.listed(build, installed=True)]
    for shell, (text_of, file) in SHELLS.items():
        folder = pathlib.Path(out, shell)
        folder.mkdir(parents=True, exist_ok=True)
        for commands in read:
            (folder / file.format(commands[0].name)).write_text(text_of(commands), encoding="utf-8")
    return [commands[0].name for commands in read]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: completion.py BUILD OUT")
    print(f"completion: {len(write(*sys.argv[1:]))} programs in {sys.argv[2]}")
