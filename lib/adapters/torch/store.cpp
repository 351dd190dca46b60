// SPDX-License-Identifier: BSD-3-Clause
// Values begin with a byte of ours: compareSet() takes an empty value for none.
#include "lib/adapters/torch/store.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace weft::torch_adapter {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr char kMark = '=';
constexpr microseconds kFirstPause{100}, kLongestPause{5000};

Error failed(std::string_view key, const std::exception& why) {
  return {Code::io_error, "PyTorch's store, key '" + std::string(key) + "': " + why.what()};
}

}  // namespace

Result<void> TorchStore::set(std::string_view key, std::string_view value) {
  const std::string marked = kMark + std::string(value);
  try {
    store_->compareSet(std::string(key), {}, {marked.begin(), marked.end()});
  } catch (const std::exception& why) {
    return failed(key, why);
  }
  return {};
}

Result<std::string> TorchStore::get(std::string_view key, Duration limit) {
  const std::string name(key);
  const auto deadline = steady_clock::now() + microseconds(limit.us());
  try {
    for (microseconds pause = kFirstPause; !store_->check({name});) {
      if (closing_) return Error{Code::disconnected, "the process group is destroyed"};
      if (steady_clock::now() > deadline)
        return Error{Code::timed_out,
                     "key '" + name + "' was not set in time: are all processes started?"};
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, kLongestPause);
    }
    const std::vector<uint8_t> marked = store_->get(name);
    if (marked.empty() || marked[0] != kMark)
      return Error{Code::mismatch, "the key '" + name + "' of PyTorch's store is not ours"};
    return std::string(marked.begin() + 1, marked.end());
  } catch (const std::exception& why) {
    return failed(key, why);
  }
}

}  // namespace weft::torch_adapter
