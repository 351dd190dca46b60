#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's DistributedDataParallel over weft, on tensors of the CPU.

    PYTHONPATH=build/release/lib/python python3 examples/ddp.py --ranks 4
    PYTHONPATH=build/release/lib/python python3 examples/ddp.py --ranks 4 --backend gloo

Rank 0 prints the mean loss of each step. Runs its ranks itself; under torchrun it is one of them.
"""
import argparse
import os
import tempfile

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

BATCH, INPUTS, HIDDEN = 64, 8, 256


def train(options):
    """What every user of DDP writes: the same model on all ranks, other data on each."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Sequential(
        torch.nn.Linear(INPUTS, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    target = torch.randn(INPUTS)
    mine = torch.Generator().manual_seed(100 + rank)
    for step in range(options.steps):
        inputs = torch.randn(BATCH, INPUTS, generator=mine)
        wanted = torch.tanh(inputs @ target).unsqueeze(1)
        loss = torch.nn.functional.mse_loss(model(inputs), wanted)
        optimizer.zero_grad()
        loss.backward()  # the gradients are summed up over all ranks meanwhile
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        if rank == 0:
            print(f"step {step:3} loss {total.item() / ranks!r}", flush=True)


def run(rank, options, meeting):
    if options.backend == "weft":
        import weft_torch  # noqa: F401 (registers the backend)
    if meeting is None:
        dist.init_process_group(options.backend)
    else:
        dist.init_process_group(options.backend, init_method=f"file://{meeting}", rank=rank,
                                world_size=options.ranks)
    train(options)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--backend", default="weft")
    options = parser.parse_args()
    if "RANK" in os.environ:
        run(int(os.environ["RANK"]), options, None)
        return
    with tempfile.TemporaryDirectory() as scratch:
        torch.multiprocessing.spawn(run, (options, os.path.join(scratch, "meeting")),
                                    nprocs=options.ranks)


if __name__ == "__main__":
    main()
