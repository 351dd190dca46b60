// SPDX-License-Identifier: BSD-3-Clause
// The controller of tortoise.hpp as a shared object, for programs that know nothing of it:
//
//   c++ -std=c++20 -O2 -fPIC -fvisibility=hidden -shared tortoise.cpp -o tortoise.so
//   weft_sim run incast-16 cc=./tortoise.so
//   weft_write_bw -d srd+udp:lo,cc=./tortoise.so
#include "../tortoise.hpp"

WEFT_CONTROLLER(kTortoise);
