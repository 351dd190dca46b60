# SPDX-License-Identifier: BSD-3-Clause
"""weft's collectives for PyTorch: after `import weft_torch`, init_process_group("weft") works.

The device is that of WEFT_DEVICE; without it shared memory, if all ranks are on one host, else UDP.
"""
import atexit

import torch.distributed

from ._weft_torch import close_all, create_process_group

torch.distributed.Backend.register_backend("weft", create_process_group)
atexit.register(close_all)
