// SPDX-License-Identifier: BSD-3-Clause
// The store in which the processes of PyTorch have met, as the store that weft's communicators meet
// in. It looks for keys again and again instead of waiting in the store, since a wait there may
// keep other threads of the process out.
#pragma once

#include <atomic>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "weft/store.hpp"

namespace weft::torch_adapter {

class TorchStore : public Store {
 public:
  // get() gives up when `*closing` is true; it outlives the store.
  TorchStore(c10::intrusive_ptr<c10d::Store> store, const std::atomic<bool>& closing)
      : store_(std::move(store)), closing_(closing) {}

  Result<void> set(std::string_view key, std::string_view value) override;
  Result<std::string> get(std::string_view key, Duration limit) override;

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  const std::atomic<bool>& closing_;
};

}  // namespace weft::torch_adapter
