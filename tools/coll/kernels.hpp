// SPDX-License-Identifier: BSD-3-Clause
// `weft_coll kernels`: how fast one core reduces what has arrived, beside copying it.
#pragma once

namespace weft::bench {

int measure_kernels();

}  // namespace weft::bench
