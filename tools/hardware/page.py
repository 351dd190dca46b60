# SPDX-License-Identifier: BSD-3-Clause
"""report.html of ./dev hardware: one page without scripts or references to other files."""
import html

STYLE = """
:root { color-scheme: light dark; --line: #8884; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: .6rem 0 1.4rem; }
th, td { border: 1px solid var(--line); padding: .25rem .6rem; text-align: left;
         vertical-align: top; }
pre { background: #8882; padding: .6rem; overflow-x: auto; font-size: 13px; }
.passed { color: #0a0; } .failed { color: #d00; font-weight: 600; } .skipped { color: #888; }
"""


def cell(value):
    return html.escape(str(value)).replace("\n", "<br>")


def table(head, rows):
    lines = ["<table>", "<tr>" + "".join(f"<th>{cell(name)}</th>" for name in head) + "</tr>"]
    for row in rows:
        lines.append("<tr>" + "".join(
            f'<td class="{value}">{value}</td>' if value in ("passed", "failed", "skipped")
            else f"<td>{cell(value)}</td>" for value in row) + "</tr>")
    return "\n".join(lines + ["</table>"])


def device_table(devices):
    rows = []
    for device in devices:
        for number, port in device["ports"].items():
            gids = "\n".join(f"{gid['index']}: {gid['gid']} {gid['type']} {gid['netdev']}"
                             for gid in port["gids"])
            rows.append((device["name"], device["driver"], device["fw_ver"], device["hca_type"],
                         number, port["state"], port["rate"], port["link_layer"], gids))
    if not rows:
        return "<p>This machine has no RDMA device.</p>"
    return table(("device", "driver", "firmware", "type", "port", "state", "rate", "link", "GIDs"),
                 rows)


def step_section(step):
    lines = [f"<h3>{cell(step['title'])}</h3>",
             f"<p><span class=\"{step['verdict']}\">{step['verdict']}</span>: "
             f"{cell(step['summary'])} ({step['seconds']:.1f} s)</p>"]
    wrong = [part for part in step["parts"] if part["verdict"] != "passed"]
    if wrong:
        lines.append(table(("part", "verdict", "what it said"),
                           [(part["name"], part["verdict"], part["why"][:600]) for part in wrong]))
    if step["output"]:
        lines.append(f"<pre>{html.escape(step['output'][-8000:])}</pre>")
    return "\n".join(lines)


def page(report):
    steps = report["steps"]
    found = report["findings"]
    lines = ["<!doctype html><meta charset=utf-8><title>weft: hardware report</title>",
             f"<style>{STYLE}</style>", "<h1>Hardware report</h1>",
             table(("", ""), list(report["about"].items())),
             "<h2>In short</h2>",
             table(("step", "verdict", "summary"),
                   [(step["title"], step["verdict"], step["summary"]) for step in steps]),
             "<h2>Where the device departs from the specification</h2>"]
    if found:
        lines.append(table(("name", "rule", "what", "scripts"),
                           [(each["key"], each["rule"], each["text"], "\n".join(each["scripts"]))
                            for each in found]))
    else:
        scripts = any(step["name"] == "scripts" and step["verdict"] != "skipped" for step in steps)
        lines.append("<p>Nowhere, as far as the packet scripts saw.</p>" if scripts else
                     "<p>Not known: the packet scripts did not run.</p>")
    lines += ["<h2>Devices of this machine</h2>", device_table(report["devices"]), "<h2>Steps</h2>",
              *map(step_section, steps)]
    return "\n".join(lines) + "\n"
