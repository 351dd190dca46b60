// SPDX-License-Identifier: BSD-3-Clause
// program: own
// Result misused shows its message. Compiled as a user's program without NDEBUG.
#undef NDEBUG
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>

#include "tests/support/catch.hpp"
#include "weft/result.hpp"

namespace weft::test {

namespace {

const Error kError{Code::not_found, "there is no interface eth7: use one of eth0, lo"};

// What a child process prints that does `act`, and how it ends.
struct Ending {
  std::string printed;
  int signal = 0;
};

Ending ending_of(const std::function<void()>& act) {
  int ends[2] = {};
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // not Catch2's
    dup2(ends[1], STDERR_FILENO);
    act();
    _exit(0);
  }
  close(ends[1]);
  Ending ending;
  char text[512];
  for (ssize_t n = 0; (n = read(ends[0], text, sizeof text)) > 0;)
    ending.printed.append(text, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  ending.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return ending;
}

TEST_CASE("value() of a failed Result throws its message") {
  const Result<int> failed = kError;
  CHECK_THROWS_WITH(failed.value(), kError.message);
  CHECK_THROWS_WITH(Result<std::string>(kError).value(), kError.message);
  CHECK_THROWS_WITH(Result<void>(kError).value(), kError.message);
  try {
    (void)failed.value();
  } catch (const BadResult& thrown) {
    CHECK(thrown.error().code == Code::not_found);
  }
}

TEST_CASE("value() of a Result is its value") {
  Result<std::string> text = std::string("abc");
  text.value() += "d";
  CHECK(text.value() == "abcd");
  CHECK(std::move(text).value() == "abcd");
  CHECK_NOTHROW(Result<void>().value());
}

TEST_CASE("* and -> of a failed Result print its message and end the program") {
  const Result<std::string> failed = kError;
  for (const std::function<void()>& act : {std::function<void()>([&] { (void)*failed; }),
                                           std::function<void()>([&] { (void)failed->size(); })}) {
    const Ending ending = ending_of(act);
    CHECK(ending.signal == SIGABRT);
    CHECK(ending.printed.find("not_found: " + kError.message) != std::string::npos);
  }
  const Result<std::string> good = std::string("abc");
  CHECK(ending_of([&] { _exit(static_cast<int>(good->size()) - 3); }).signal == 0);
}

}  // namespace

}  // namespace weft::test
