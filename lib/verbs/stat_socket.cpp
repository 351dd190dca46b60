// SPDX-License-Identifier: BSD-3-Clause
// See stat_socket.hpp.
#include "lib/verbs/stat_socket.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "lib/base/fork.hpp"
#include "lib/verbs/inspection.hpp"

namespace weft::verbs {

namespace {

constexpr int kPatience_ms = 1000;  // for a reader that does not read

// A device on offer.
struct Entry {
  explicit Entry(Context& device) : context(&device) {}
  std::mutex mutex;  // held during a look
  Context* context;  // null: it has closed
  std::atomic<bool> leaving{false};
  const base::ForkMark fork_mark;
};

// Of a process; never destroyed, because devices may outlive every static object.
struct Office {
  std::mutex lifecycle;  // of the thread; taken before `mutex`, never by the thread
  std::mutex mutex;
  std::vector<std::shared_ptr<Entry>> entries;
  std::thread thread;
  std::atomic<int> listener{-1}, stop{-1};
};

std::atomic<Office*> office{nullptr};

void close_sockets(Office& of) noexcept {
  for (std::atomic<int>* fd : {&of.listener, &of.stop})
    if (const int old = fd->exchange(-1); old >= 0) ::close(old);
}

// The child has no thread; its locks are as they were in the middle of whatever the parent did.
void begin_anew_in_child() noexcept {
  if (Office* const old = office.load()) close_sockets(*old);
  office.store(new (std::nothrow) Office);
}

Office* current_office() {
  static const bool made = [] {
    office.store(new Office);
    return ::pthread_atfork(nullptr, nullptr, &begin_anew_in_child) == 0;
  }();
  (void)made;
  return office.load();
}

// -1: the name is taken, or there are no more descriptors.
int listen_at_own_name() noexcept {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const int size =
      std::snprintf(&name.sun_path[1], sizeof name.sun_path - 1, "weft-stat/%d", ::getpid());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&name), length) == 0 && ::listen(fd, 8) == 0)
    return fd;
  ::close(fd);
  return -1;
}

bool may_look(int connection) noexcept {
  ucred who{};
  socklen_t length = sizeof who;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0) return false;
  return who.uid == 0 || who.uid == ::geteuid();
}

// Until `stop` is readable, or the reader takes nothing for long.
void send_all(int connection, int stop, std::string_view text) noexcept {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatience_ms);
  while (!text.empty() && std::chrono::steady_clock::now() < end) {
    const ssize_t sent = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      text.remove_prefix(static_cast<size_t>(sent));
      continue;
    }
    pollfd ready[] = {{connection, POLLOUT, 0}, {stop, POLLIN, 0}};
    if (errno != EAGAIN || ::poll(ready, 2, kPatience_ms) <= 0 || ready[1].revents != 0) return;
  }
}

std::string look(Office& of) {
  std::vector<std::shared_ptr<Entry>> entries;
  {
    const std::lock_guard<std::mutex> hold(of.mutex);
    entries = of.entries;
  }
  std::string text = "{\"weft_stat\":1,\"pid\":" + std::to_string(::getpid()) + ",\"program\":";
  append_json(text, program_invocation_short_name);
  text += ",\"devices\":[";
  bool first = true;
  for (const std::shared_ptr<Entry>& entry : entries) {
    const std::lock_guard<std::mutex> hold(entry->mutex);
    if (entry->context == nullptr) continue;
    if (!first) text += ',';
    first = false;
    append_json(text, entry->context->attributes(), entry->context->inspect(entry->leaving));
  }
  return text += "]}\n";
}

void answer(Office& of, int connection) noexcept {
  try {
    send_all(connection, of.stop,
             may_look(connection) ? look(of) : "{\"error\":\"permission denied\"}\n");
  } catch (const std::exception&) {  // no memory: the reader sees the end
  }
  ::close(connection);
}

void serve(Office& of, int listener, int stop) noexcept {
  pollfd wanted[] = {{stop, POLLIN, 0}, {listener, POLLIN, 0}};
  while (true) {
    if (::poll(wanted, 2, -1) < 0 && errno != EINTR) return;
    if (wanted[0].revents != 0) return;
    const int connection = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection >= 0) {
      answer(of, connection);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
      ::poll(wanted, 1, 100);  // somebody closes something
    }
  }
}

// With of.lifecycle.
void open_for_visitors(Office& of) noexcept {
  of.listener = listen_at_own_name();
  of.stop = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (of.listener < 0 || of.stop < 0) return close_sockets(of);
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // the user's handlers run on the user's threads
  try {
    of.thread = std::thread(serve, std::ref(of), of.listener.load(), of.stop.load());
    ::pthread_setname_np(of.thread.native_handle(), "weft-stat");
  } catch (const std::exception&) {
    close_sockets(of);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// With of.lifecycle.
void close_for_visitors(Office& of) noexcept {
  if (!of.thread.joinable()) return;
  const uint64_t one = 1;
  if (::write(of.stop, &one, sizeof one) == sizeof one) of.thread.join();
  close_sockets(of);
}

void enter(const std::shared_ptr<Entry>& entry) {
  const char* const wish = std::getenv("WEFT_STAT");
  if (wish != nullptr && std::string_view(wish) == "0") return;
  Office* const of = current_office();
  if (of == nullptr) return;
  const std::lock_guard<std::mutex> lifecycle(of->lifecycle);
  {
    const std::lock_guard<std::mutex> hold(of->mutex);
    of->entries.push_back(entry);
  }
  if (!of->thread.joinable()) open_for_visitors(*of);
}

// The parent's devices are not on offer in a child, and their locks may be held by nobody there.
void leave(const std::shared_ptr<Entry>& entry) noexcept {
  if (entry->fork_mark.passed() || office.load() == nullptr) return;
  entry->leaving = true;
  {
    const std::lock_guard<std::mutex> hold(entry->mutex);
    entry->context = nullptr;
  }
  Office& of = *office.load();
  const std::lock_guard<std::mutex> lifecycle(of.lifecycle);
  bool last = false;
  {
    const std::lock_guard<std::mutex> hold(of.mutex);
    std::erase(of.entries, entry);
    last = of.entries.empty();
  }
  if (last) close_for_visitors(of);
}

}  // namespace

std::shared_ptr<Context> offer_to_look(std::shared_ptr<Context> context) {
  auto entry = std::make_shared<Entry>(*context);
  Context* const device = context.get();
  enter(entry);
  return std::shared_ptr<Context>(device, [entry, context](Context*) mutable {
    leave(entry);
    context.reset();
  });
}

}  // namespace weft::verbs
