// SPDX-License-Identifier: BSD-3-Clause
// Calls verbs as any program does: `verbs_calls CASE...`, over the first device of
// WEFT_VERBS_DEVICES. Exit code 0: all checks of these cases hold.
#include <string_view>

#include "tests/verbs_calls/cases.hpp"
#include "tests/verbs_calls/check.hpp"

int main(int count, char** words) {
  for (int i = 1; i < count; ++i) {
    const std::string_view name = words[i];
    if (name == "opcodes")
      check_opcodes();
    else if (name == "errors")
      check_errors();
    else if (name == "events")
      check_events();
    else if (name == "memory")
      check_memory();
    else
      std::printf("no case %s\n", words[i]), ++failures;
  }
  if (failures != 0) std::printf("%d checks failed\n", failures);
  return failures == 0 && count > 1 ? 0 : 1;
}
