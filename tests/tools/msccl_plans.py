# SPDX-License-Identifier: BSD-3-Clause
"""Plans of MSCCL in XML, as others' planners write them: ring, all pairs, recursive doubling,
two steps through groups. A plan is a list of ranks, each a list of thread blocks; a block is a dict
with `send`, `recv`, `chan` and `steps`; a step is (type, src, dst, count, wait), where src and dst
are ("i", 3) and wait is (block, step) or None.
"""
from xml.sax.saxutils import quoteattr


class Plan:
    def __init__(self, coll, ranks, chunks, inplace=False, scratch=0, name="plan"):
        self.coll, self.chunks, self.inplace, self.name = coll, chunks, inplace, name
        self.scratch = scratch
        self.ranks = [[] for _ in range(ranks)]

    def block(self, rank, send=-1, recv=-1, chan=0):
        self.ranks[rank].append({"send": send, "recv": recv, "chan": chan, "steps": []})
        return len(self.ranks[rank]) - 1

    def step(self, rank, block, kind, src=("i", 0), dst=None, count=1, wait=None):
        steps = self.ranks[rank][block]["steps"]
        steps.append([kind, src, dst or src, count, wait])
        return block, len(steps) - 1

    def sizes(self, rank):
        """Chunks of input and output."""
        n, one = self.chunks, self.chunks // len(self.ranks)
        if self.coll == "broadcast":
            return (n if rank == 0 else 0) if not self.inplace else n, n
        if self.coll == "reduce":
            return n, n if self.inplace or rank == 0 else 0
        if self.coll == "allgather":
            return one, n
        return (n, one) if self.coll == "reduce_scatter" else (n, n)

    def xml(self):
        def attributes(**values):
            return "".join(f" {key}={quoteattr(str(value))}" for key, value in values.items())
        channels = 1 + max(block["chan"] for blocks in self.ranks for block in blocks)
        lines = ["<algo" + attributes(
            name=self.name, proto="Simple", nchannels=channels, nchunksperloop=self.chunks,
            ngpus=len(self.ranks), coll=self.coll, inplace=int(self.inplace),
            outofplace=int(not self.inplace), minBytes=0, maxBytes=0) + ">"]
        for rank, blocks in enumerate(self.ranks):
            inputs, outputs = self.sizes(rank)
            awaited = {step[4] for block in blocks for step in block["steps"]}
            lines.append("  <gpu" + attributes(id=rank, i_chunks=inputs, o_chunks=outputs,
                                               s_chunks=self.scratch) + ">")
            for number, block in enumerate(blocks):
                lines.append("    <tb" + attributes(id=number, send=block["send"],
                                                    recv=block["recv"], chan=block["chan"]) + ">")
                for at, (kind, src, dst, count, wait) in enumerate(block["steps"]):
                    lines.append("      <step" + attributes(
                        s=at, type=kind, srcbuf=src[0], srcoff=src[1], dstbuf=dst[0],
                        dstoff=dst[1], cnt=count, depid=wait[0] if wait else -1,
                        deps=wait[1] if wait else -1,
                        hasdep=int((number, at) in awaited)) + "/>")
                lines.append("    </tb>")
            lines.append("  </gpu>")
        return "\n".join(lines + ["</algo>", ""])


def ring_all_reduce(ranks, channels=1):
    """In place, one block per channel: s, then rrc/rrs fused where MSCCL fuses."""
    plan = Plan("allreduce", ranks, ranks * channels, inplace=True, name="ring")
    for rank in range(ranks):
        for channel in range(channels):
            def chunk(of):
                return "i", of % ranks * channels + channel
            block = plan.block(rank, (rank + 1) % ranks, (rank - 1) % ranks, channel)
            plan.step(rank, block, "s", chunk(rank))
            for hop in range(1, ranks):
                last = hop == ranks - 1
                plan.step(rank, block, "rrcs" if last else "rrs", chunk(rank - hop))
            for hop in range(ranks - 1):
                last = hop == ranks - 2
                plan.step(rank, block, "r" if last else "rcs", chunk(rank - hop))
    return plan


def ring_all_gather(ranks):
    plan = Plan("allgather", ranks, ranks, name="ring")
    for rank in range(ranks):
        own = plan.block(rank)
        plan.step(rank, own, "cpy", ("i", 0), ("o", rank))
        block = plan.block(rank, (rank + 1) % ranks, (rank - 1) % ranks)
        plan.step(rank, block, "s", ("i", 0))
        for hop in range(1, ranks):
            plan.step(rank, block, "r" if hop == ranks - 1 else "rcs", ("o", (rank - hop) % ranks))
    return plan


def all_pairs_all_reduce(ranks):
    """Scratch, waits between blocks, nop, re."""
    plan = Plan("allreduce", ranks, ranks, inplace=True, scratch=ranks, name="pairs")
    for rank in range(ranks):
        others = [other for other in range(ranks) if other != rank]
        received = []
        for other in others:
            block = plan.block(rank, other, other)
            plan.step(rank, block, "s", ("i", other))
            received.append(plan.step(rank, block, "r", ("s", other)))
        adding = plan.block(rank)
        for wait in received[:-1]:
            plan.step(rank, adding, "nop", ("i", -1), ("o", -1), 0, wait)
        for at, other in enumerate(others):
            done = plan.step(rank, adding, "re", ("s", other), ("i", rank), 1,
                             received[-1] if at == 0 else None)
        for block, other in enumerate(others):
            plan.step(rank, block, "s", ("i", rank), wait=done)
            plan.step(rank, block, "r", ("i", other))
    return plan


def doubling_all_reduce(ranks):
    """Whole buffers with a partner at distance 1, 2, 4 .. over scratch."""
    plan = Plan("allreduce", ranks, 1, scratch=ranks.bit_length(), inplace=True, name="doubling")
    for rank in range(ranks):
        adding, wait, distance, level = plan.block(rank), None, 1, 0
        while distance < ranks:
            partner = rank ^ distance
            sending = plan.block(rank, send=partner)
            sent = plan.step(rank, sending, "s", ("i", 0), wait=wait)
            receiving = plan.block(rank, recv=partner)
            got = plan.step(rank, receiving, "r", ("s", level))
            plan.step(rank, adding, "nop", ("i", -1), ("o", -1), 0, sent)
            wait = plan.step(rank, adding, "re", ("s", level), ("i", 0), 1, got)
            distance, level = 2 * distance, level + 1
    return plan


def direct_reduce_scatter(ranks):
    plan = Plan("reduce_scatter", ranks, ranks, scratch=ranks, name="direct")
    for rank in range(ranks):
        adding = plan.block(rank)
        plan.step(rank, adding, "cpy", ("i", rank), ("o", 0))
        for other in range(ranks):
            if other == rank:
                continue
            block = plan.block(rank, other, other)
            plan.step(rank, block, "s", ("i", other))
            got = plan.step(rank, block, "r", ("s", other))
            plan.step(rank, adding, "re", ("s", other), ("o", 0), 1, got)
    return plan


def two_step_all_to_all(groups, size):
    """Blocks for a rank of another group go to the member with the same number there, through the
    member of one's own group that has it: aggregated messages between groups."""
    ranks = groups * size
    plan = Plan("alltoall", ranks, ranks, scratch=ranks, name="two-step")
    for rank in range(ranks):
        group, member = divmod(rank, size)
        local = plan.block(rank)
        collected = {}  # group -> waits
        for other in range(size):
            target = group * size + other
            if other == member:
                for far in range(groups):
                    if far == group:
                        plan.step(rank, local, "cpy", ("i", rank), ("o", rank))
                    else:
                        collected.setdefault(far, []).append(
                            plan.step(rank, local, "cpy", ("i", far * size + member),
                                      ("s", far * size + member)))
                continue
            block = plan.block(rank, target, target)
            for far in range(groups):
                plan.step(rank, block, "s", ("i", far * size + other))
                place = ("o", target) if far == group else ("s", far * size + other)
                got = plan.step(rank, block, "r", place)
                if far != group:
                    collected.setdefault(far, []).append(got)
        for far in range(groups):
            if far == group:
                continue
            peer = far * size + member
            block = plan.block(rank, peer, peer, 1)
            for wait in collected[far][:-1]:
                plan.step(rank, block, "nop", ("i", -1), ("o", -1), 0, wait)
            plan.step(rank, block, "s", ("s", far * size), count=size, wait=collected[far][-1])
            plan.step(rank, block, "r", ("o", far * size), count=size)
    return plan


def chain_broadcast(ranks, chunks=4):
    plan = Plan("broadcast", ranks, chunks, inplace=True, name="chain")
    for rank in range(ranks):
        block = plan.block(rank, rank + 1 if rank + 1 < ranks else -1, rank - 1)
        kind = "s" if rank == 0 else "r" if rank == ranks - 1 else "rcs"
        for chunk in range(chunks):
            plan.step(rank, block, kind, ("i", chunk))
    return plan


def chain_reduce(ranks, root_chunks=3):
    plan = Plan("reduce", ranks, root_chunks, inplace=True, name="chain")
    for rank in range(ranks):
        block = plan.block(rank, rank - 1, rank + 1 if rank + 1 < ranks else -1)
        kind = "s" if rank == ranks - 1 else "rrc" if rank == 0 else "rrs"
        for chunk in range(root_chunks):
            plan.step(rank, block, kind, ("i", chunk))
    return plan


# Operation of weft_coll, plan.
PLANS = {
    "ring_all_reduce": ("all_reduce", ring_all_reduce(4)),
    "rings_all_reduce": ("all_reduce", ring_all_reduce(3, channels=2)),
    "ring_all_gather": ("all_gather", ring_all_gather(3)),
    "pairs_all_reduce": ("all_reduce", all_pairs_all_reduce(4)),
    "doubling_all_reduce": ("all_reduce", doubling_all_reduce(4)),
    "direct_reduce_scatter": ("reduce_scatter", direct_reduce_scatter(3)),
    "two_step_all_to_all": ("all_to_all", two_step_all_to_all(2, 2)),
    "chain_broadcast": ("broadcast", chain_broadcast(4)),
    "chain_reduce": ("reduce", chain_reduce(3)),
}
