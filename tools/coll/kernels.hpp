// SPDX-License-Identifier: BSD-3-Clause
// `weft_coll kernels`: the speed of the reduction kernels on one core, compared with memcpy.
#pragma once

namespace weft::bench {

int measure_kernels();

}  // namespace weft::bench
