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
#include "lib/base/kernel/socket.hpp"
#include "lib/base/log/json_string.hpp"
#include "lib/verbs/inspection.hpp"

namespace weft::verbs {

namespace {

constexpr int kSendTimeoutMs = 1000;  // a client that reads nothing for so long is dropped

// An open device.
struct Entry {
  explicit Entry(Context& device) : context(&device) {}
  std::mutex mutex;  // held while the device is inspected
  Context* context;  // null: it has been closed
  std::atomic<bool> closing{false};
  const base::ForkMark fork_mark;
};

// One per process; never destroyed, because devices may outlive every static object.
struct StatServer {
  std::mutex lifecycle;  // start and stop of the thread; taken before `mutex`, never by the thread
  std::mutex mutex;
  std::vector<std::shared_ptr<Entry>> entries;
  std::thread thread;
  std::atomic<int> listener{-1}, stop{-1};
};

std::atomic<StatServer*> process_server{nullptr};

void close_sockets(StatServer& server) noexcept {
  for (std::atomic<int>* fd : {&server.listener, &server.stop})
    if (const int old = fd->exchange(-1); old >= 0) ::close(old);
}

// A child of fork() has no thread, and its locks are in an unknown state.
void reset_in_child() noexcept {
  if (StatServer* const old = process_server.load()) close_sockets(*old);
  process_server.store(new (std::nothrow) StatServer);
}

StatServer* current_server() {
  static const bool made = [] {
    process_server.store(new StatServer);
    return ::pthread_atfork(nullptr, nullptr, &reset_in_child) == 0;
  }();
  (void)made;
  return process_server.load();
}

// -1: the name is in use, or there are no more descriptors.
int listen_on_abstract_name() noexcept {
  const int fd = base::kernel_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK);
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

bool may_inspect(int connection) noexcept {
  ucred who{};
  socklen_t length = sizeof who;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0) return false;
  return who.uid == 0 || who.uid == ::geteuid();
}

// Returns early when `stop` is readable or the client reads nothing for kSendTimeoutMs.
void send_all(int connection, int stop, std::string_view text) noexcept {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kSendTimeoutMs);
  while (!text.empty() && std::chrono::steady_clock::now() < end) {
    const ssize_t sent = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      text.remove_prefix(static_cast<size_t>(sent));
      continue;
    }
    pollfd ready[] = {{connection, POLLOUT, 0}, {stop, POLLIN, 0}};
    if (errno != EAGAIN || ::poll(ready, 2, kSendTimeoutMs) <= 0 || ready[1].revents != 0) return;
  }
}

std::string inspect_all(StatServer& server) {
  std::vector<std::shared_ptr<Entry>> entries;
  {
    const std::lock_guard<std::mutex> hold(server.mutex);
    entries = server.entries;
  }
  std::string text = "{\"weft_stat\":1,\"pid\":" + std::to_string(::getpid()) + ",\"program\":";
  base::append_json_string(text, program_invocation_short_name);
  text += ",\"devices\":[";
  bool first = true;
  for (const std::shared_ptr<Entry>& entry : entries) {
    const std::lock_guard<std::mutex> hold(entry->mutex);
    if (entry->context == nullptr) continue;
    if (!first) text += ',';
    first = false;
    append_json(text, entry->context->attributes(), entry->context->inspect(entry->closing));
  }
  return text += "]}\n";
}

void answer(StatServer& server, int connection) noexcept {
  try {
    send_all(connection, server.stop,
             may_inspect(connection) ? inspect_all(server) : "{\"error\":\"permission denied\"}\n");
  } catch (const std::exception&) {  // no memory: the client sees the end of the stream
  }
  ::close(connection);
}

void serve(StatServer& server, int listener, int stop) noexcept {
  pollfd wanted[] = {{stop, POLLIN, 0}, {listener, POLLIN, 0}};
  while (true) {
    if (::poll(wanted, 2, -1) < 0 && errno != EINTR) return;
    if (wanted[0].revents != 0) return;
    const int connection = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection >= 0) {
      answer(server, connection);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
      ::poll(wanted, 1, 100);  // until a descriptor is closed
    }
  }
}

// The caller holds server.lifecycle.
void start_thread(StatServer& server) noexcept {
  server.listener = listen_on_abstract_name();
  server.stop = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (server.listener < 0 || server.stop < 0) return close_sockets(server);
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // the user's handlers run on the user's threads
  try {
    server.thread =
        std::thread(serve, std::ref(server), server.listener.load(), server.stop.load());
    ::pthread_setname_np(server.thread.native_handle(), "weft-stat");
  } catch (const std::exception&) {
    close_sockets(server);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// The caller holds server.lifecycle.
void stop_thread(StatServer& server) noexcept {
  if (!server.thread.joinable()) return;
  const uint64_t one = 1;
  if (::write(server.stop, &one, sizeof one) == sizeof one) server.thread.join();
  close_sockets(server);
}

void add_device(const std::shared_ptr<Entry>& entry) {
  const char* const setting = std::getenv("WEFT_STAT");
  if (setting != nullptr && std::string_view(setting) == "0") return;
  StatServer* const server = current_server();
  if (server == nullptr) return;
  const std::lock_guard<std::mutex> lifecycle(server->lifecycle);
  {
    const std::lock_guard<std::mutex> hold(server->mutex);
    server->entries.push_back(entry);
  }
  if (!server->thread.joinable()) start_thread(*server);
}

// In a child of fork() nothing is done: the parent's devices are not served there, and their locks
// may be held by threads that do not exist.
void remove_device(const std::shared_ptr<Entry>& entry) noexcept {
  if (entry->fork_mark.passed() || process_server.load() == nullptr) return;
  entry->closing = true;
  {
    const std::lock_guard<std::mutex> hold(entry->mutex);
    entry->context = nullptr;
  }
  StatServer& server = *process_server.load();
  const std::lock_guard<std::mutex> lifecycle(server.lifecycle);
  bool last = false;
  {
    const std::lock_guard<std::mutex> hold(server.mutex);
    std::erase(server.entries, entry);
    last = server.entries.empty();
  }
  if (last) stop_thread(server);
}

}  // namespace

std::shared_ptr<Context> make_inspectable(std::shared_ptr<Context> context) {
  auto entry = std::make_shared<Entry>(*context);
  Context* const device = context.get();
  add_device(entry);
  return std::shared_ptr<Context>(device, [entry, context](Context*) mutable {
    remove_device(entry);
    context.reset();
  });
}

}  // namespace weft::verbs
