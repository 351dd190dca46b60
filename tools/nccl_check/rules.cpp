// SPDX-License-Identifier: BSD-3-Clause
// See rules.hpp. In the order in which they run: the first ones are those that the others need.
#include "tools/nccl_check/rules.hpp"

namespace weft::nccl_check {

const std::vector<Rule>& all_rules() {
  static const std::vector<Rule> rules = {
      {"properties", "getProperties() has a name, a speed, host pointers, and sane limits",
       check_devices},
      {"connect",
       "connect() and accept() return at once, also if the peer accepts late, and handles have "
       "their size",
       check_connect},
      {"sizes",
       "messages of 1 B to --max-size arrive whole, test() says their sizes, and nothing "
       "else is written",
       check_sizes},
      {"alignment", "pointers and sizes need no alignment", check_alignment},
      {"zero", "messages of zero bytes complete, alone and among others", check_zero},
      {"order", "messages of one tag are matched in the order of both sides", check_order},
      {"groups",
       "grouped receives are matched by tag, in any order of the sends, and test() says "
       "the size of each",
       check_groups},
      {"early-send", "a send before its receive is posted, or refused by a null request",
       check_early_send},
      {"full", "enough requests are in flight, and one more is refused by a null request",
       check_full},
      {"connections", "several connections of two ranks are independent", check_connections},
      {"registration", "memory is registered and deregistered many times", check_registration},
      {"remapped", "memory that was mapped anew at the same address is used anew", check_remapped},
      {"flush", "iflush() after a receive completes; test() takes a null pointer for sizes",
       check_flush},
      {"optional", "a receive whose completion is optional carries data all the same",
       check_optional},
      {"virtual", "makeVDevice() merges two devices, and messages of all sizes go over both",
       check_virtual},
      {"close", "connections are closed with requests in flight, and new ones work", check_close},
      {"all-reduce", "a ring all-reduce has the right sums", check_all_reduce},
      {"all-to-all", "every rank gets the data of every other", check_all_to_all},
      {"death",
       "a peer that is killed ends all requests in errors",
       check_death,
       true,
       {{"receive error after", "ms"}, {"send error after", "ms"}}},
      {"speed",
       "latency and bandwidth of rank 0 to rank 1",
       measure,
       false,
       {{"latency 8 B", "us"},
        {"bandwidth 64 KiB", "MB/s"},
        {"bandwidth 1 MiB", "MB/s"},
        {"bandwidth 8 MiB", "MB/s"},
        {"all-reduce bus bandwidth", "MB/s"}}},
  };
  return rules;
}

}  // namespace weft::nccl_check
