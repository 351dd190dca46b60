// SPDX-License-Identifier: BSD-3-Clause
// The list of providers, which register themselves.
#include <algorithm>
#include <tuple>
#include <vector>

#include "lib/verbs/provider_manifest.hpp"

namespace weft::verbs {

std::span<const Provider> providers() {
  static const std::vector<Provider> sorted = [] {
    std::vector<Provider> all;
    for (const ProviderFolder folder : provider_folders()) all.push_back(folder());
    std::sort(all.begin(), all.end(), [](const Provider& a, const Provider& b) {
      return std::tie(a.order, a.name) < std::tie(b.order, b.name);
    });
    return all;
  }();
  return sorted;
}

}  // namespace weft::verbs
