// SPDX-License-Identifier: BSD-3-Clause
// Two devices in one process, used in turns: with WEFT_VERBS_REAL one of them is of another
// library.
#include <string_view>

#include "tests/verbs_calls/cases.hpp"
#include "tests/verbs_calls/loop.hpp"

namespace {

void transfer(Ends& ends) {
  Loop loop(ends, nullptr);
  std::memset(ends.at(0), 0x5A, 8);
  std::memset(ends.at(64), 0, 8);
  loop.write(ends, ends.mr->rkey);
  CHECK(wait_for(loop.cq).status == IBV_WC_SUCCESS);
  CHECK(std::memcmp(ends.at(0), ends.at(64), 8) == 0);
  CHECK_ERROR(0, ibv_destroy_qp(loop.qp));
  CHECK_ERROR(0, ibv_destroy_cq(loop.cq));
}

}  // namespace

void check_devices() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  REQUIRE(list != nullptr && count == 2 && list[2] == nullptr);
  for (int i = 0; i < count; ++i)
    std::printf("%s %d\n", ibv_get_device_name(list[i]), ibv_get_device_index(list[i]));
  ibv_free_device_list(list);
  device_index = 0;
  Ends first(IBV_QPT_RC);
  device_index = 1;
  Ends second(IBV_QPT_RC);
  for (int i = 0; i < 3; ++i) {
    transfer(first);
    transfer(second);
  }
}
