// SPDX-License-Identifier: BSD-3-Clause
// Counters of a device by name: see counters.hpp.
#include "lib/adapters/verbs/counters.hpp"

#include "lib/adapters/verbs/references.hpp"

using namespace weft::drop_in;

int weft_verbs_counter(ibv_context* context, const char* name, uint64_t* value) {
  return without_exceptions("weft_verbs_counter", [&] {
    for (const weft::Counter& counter : context_of(context).device.counters()) {
      if (counter.name != name) continue;
      *value = counter.value;
      return 0;
    }
    return ENOENT;
  });
}
