// SPDX-License-Identifier: BSD-3-Clause
// Errors. Control-path calls return Result<T>: the value, or an Error with a code for programs and
// a short text for people that says what to do. Data-path calls return PostStatus, which never
// allocates. No call throws or aborts the process, but for reading the value of a failed Result.
// When memory runs out, a call fails with
// no_memory and changes nothing; a call that returns a list or an event returns none. Only
// to_string() throws std::bad_alloc, as std::string does.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace weft {

// Reasons of errors.
enum class Code : uint8_t {
  ok,
  invalid_argument,   // a bad parameter: the message names it
  not_found,          // no such device, address or peer
  no_memory,          // out of memory, descriptors, or a limit of the device
  not_supported,      // this provider or port cannot do it
  permission_denied,  // the operating system refused: the message says which right is needed
  busy,               // the object is in use
  would_block,        // not finished yet: call again when the descriptor is readable
  timed_out,          // the peer did not answer in time
  disconnected,       // the peer closed the connection
  address_in_use,     // another process owns the address
  queue_full,         // the send or receive queue has no free entry
  bad_state,          // the queue pair is in a state that forbids the call
  io_error,           // a system call failed: the message carries errno's text
  peer_failed,        // a rank of the communicator died or left: the message names it
  mismatch,           // ranks of a communicator called different operations
  canceled,           // this rank or another one canceled the operation
};

// The name of a code as spelled above, for logs and JSON.
std::string_view name(Code code) noexcept;

// A code, and a message that names the object, the values and the remedy.
struct Error {
  Code code = Code::invalid_argument;
  std::string message{};  // one sentence, no trailing newline
};

// What value() of a failed Result throws. what() is the message of the error.
class BadResult : public std::exception {
 public:
  explicit BadResult(Error error) : error_(std::move(error)) {}
  BadResult(const BadResult&) = default;
  BadResult& operator=(const BadResult&) = default;
  ~BadResult() override;
  const char* what() const noexcept override;
  const Error& error() const noexcept { return error_; }

  // For Result: throws a BadResult.
  [[noreturn]] static void raise(const Error& error);
  // Prints the message and aborts the process.
  [[noreturn]] static void end(const Error& error) noexcept;

 private:
  Error error_;
};

// A value of T or an Error. Test it as a bool, then use * or ->. Reading the value of a failed
// Result by * or -> is a programming error: it prints the message and ends the program, or in one
// compiled with NDEBUG throws BadResult. value() is for programs that let exceptions end them.
template <class T>
class [[nodiscard]] Result {
 public:
  // Success with a value.
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  // A failure.
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const noexcept { return state_.index() == 0; }
  // True if it holds a value.
  bool ok() const noexcept { return state_.index() == 0; }
  T& operator*() & { return *require(std::get_if<0>(&state_)); }
  const T& operator*() const& { return *require(std::get_if<0>(&state_)); }
  T&& operator*() && { return std::move(*require(std::get_if<0>(&state_))); }
  T* operator->() { return require(std::get_if<0>(&state_)); }
  const T* operator->() const { return require(std::get_if<0>(&state_)); }
  // The value, or throws BadResult.
  T& value() & { return *require_or_throw(std::get_if<0>(&state_)); }
  const T& value() const& { return *require_or_throw(std::get_if<0>(&state_)); }
  T&& value() && { return std::move(*require_or_throw(std::get_if<0>(&state_))); }
  // The error; only if !ok().
  const Error& error() const { return std::get<1>(state_); }

 private:
  template <class Pointer>
  Pointer require_or_throw(Pointer held) const {
    if (held == nullptr) [[unlikely]]
      BadResult::raise(std::get<1>(state_));
    return held;
  }
  template <class Pointer>
  Pointer require(Pointer held) const {
#ifndef NDEBUG
    if (held == nullptr) [[unlikely]]
      BadResult::end(std::get<1>(state_));
#endif
    return require_or_throw(held);
  }

  std::variant<T, Error> state_;
};

// Success, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  // A failure.
  Result(Error error) : error_(std::move(error)) {}

  explicit operator bool() const noexcept { return !error_; }
  // True on success.
  bool ok() const noexcept { return !error_; }
  // Returns, or throws BadResult.
  void value() const {
    if (error_) [[unlikely]]
      BadResult::raise(*error_);
  }
  // The error; only if !ok().
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

// The result of a post: how many requests of the span were accepted, in order, and why the next one
// was not. `reason` points to static text.
struct [[nodiscard]] PostStatus {
  Code code = Code::ok;
  uint32_t accepted = 0;
  const char* reason = "";

  explicit operator bool() const noexcept { return code == Code::ok; }
};

}  // namespace weft
