// SPDX-License-Identifier: BSD-3-Clause
// Secrets in files and descriptors: which are used, and what is said of the others.
#include <fcntl.h>
#include <sys/stat.h>

#include "tests/crypto/dialogue.hpp"
#include "tests/support/skip.hpp"

namespace weft::crypto {

static void check_refused(const Result<std::string>& read, Code code, const char* why) {
  INFO(why);
  REQUIRE_FALSE(read);
  CHECK(read.error().code == code);
  CHECK(read.error().message.find(why) != std::string::npos);
}

TEST_CASE("a secret is its file's content without the end of the line") {
  const std::string content = *random_secret();
  const SecretFile file(content);
  CHECK(*read_secret(file.path()) == content);
  const int fd = open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
  for (int i = 0; i < 2; ++i) CHECK(*read_secret("fd:" + std::to_string(fd)) == content);
  close(fd);
  CHECK(*random_secret() != content);
}

TEST_CASE("a secret that others could know or choose is not used") {
  const SecretFile file;
  for (const mode_t mode : {0640, 0604, 0622}) {
    REQUIRE(chmod(file.path().c_str(), mode) == 0);
    check_refused(read_secret(file.path()), Code::permission_denied, "chmod 600");
  }
  REQUIRE(chmod(file.path().c_str(), 0400) == 0);
  CHECK(read_secret(file.path()));
  check_refused(read_secret("/dev/zero"), Code::permission_denied, "not a file");
}

TEST_CASE("a secret of another user is not used") {
  if (geteuid() != 0) WEFT_SKIP("crypto", "only root gives files away");
  const SecretFile file;
  REQUIRE(chown(file.path().c_str(), 65534, 65534) == 0);
  check_refused(read_secret(file.path()), Code::permission_denied, "belongs to user 65534");
}

TEST_CASE("what is no secret is named") {
  check_refused(read_secret("/nonexistent/secret"), Code::not_found, "/nonexistent/secret");
  const SecretFile brief("31 characters are not 128 bits."), endless(std::string(5000, 'x'));
  check_refused(read_secret(brief.path()), Code::invalid_argument, "32 to 4096");
  check_refused(read_secret(endless.path()), Code::invalid_argument, "more than 4096");
  check_refused(read_secret("fd:x"), Code::invalid_argument, "fd:NUMBER");
  check_refused(read_secret("fd:1000000"), Code::io_error, "fd:1000000");
}

TEST_CASE("a user's secret is made once, for him alone") {
  const std::string first = *read_user_secret();
  CHECK(*read_user_secret() == first);
  CHECK(first.size() == 64);
}

}  // namespace weft::crypto
