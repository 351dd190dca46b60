// SPDX-License-Identifier: BSD-3-Clause
// Calls verbs as any program does: `verbs_calls CASE...`, over the first device of
// WEFT_VERBS_DEVICES. Exit code 0: all checks of these cases hold.
#include <algorithm>
#include <string_view>

#include "tests/verbs_calls/cases.hpp"
#include "tests/verbs_calls/check.hpp"

namespace {

struct Case {
  std::string_view name;
  void (*check)();
};
constexpr Case kCases[] = {
    {"cycles", check_cycles},   {"devices", check_devices},         {"endless", transfer_endlessly},
    {"errors", check_errors},   {"events", check_events},           {"manual", check_manual},
    {"memory", check_memory},   {"misuse", check_misuse},           {"opcodes", check_opcodes},
    {"polling", check_polling}, {"processes", check_processes},     {"signals", check_signals},
    {"srd", check_srd},         {"transitions", check_transitions},
};

}  // namespace

int main(int count, char** words) {
  for (int i = 1; i < count; ++i) {
    const auto* const found =
        std::find_if(std::begin(kCases), std::end(kCases),
                     [&](const Case& known) { return known.name == words[i]; });
    if (found != std::end(kCases))
      found->check();
    else
      std::printf("no case %s\n", words[i]), ++failures;
  }
  if (failures != 0) std::printf("%d checks failed\n", failures);
  return failures == 0 && count > 1 ? 0 : 1;
}
