// SPDX-License-Identifier: BSD-3-Clause
// The end that is weft: `weft_puppet TCP_PORT` on any device string, for one client, which may run
// commands of the shell. `weft_script respond` is the same for people.
#include <cstdio>
#include <cstdlib>

#include "tools/script/responder.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: weft_puppet TCP_PORT   (tools/script/responder.hpp)\n");
    return 2;
  }
  const auto endpoint = weft::responder::weft_endpoint();
  return weft::responder::serve(
      {.port = static_cast<uint16_t>(std::atoi(argv[1])), .shell = true, .once = true}, *endpoint);
}
