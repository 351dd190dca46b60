# SPDX-License-Identifier: BSD-3-Clause
"""The simulator of weft in Python: networks, flows, controllers of your own, NumPy arrays.

    scenario = sim.scenario(sim.network("star", hosts=17),
                            sim.flows("incast", senders=16, receiver=0, bytes=500_000))
    result = sim.run(scenario, "hpcc")
    print(result.flows["fct_ns"].max(), result.digest)
    sim.plot({"hpcc": result}, "queue.svg")

docs/simulator-python.md is the tutorial. The same scenario, seed and controller give the same
digest on every machine. A run takes the time of `weft_sim`; a controller in Python adds some
microseconds for each acknowledgement.
"""
import json

import numpy

from weft._library import Error, check, created, ffi, lib, structure
from weft._plot import lines

__all__ = ["Controller", "Error", "Flow", "Result", "Table", "flows", "network", "plot", "run",
           "scenario"]
NEVER = 2**63 - 1
NO_WINDOW = 2**64 - 1


class Flow:
    """One flow, as a controller sees it. A controller may keep what it likes as further attributes;
    each flow has its own."""

    def __init__(self, event):
        self.number = event.flow           # row of Result.flows, in the order of starts
        self.line_rate = event.line_rate_bps
        self.base_rtt_ns = event.base_rtt_ns
        self.rate = self.line_rate         # bits per second; clamped to [1 Mb/s, line_rate]
        self.window = None                 # payload bytes in flight; None: no window
        self.deadline_ns = None            # when on_timer() is wanted; None: never


class Controller:
    """A congestion controller: override the events that it needs, and change flow.rate,
    flow.window and flow.deadline_ns there. `ack` has now_ns, rtt_ns, acked, sent, newly_acked,
    packet_bytes, marked and, with signal "telemetry", hops[0] to hops[hop_count - 1] (weft/sim.h).
    """
    signal = "delay"  # what packets carry: "none", "ecn", "delay" or "telemetry"
    windowed = False  # flows have a window of a BDP, in proportion to their rate

    def on_start(self, flow):
        """The flow may send its first packet."""

    def on_ack(self, flow, ack):
        """An acknowledgement came."""

    def on_cnp(self, flow, event):
        """A congestion notification came: event.now_ns."""

    def on_loss(self, flow, loss):
        """A packet was lost: loss.now_ns, acked, sent."""

    def on_timer(self, flow, event):
        """flow.deadline_ns has passed."""


class Table(dict):
    """Columns by name, NumPy arrays of one length. A unit is the end of a name."""

    def frame(self):
        """A pandas.DataFrame of the same columns; needs pandas."""
        import pandas
        return pandas.DataFrame(dict(self))


class Result:
    """What came out of a run: the tables `flows` (fct_ns is -1 for a flow that did not finish),
    `queue` (the longest queue and the rates of the first eight flows over time) and `ports` (each
    direction of a link); and attributes of the whole run, `digest`, `end_ns`, `pauses`, `dropped`,
    `marked`, `trimmed`, `retransmitted` and more: vars(result)."""

    def __init__(self, handle):
        columns, count = ffi.new("const weft_sim_column **"), ffi.new("size_t *")
        check(lib.weft_sim_columns(handle, columns, count))
        self.flows, self.queue, self.ports = Table(), Table(), Table()
        for column in columns[0][0:count[0]]:
            table, name = ffi.string(column.name).decode().split(".")
            kind = numpy.int64 if column.type == lib.WEFT_SIM_INT64 else numpy.float64
            values = numpy.frombuffer(ffi.buffer(column.values, column.count * 8), kind).copy() \
                if column.count else numpy.empty(0, kind)
            if table == "run":
                setattr(self, name, int(values[0]))
            else:
                getattr(self, table)[name] = values
        # Of every flow's end and every counter: equal runs have equal digests.
        self.digest = f"{self.digest % 2**64:016x}"

    def _repr_svg_(self):
        return plot({"": self})


def network(kind, **fields):
    """A network: "star", "dumbbell", "leaf-spine", "fat-tree", "torus", "csv", "links" and so on,
    with the fields of [network] in scenarios/README.md. Of "links": links=[(node_a, node_b, gbps,
    delay_ns), ...]; a node with one link is a host."""
    return {"kind": kind, **fields}


def flows(kind, **fields):
    """Flows: "incast", "permutation", "all-to-all", "poisson", "csv" or "list", with the fields of
    [[flows]] in scenarios/README.md. Of "list": rows=[(start_ns, source, destination, bytes), ...],
    which may be an array."""
    return {"kind": kind, **fields}


def scenario(network, *flows, events=(), until=None, settings=None):
    """A scenario: a network, one or more kinds of flows, events of links ([[events]]), the end of
    the run ("2ms"; None: when all flows are done), and settings: {"switch.buffer_mb": 2}; `weft_sim
    keys` lists them. The text is that of a scenario file: weft_sim runs it, too."""
    parts = [table("[network]", network)]
    parts += [table("[[flows]]", one) for one in flows]
    parts += [table("[[events]]", one) for one in events]
    if until is not None:
        parts.append(table("[run]", {"until": until}))
    if settings:
        parts.append(table("[set]", settings))
    return "\n".join(parts)


def table(head, fields):
    return f"{head}\n" + "".join(f"{json.dumps(str(name))} = {value_text(value)}\n"
                                 for name, value in fields.items())


def value_text(value):
    """A value of TOML, which writes texts, numbers, true and lists as JSON does."""
    of_numpy = isinstance(value, (numpy.ndarray, numpy.generic))
    return json.dumps(value.tolist() if of_numpy else value)


def run(scenario, controller=None, seed=1, settings=None):
    """Runs a scenario: that of scenario(), a TOML file, or the name of one that comes with weft
    ("incast-16"). `controller`: a name ("hpcc", "dcqcn-nic+win"), the path of a shared object
    ("./mine.so"), or a Controller; None: the scenario's first. `seed`: of random flows, ECMP and
    marking. An exception in a Controller ends the run and is raised here."""
    handle = created(lib.weft_sim_open, lib.weft_sim_close, str(scenario).encode(), seed)
    for key, value in (settings or {}).items():
        check(lib.weft_sim_set(handle, key.encode(), str(value).encode()))
    options = structure("weft_sim_run_options", seed=seed)
    called = isinstance(controller, Controller)
    name = ffi.NULL if controller is None else ffi.new(
        "char[]", (type(controller).__name__ if called else controller).encode())
    options.controller = name
    raised = []
    if called:
        signal = ffi.new("char[]", controller.signal.encode())
        callback = callback_of(controller, raised)
        options.signal, options.windowed = signal, controller.windowed
        options.callback = callback
    try:
        return Result(created(lib.weft_sim_run, lib.weft_sim_result_free, handle, options))
    except Error:
        if raised:
            raise raised[0] from None
        raise


def callback_of(controller, raised):
    """The function that the core calls at each event; what a controller raises goes into `raised`.
    """
    known = {}
    calls = {lib.WEFT_SIM_START: controller.on_start, lib.WEFT_SIM_ACK: controller.on_ack,
             lib.WEFT_SIM_CNP: controller.on_cnp, lib.WEFT_SIM_LOSS: controller.on_loss,
             lib.WEFT_SIM_TIMER: controller.on_timer}

    def call(_, event, decision):
        flow = known.get(event.flow)
        if flow is None:
            flow = known[event.flow] = Flow(event)
        flow.rate = decision.rate_bps
        if event.type == lib.WEFT_SIM_START:
            controller.on_start(flow)
        else:
            if event.type == lib.WEFT_SIM_TIMER:
                flow.deadline_ns = None
            calls[event.type](flow, event)
        decision.rate_bps = flow.rate
        decision.window_bytes = NO_WINDOW if flow.window is None else max(int(flow.window), 1)
        decision.deadline_ns = NEVER if flow.deadline_ns is None else int(flow.deadline_ns)
        return True

    def keep(kind, value, traceback):
        raised.append(value)

    return ffi.callback("weft_sim_callback", call, error=False, onerror=keep)


def plot(results, file=None):
    """Draws the longest queue over time, a line for each result of the dictionary {name: result},
    as SVG; into `file`, if there is one. Returns the text."""
    text = lines({name: (result.queue["time_ns"] / 1e3, result.queue["longest_bytes"] / 1e3)
                  for name, result in results.items()}, "time in us", "longest queue in KB")
    if file is not None:
        with open(file, "w") as out:
            out.write(text)
    return text
