// SPDX-License-Identifier: BSD-3-Clause
// See protect.hpp.
#include "providers/software/protect.hpp"

#include "lib/base/clock.hpp"
#include "lib/crypto/secret.hpp"
#include "providers/port/secure/secure_port.hpp"

namespace weft::software {

OwnKey secure_key(bool& secure) {
  return {"secure", [&secure](const std::string& value) -> Result<void> {
            if (value != "psk" && value != "none")
              return Error{
                  Code::invalid_argument,
                  "secure=" + value +
                      ": must be psk (packets are sealed with keys of WEFT_SECRET) or none"};
            secure = value == "psk";
            return {};
          }};
}

Result<void> protect(OpenedPort& opened, const secure::Layout& layout, uint16_t udp_port) {
  if (opened.first().capabilities().integrity_bits == 0) return {};
  const Result<std::string> secret = crypto::read_own_secret();
  if (!secret) return secret.error();
  const Result<const crypto::Library*> library = crypto::load_library();
  if (!library) return library.error();
  const Result<crypto::Key> key = (*library)->derive(*secret, "weft data path: secret");
  if (!key) return key.error();
  for (std::unique_ptr<transport::Port>& port : opened.ports)
    port = std::make_unique<secure::SecurePort>(
        std::move(port),
        secure::SecurePortOptions{.library = *library,
                                  .secret = *key,
                                  .cipher = secure::preferred_cipher(),
                                  .layout = layout,
                                  .udp_port = udp_port,
                                  .clock = [] { return base::Clock::process().now(); },
                                  .random = base::SecureRandom()});
  return {};
}

}  // namespace weft::software
