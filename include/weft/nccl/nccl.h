/* SPDX-License-Identifier: BSD-3-Clause
 * What a program that is written to NCCL's API includes, where this folder is in its include path:
 * <nccl.h> is weft/nccl_compat.h.
 */
#pragma once

#include "weft/nccl/cuda_runtime.h"
#include "weft/nccl_compat.h"
