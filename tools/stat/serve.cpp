// SPDX-License-Identifier: BSD-3-Clause
// See serve.hpp. The HTTP server is cpp-httplib (libcpp-httplib-dev).
#include "tools/stat/serve.hpp"

#if WEFT_HAVE_HTTPLIB
#include <httplib.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "lib/base/tcp.hpp"
#include "tools/stat/print.hpp"
#endif

namespace weft::stat {

#if WEFT_HAVE_HTTPLIB

namespace {

constexpr const char* kFormat = "text/plain; version=0.0.4; charset=utf-8";
constexpr size_t kMostRequest = 4096;  // bytes of a body, which GET has not

// A process of another version may answer what cannot be read: then it counts as not read.
bool readable(const Json& snapshot) {
  try {
    (void)prometheus({snapshot});
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

std::string metrics(pid_t only) {
  std::vector<Json> snapshots;
  size_t unread = 0;
  for (const pid_t process : only != 0 ? std::vector<pid_t>{only} : find_processes()) {
    Result<Json> snapshot = query(process);
    if (snapshot && snapshot->is_object()) (*snapshot)["pid"] = process;  // not what it says
    if (snapshot && readable(*snapshot))
      snapshots.push_back(*std::move(snapshot));
    else
      ++unread;
  }
  return "# HELP weft_processes Processes with open devices, by whether they could be read\n"
         "# TYPE weft_processes gauge\n"
         "weft_processes{read=\"yes\"} " +
         std::to_string(snapshots.size()) + "\nweft_processes{read=\"no\"} " +
         std::to_string(unread) + "\n" + prometheus(snapshots);
}

// Not SO_REUSEPORT, the library's default, by which two servers share a port.
void set_options(int socket) {
  const int yes = 1;
  (void)::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

}  // namespace

Result<void> serve(const std::string& address, pid_t process) {
  const Result<base::HostPort> where = base::parse_host_port(address, 0);
  if (!where || where->host.empty() || where->port == 0)
    return Error{Code::invalid_argument,
                 "--serve takes ADDRESS:PORT, like 127.0.0.1:9464; not '" + address + "'"};
  httplib::Server server;
  server.new_task_queue = [] { return new httplib::ThreadPool(2); };
  server.set_payload_max_length(kMostRequest);
  server.set_read_timeout(5);
  server.set_socket_options(set_options);
  server.Get("/metrics", [process](const httplib::Request&, httplib::Response& response) {
    response.set_content(metrics(process), kFormat);
  });
  server.Get("/", [](const httplib::Request&, httplib::Response& response) {
    response.set_content("weft_stat: the metrics are at /metrics\n", "text/plain");
  });
  // Threads of the server inherit that these wait for sigwait().
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  if (!server.bind_to_port(where->host, where->port))
    return Error{Code::address_in_use, "cannot listen at " + address +
                                           ": choose another port, or an address of this machine"};
  std::atomic<bool> ended = false;
  std::thread answers([&] {
    server.listen_after_bind();
    ended = true;
  });
  // stop() has no effect on a server that does not listen yet.
  while (!server.is_running() && !ended) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::printf("metrics at http://%s/metrics\n", address.c_str());
  std::fflush(stdout);
  constexpr timespec kPause{0, 100'000'000};
  while (!ended && ::sigtimedwait(&ends, nullptr, &kPause) < 0) continue;
  const bool failed = ended;
  server.stop();
  answers.join();
  if (failed) return Error{Code::io_error, address + ": the server has stopped to answer"};
  return {};
}

#else

Result<void> serve(const std::string&, pid_t) {
  return Error{Code::not_supported,
               "--serve: built without cpp-httplib (apt-get install libcpp-httplib-dev): run "
               "weft_stat PID --prometheus from the node exporter's textfile collector instead"};
}

#endif

}  // namespace weft::stat
