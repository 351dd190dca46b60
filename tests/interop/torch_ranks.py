#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""One rank of torch_test.py: `torch_ranks.py CASE RANK RANKS MEETING` joins the others in the file
MEETING and runs the function CASE. An exception is a complaint."""
import datetime
import os
import pathlib
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist

import weft_torch  # noqa: F401 (registers the backend)

TYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
         torch.bfloat16, torch.float32, torch.float64)
MOVED_TYPES = TYPES + (torch.bool, torch.complex64)


def equal(got, wanted):
    assert got.dtype == wanted.dtype and torch.equal(got, wanted), f"{got} is not {wanted}"


def raises(text, call):
    try:
        call()
    except Exception as why:  # which type it is, PyTorch decides
        assert text in str(why), f"'{text}' is not in: {why}"
        return str(why)
    raise AssertionError(f"no exception with '{text}'")


def numbers(rank, count, kind):
    """Small numbers that differ between ranks and places; their sums are exact in all types."""
    return ((torch.arange(count) + 3 * rank) % 5 + 1).to(kind)


def strided(tensor):
    """The same elements, every other place of a larger tensor."""
    room = torch.zeros(2 * tensor.numel(), dtype=tensor.dtype)
    view = room[::2]
    view.copy_(tensor)
    return view


def reductions(rank, ranks):
    ops = {dist.ReduceOp.SUM: torch.sum, dist.ReduceOp.PRODUCT: torch.prod,
           dist.ReduceOp.MIN: torch.amin, dist.ReduceOp.MAX: torch.amax}
    for kind in TYPES:
        for count in (0, 1, 1000, 70_000):
            own = numbers(rank, count, kind)
            every = torch.stack([numbers(r, count, kind).double() for r in range(ranks)])
            for op, reference in ops.items():
                tensor = own.clone()
                dist.all_reduce(tensor, op)
                equal(tensor, reference(every, 0).to(kind))
            uneven = strided(own)
            dist.all_reduce(uneven)
            equal(uneven, every.sum(0).to(kind))
            tensor = own.clone()
            dist.reduce(tensor, ranks - 1)
            if rank == ranks - 1:
                equal(tensor, every.sum(0).to(kind))
            parts = [numbers(rank + r, count, kind) for r in range(ranks)]
            mine = torch.empty(count, dtype=kind)
            dist.reduce_scatter(mine, parts)
            wanted = sum(numbers(r + rank, count, kind).double() for r in range(ranks)).to(kind)
            equal(mine, wanted)
            mine.zero_()
            dist._reduce_scatter_base(mine, torch.cat(parts))
            equal(mine, wanted)
    average = torch.full((5,), float(rank))
    dist.all_reduce(average, dist.ReduceOp.AVG)
    equal(average, torch.full((5,), (ranks - 1) / 2))
    flags = torch.tensor([rank == 0, rank == ranks - 1, True, False])
    both = flags.clone()
    dist.all_reduce(both)
    equal(both, torch.tensor([True, True, True, False]))
    dist.all_reduce(flags, dist.ReduceOp.MIN)
    equal(flags, torch.tensor([ranks == 1, ranks == 1, True, False]))
    several = [torch.full((r + 1, 2), float(rank)) for r in range(3)]
    dist.all_reduce_coalesced(several)
    for r, tensor in enumerate(several):
        equal(tensor, torch.full((r + 1, 2), float(sum(range(ranks)))))


def movements(rank, ranks):
    for kind in MOVED_TYPES:
        for count in (0, 1, 1000, 70_000):
            every = [numbers(r, count, kind) for r in range(ranks)]
            tensor = every[0].clone() if rank == 0 else torch.zeros(count, dtype=kind)
            dist.broadcast(tensor, 0)
            equal(tensor, every[0])
            tensor = strided(every[ranks - 1] if rank == ranks - 1 else torch.zeros(count).to(kind))
            dist.broadcast(tensor, ranks - 1)
            equal(tensor, every[ranks - 1])
            out = [torch.zeros(count, dtype=kind) for _ in range(ranks)]
            dist.all_gather(out, strided(every[rank]))
            for got, wanted in zip(out, every):
                equal(got, wanted)
            flat = torch.zeros(ranks * count, dtype=kind)
            dist._all_gather_base(flat, every[rank])
            equal(flat, torch.cat(every))
            out = [torch.zeros(count, dtype=kind) for _ in range(ranks)] if rank == 0 else None
            dist.gather(every[rank], out, 0)
            for got, wanted in zip(out or [], every):
                equal(got, wanted)
            mine = torch.zeros(count, dtype=kind)
            dist.scatter(mine, every if rank == ranks - 1 else None, ranks - 1)
            equal(mine, every[rank])
    lengths = [r + 1 for r in range(ranks)]
    out = [torch.zeros(n) for n in lengths]
    dist.all_gather(out, torch.full((lengths[rank],), float(rank)))
    for r, got in enumerate(out):
        equal(got, torch.full((lengths[r],), float(r)))
    flat = torch.zeros(2 * ranks, dtype=torch.complex64)
    dist.group.WORLD._allgather_base(flat, torch.conj(torch.tensor([1 + 2j, 3 - 1j]))).wait()
    equal(flat, torch.tensor([1 - 2j, 3 + 1j] * ranks))
    names = [None] * ranks
    dist.all_gather_object(names, {"rank": rank, "text": "x" * rank})
    assert names == [{"rank": r, "text": "x" * r} for r in range(ranks)], names


def all_to_alls(rank, ranks):
    for kind in (torch.float32, torch.int8):
        out = torch.zeros(ranks * 3, dtype=kind)
        dist.all_to_all_single(out, torch.arange(ranks * 3).to(kind) + 10 * rank)
        equal(out, torch.cat([torch.arange(3 * rank, 3 * rank + 3) + 10 * r
                              for r in range(ranks)]).to(kind))
        # rank r sends r + s + 1 rows of two to rank s; rank 0 nothing to rank 1
        rows = [[0 if (r, s) == (0, 1) else r + s + 1 for s in range(ranks)] for r in range(ranks)]
        sent = torch.cat([torch.full((rows[rank][s], 2), 10 * rank + s) for s in range(ranks)])
        wanted = torch.cat([torch.full((rows[r][rank], 2), 10 * r + rank) for r in range(ranks)])
        out = torch.zeros(wanted.shape, dtype=kind)
        dist.all_to_all_single(out, sent.to(kind), [rows[r][rank] for r in range(ranks)],
                               rows[rank])
        equal(out, wanted.to(kind))
        lists = [torch.zeros(rows[r][rank] * 2, dtype=kind) for r in range(ranks)]
        dist.all_to_all(lists, [torch.full((n * 2,), 10 * rank + s).to(kind)
                                for s, n in enumerate(rows[rank])])
        equal(torch.cat(lists), wanted.flatten().to(kind))


def transfers(rank, ranks):
    before, after = (rank - 1) % ranks, (rank + 1) % ranks
    for count in (0, 1, 2_000_000):  # the last one is longer than all slots
        got = [torch.zeros(count) for _ in range(3)]
        # every rank waits to receive before it sends, and the tags cross
        works = [dist.irecv(got[tag], before, tag=tag) for tag in (2, 0, 1)]
        works += [dist.isend(torch.full((count,), float(10 * rank + tag)), after, tag=tag)
                  for tag in (0, 1, 2)]
        for work in works:
            work.wait()
        for tag in range(3):
            equal(got[tag], torch.full((count,), float(10 * before + tag)))
    for i in range(20):  # one tag keeps its order
        work = dist.isend(torch.tensor([i]), after)
        value = torch.zeros(1, dtype=torch.int64)
        dist.recv(value, before)
        work.wait()
        equal(value, torch.tensor([i]))
    mine = strided(torch.zeros(5))
    ops = [dist.P2POp(dist.isend, torch.full((5,), float(rank)), after),
           dist.P2POp(dist.irecv, mine, before)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    equal(mine, torch.full((5,), float(before)))


def reduce_again(done):
    """By a future; then a barrier by wait()."""
    value = dist.all_reduce(done.value()[0].clone(), async_op=True).get_future().wait()[0]
    dist.barrier()
    return value


def power_sgd(rank, ranks):
    """DDP's hook whose callbacks call the group."""
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
    torch.manual_seed(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    model.register_comm_hook(powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2),
                             powerSGD_hook.powerSGD_hook)
    for _ in range(4):
        model(torch.full((8, 64), float(rank))).sum().backward()
    own = model.module.weight.grad
    every = [torch.empty_like(own) for _ in range(ranks)]
    dist.all_gather(every, own)
    for theirs in every:
        equal(theirs, own)


def last_reference(rank, ranks):
    """A callback drops the group, in the thread of the group."""
    from weft_torch import create_process_group
    store = dist.PrefixStore("held", dist.distributed_c10d._get_default_store())
    held = [create_process_group(store, rank, ranks, datetime.timedelta(seconds=60))]
    if rank == 1:
        dist.barrier()  # rank 0's callback is there before the call can be done
    work = held[0].allreduce([torch.ones(3)])
    if rank == 0:
        main, threads = threading.get_ident(), []
        dropped = work.get_future().then(
            lambda done: (threads.append(threading.get_ident()), held.clear()))
        dist.barrier()
        dropped.wait()
        assert not held and main not in threads
    work.wait()


def forked(rank, ranks):
    """A child of fork() ends as a program does, and does not wait for threads that it has not."""
    child = os.fork()
    if child == 0:
        sys.exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
    dist.barrier()


def names(rank, ranks):
    """Every group's dumps have a name of their own, and all ranks the same."""
    second = dist.new_group()
    raises("", lambda: fail_together(rank, second))
    raises("", lambda: fail_together(rank, dist.group.WORLD))


def fail_together(rank, group):
    (dist.all_gather([torch.ones(1)] * 2, torch.ones(1), group=group) if rank == 0 else
     dist.all_reduce(torch.ones(1), group=group))


def works(rank, ranks):
    """What is asynchronous: many calls in progress, futures, profiles."""
    tensors = [torch.full((1000,), float(rank + i)) for i in range(30)]
    started = [dist.all_reduce(t, async_op=True) for t in tensors]
    doubled = started[-1].get_future().then(lambda done: done.value()[0] * 2)
    for i, work in enumerate(started):
        work.wait()
        assert work.is_completed() and work.is_success()
        equal(tensors[i], torch.full((1000,), float(sum(r + i for r in range(ranks)))))
    equal(doubled.wait(), tensors[-1] * 2)
    equal(started[0].result()[0], tensors[0])
    # A callback may call the group and wait for it.
    nested = dist.all_reduce(torch.ones(3), async_op=True).get_future().then(reduce_again)
    equal(nested.wait(), torch.full((3,), float(ranks * ranks)))
    with torch.profiler.profile() as profile:
        dist.all_reduce(tensors[0])
    assert "weft:all_reduce" in [event.name for event in profile.events()]
    assert dist.get_backend() == "weft"
    dist.barrier()


def groups(rank, ranks):
    """Groups of some ranks, and the same twice."""
    for _ in range(2):
        members = [r for r in range(ranks) if r % 2 == 0]
        even = dist.new_group(members)
        alone = dist.new_group([ranks - 1])
        if rank in members:
            total = torch.tensor([float(rank)])
            dist.all_reduce(total, group=even)
            equal(total, torch.tensor([float(sum(members))]))
        if rank == ranks - 1:
            value = torch.tensor([5])
            dist.all_reduce(value, group=alone)
            equal(value, torch.tensor([5]))
    dist.barrier()


def refusals(rank, ranks):
    """Wrong calls throw at once and say what is right; the group goes on."""
    ones = torch.ones(4)
    pairs = torch.ones(4 * ranks, dtype=torch.complex64)
    raises("cannot reduce tensors of ComplexFloat",
           lambda: dist._reduce_scatter_base(pairs[:4].clone(), pairs))
    raises("SUM, AVG", lambda: dist.all_reduce(ones, dist.ReduceOp.BXOR))
    raises("dense tensors", lambda: dist.broadcast(ones.to_sparse(), 0))
    raises("of the CPU, not of meta",
           lambda: dist._all_gather_base(torch.ones(4 * ranks), torch.empty(4, device="meta")))
    raises("multiple of the", lambda: dist._all_gather_base(torch.ones(4 * ranks + 1), ones))
    raises("of one type",
           lambda: dist.group.WORLD.allreduce_coalesced([ones, ones.double()]))
    raises("'s own tensor has", lambda: dist.all_gather([torch.ones(3)] * ranks, ones))
    raises("name the rank", lambda: dist.recv(ones))
    raises("has no peer", lambda: dist.group.WORLD.send([ones], ranks, 0))
    dist.all_reduce(ones)
    equal(ones, torch.full((4,), float(ranks)))


def death(rank, ranks):
    """A rank is killed in the middle of an all-reduce of the others."""
    dist.barrier()
    if rank == 1:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    text = raises("rank 1", lambda: dist.all_reduce(torch.ones(100)))
    assert "all_reduce" in text, text
    raises("rank 1", dist.barrier)
    work = dist.all_reduce(torch.ones(1), async_op=True)
    raises("rank 1", work.get_future().wait)
    raises("rank 1", work.wait)
    assert work.is_completed() and not work.is_success()


def lateness(rank, ranks):
    """Calls have the limit of their group. Until then wait() can time out."""
    limit = datetime.timedelta(seconds=8)
    brief = dist.new_group(timeout=limit)
    late = f"not finished after {limit // datetime.timedelta(milliseconds=1)} ms"
    if rank == 1:
        dist.send(torch.ones(1), 0, group=brief)
    else:
        dist.recv(torch.ones(1), 1, group=brief)
        work = dist.all_reduce(torch.ones(3), group=brief, async_op=True)
        raises("rank 0 has waited 100 ms for ALLREDUCE",
               lambda: work.wait(datetime.timedelta(milliseconds=100)))
        raises(late, lambda: dist.recv(torch.ones(1), 1, group=brief))
        text = raises(f"{late}, waiting for rank 1", work.wait)
        assert "all_reduce" in text, text
        raises("recv: rank 1 has not come", lambda: dist.recv(torch.ones(1), 1, brief, tag=7))
    total = torch.ones(1)
    dist.all_reduce(total)  # the other group knows of nothing
    equal(total, torch.full((1,), float(ranks)))


def mismatch(rank, ranks):
    if rank == 0:
        text = raises("all_gather", lambda: dist.all_gather([torch.ones(3)] * ranks, torch.ones(3)))
    else:
        text = raises("all_reduce", lambda: dist.all_reduce(torch.ones(3)))
    assert "rank" in text, text


def leaving(rank, ranks):
    """A rank that destroys its group ends the calls in progress, of all ranks, and does not hang;
    so does a send without a receive."""
    left = pathlib.Path(sys.argv[4] + "-left")
    if rank == 0:
        value = torch.ones(1_000_000)
        work = dist.all_reduce(value, async_op=True)
        lonely = dist.isend(value, 1)
        time.sleep(0.5)  # so that it is likely in progress
        dist.destroy_process_group()
        left.touch()
        raises("destroyed", work.wait)
        raises("the process group is destroyed", lonely.wait)
        return
    while not left.exists():
        time.sleep(0.01)
    raises("rank 0", lambda: dist.all_reduce(torch.ones(1_000_000)))


def exiting(rank, ranks):
    """The program ends while a thread of the group is in Python, and the group is not destroyed."""
    begun = threading.Event()
    work = dist.all_reduce(torch.ones(3), async_op=True)
    work.get_future().then(lambda done: (begun.set(), sum(i * i for i in range(20_000_000))))
    begun.wait()
    sys.exit(3)


def again(rank, ranks):
    """Destroyed and made anew, in another meeting."""
    dist.barrier()
    dist.destroy_process_group()
    join(rank, ranks, sys.argv[4] + "-again")
    total = torch.ones(1)
    dist.all_reduce(total)
    equal(total, torch.full((1,), float(ranks)))


def join(rank, ranks, meeting):
    dist.init_process_group("weft", init_method=f"file://{meeting}", rank=rank, world_size=ranks,
                            timeout=datetime.timedelta(seconds=60))


def main():
    case, rank, ranks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    join(rank, ranks, sys.argv[4])
    for name in case.split(","):
        globals()[name](rank, ranks)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
