// SPDX-License-Identifier: BSD-3-Clause
// A memory window of a software provider: an entry of the key table of its engine.
#pragma once

#include "lib/driver/driver.hpp"
#include "lib/verbs/provider.hpp"

namespace weft::software {

class Window final : public verbs::Window {
 public:
  Window(Device device, driver::Driver& driver, WindowType type, uint32_t key)
      : verbs::Window(type, key >> 8), device_(std::move(device)), driver_(driver) {}
  ~Window() override {
    if (driver_.forked()) return;
    driver::Holder hold(driver_.lock());
    driver_.machine().keys().remove_window(number << 8);
  }
  RKey rkey() const noexcept override {
    if (driver_.forked()) return {};
    driver::Holder hold(driver_.lock());
    return RKey{number << 8 | driver_.machine().keys().window(number << 8)->variant};
  }

 private:
  Device device_;
  driver::Driver& driver_;
};

}  // namespace weft::software
