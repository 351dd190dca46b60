# SPDX-License-Identifier: BSD-3-Clause
"""weft's collectives for PyTorch: after `import weft_torch`, init_process_group("weft") works.

The device is that of WEFT_DEVICE; without it shared memory, if all ranks are on one host, else UDP.
"""
import atexit
import os

import torch.distributed

from ._weft_torch import close_all, create_process_group

torch.distributed.Backend.register_backend("weft", create_process_group)


def _close_at_exit(process=os.getpid()):
    if os.getpid() == process:  # a child of fork() has none of the threads
        close_all()


atexit.register(_close_at_exit)
