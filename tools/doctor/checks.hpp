// SPDX-License-Identifier: BSD-3-Clause
// What is looked at: each check says what it found, and where that can be better, what to change
// and what the change gains.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/machine.hpp"

namespace weft::doctor {

struct Finding {
  std::string what;      // "MTU of eth0"
  std::string concerns;  // the ports, "roce+udp, srd+udp"
  std::string found;
  std::string change;  // empty: it is as it should be
  std::string gain;    // of the change
};

std::vector<Finding> check_processors(const Machine& machine);
std::vector<Finding> check_memory(const Machine& machine);
std::vector<Finding> check_network(const Machine& machine);
std::vector<Finding> check_rights(const Machine& machine);

}  // namespace weft::doctor
