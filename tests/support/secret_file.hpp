// SPDX-License-Identifier: BSD-3-Clause
// A secret of a job in a file, as WEFT_SECRET would name it.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "lib/crypto/secret.hpp"
#include "weft/security.hpp"

namespace weft::test {

// A file with a new secret, removed at the end.
class SecretFile {
 public:
  explicit SecretFile(const std::string& content = *crypto::random_secret())
      : path_(
            (std::filesystem::temp_directory_path() / ("weft_secret_" + std::to_string(getpid()) +
                                                       "_" + crypto::random_secret()->substr(0, 8)))
                .string()) {
    std::ofstream(path_) << content << "\n";
    std::filesystem::permissions(
        path_, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }
  SecretFile(const SecretFile&) = delete;
  SecretFile& operator=(const SecretFile&) = delete;
  ~SecretFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }
  Security security() const { return {.secret = path_}; }

 private:
  std::string path_;
};

}  // namespace weft::test
