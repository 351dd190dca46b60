// SPDX-License-Identifier: BSD-3-Clause
// Executes the commands of responder.hpp, the same for all endpoints: what is filled, digested,
// counted and posted does not depend on whose verbs carry it.
#include "tools/script/responder.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace weft::responder {

namespace {

constexpr int kPatience_ms = 20'000;      // without a completion, an operation counts as stuck
constexpr uint64_t kLongest_ms = 60'000;  // that a client may have a command wait
constexpr size_t kAlignment = 4096;

constexpr std::array<std::string_view, 8> kOperations = {
    "send", "send_with_imm", "write",     "write_with_imm",
    "read", "compare_swap",  "fetch_add", "send_with_invalidate"};

Operation operation(std::string_view name) {
  for (size_t i = 0; i < kOperations.size(); ++i)
    if (kOperations[i] == name) return static_cast<Operation>(i);
  throw std::runtime_error("no operation " + std::string(name));
}

Service service(std::string_view name) {
  if (name == "rc") return Service::rc;
  if (name == "uc") return Service::uc;
  if (name == "ud") return Service::ud;
  throw std::runtime_error("no service " + std::string(name));
}

bool is_atomic(Operation operation) {
  return operation == Operation::compare_swap || operation == Operation::fetch_add;
}

// FNV-1a, 64 bits.
uint64_t digest_of(std::span<const std::byte> bytes) {
  uint64_t value = 0xCBF29CE484222325;
  for (const std::byte byte : bytes) value = (value ^ static_cast<uint64_t>(byte)) * 0x100000001B3;
  return value;
}

// splitmix64 of the place and the seed.
std::byte pattern(uint64_t place, uint64_t seed) {
  uint64_t x = (seed << 32) + place / 8 + 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return static_cast<std::byte>((x ^ (x >> 31)) >> (place % 8 * 8));
}

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen((command + " 2>&1").c_str(), "r"), pclose);
  std::string text;
  for (int c; pipe && (c = std::fgetc(pipe.get())) != EOF;)
    text += c == '\n' ? ' ' : static_cast<char>(c);
  return text;
}

int limit_ms(const Words& words, std::optional<uint64_t> otherwise = {}) {
  return static_cast<int>(std::min(words.number("limit_ms", otherwise), kLongest_ms));
}

}  // namespace

class Commands::State {
 public:
  State(const ServeOptions& options, Endpoint& endpoint) : options_(options), endpoint_(endpoint) {}
  std::string execute(const std::string& line);

 private:
  std::span<std::byte> part(uint64_t offset, uint64_t length);
  Request request(const Words& words, Operation operation, uint64_t index);
  void note_receive(const Done& done);
  std::string open(const Words& words);
  std::string connect(const Words& words);
  std::string receive(const Words& words);
  std::string run(const Words& words);
  std::string collect(const Words& words);
  std::string post(const Words& words);
  std::string next(const Words& words);
  std::string poke(const Words& words);
  std::string peek(const Words& words);

  const ServeOptions& options_;
  Endpoint& endpoint_;
  std::unique_ptr<std::byte[], void (*)(void*)> memory_{nullptr, std::free};
  size_t size_ = 0;
  uint64_t received_ = 0, received_bytes_ = 0;
  bool in_order_ = true;
  std::string receive_status_ = "success";
};

std::span<std::byte> Commands::State::part(uint64_t offset, uint64_t length) {
  if (offset > size_ || length > size_ - offset)
    throw std::runtime_error("the memory ends at " + std::to_string(size_));
  return {memory_.get() + offset, length};
}

std::string Commands::State::open(const Words& words) {
  const uint64_t wanted = words.number("memory");
  if (wanted == 0 || wanted > kMaxMemory)
    throw std::runtime_error("memory=" + std::to_string(wanted) + " is not 1 to " +
                             std::to_string(kMaxMemory));
  const std::string device = words.text("device", options_.device);
  if (!options_.device.empty() && device != options_.device)
    throw std::runtime_error("this responder was started with " + options_.device +
                             " and opens no other device: leave device= out");
  // The memory before is registered until the endpoint opens another device.
  const size_t size = (wanted + kAlignment - 1) / kAlignment * kAlignment;
  std::unique_ptr<std::byte[], void (*)(void*)> memory(
      static_cast<std::byte*>(std::aligned_alloc(kAlignment, size)), std::free);
  if (!memory) throw std::bad_alloc();
  std::memset(memory.get(), 0, size);
  const Target target = endpoint_.open(device, {memory.get(), size});
  memory_ = std::move(memory);
  size_ = size;
  return "gid=" + target.gid +
         " address=" + std::to_string(reinterpret_cast<uintptr_t>(memory_.get())) +
         " rkey=" + std::to_string(target.rkey);
}

std::string Commands::State::connect(const Words& words) {
  Route route;
  route.gid = words.text("gid");
  route.qpn = static_cast<uint32_t>(words.number("qpn"));
  route.psn = static_cast<uint32_t>(words.number("psn"));
  route.peer_psn = static_cast<uint32_t>(words.number("peer_psn"));
  route.mtu = static_cast<uint32_t>(words.number("mtu", route.mtu));
  route.timeout = static_cast<uint8_t>(words.number("timeout", route.timeout));
  route.retry = static_cast<uint8_t>(words.number("retry", route.retry));
  route.rnr_retry = static_cast<uint8_t>(words.number("rnr_retry", route.rnr_retry));
  route.max_rd = static_cast<uint8_t>(words.number("max_rd", route.max_rd));
  endpoint_.connect(route);
  return "";
}

std::string Commands::State::receive(const Words& words) {
  const uint64_t size = words.number("size");
  for (uint64_t i = 0; i < words.number("count"); ++i) {
    const std::span<std::byte> slice = part(words.number("offset", 0) + i * size, size);
    endpoint_.receive(words.number("id", 0) + i, slice.data(), static_cast<uint32_t>(size));
  }
  received_ = received_bytes_ = 0;
  in_order_ = true;
  receive_status_ = "success";
  return "";
}

// Messages with immediate data carry their index.
void Commands::State::note_receive(const Done& done) {
  if (receive_status_ == "success") receive_status_ = done.status;
  in_order_ = in_order_ && done.imm == static_cast<uint32_t>(received_);
  ++received_;
  received_bytes_ += done.bytes;
}

Request Commands::State::request(const Words& words, Operation operation, uint64_t index) {
  const uint64_t size = is_atomic(operation) ? 8 : words.number("size");
  const std::span<std::byte> data = part(words.number("offset", 0) + index * size, size);
  Request request;
  request.operation = operation;
  request.id = index;
  request.data = data.data();
  request.length = static_cast<uint32_t>(size);
  request.remote_address = words.number("address", 0) + (is_atomic(operation) ? 0 : index * size);
  request.rkey = static_cast<uint32_t>(words.number("rkey", 0));
  request.imm = static_cast<uint32_t>(index);
  const bool swaps = operation == Operation::compare_swap;
  request.compare_add = swaps ? index : words.number("add", 1);
  request.swap = index + 1;
  return request;
}

std::string Commands::State::run(const Words& words) {
  const Operation what = operation(words.text("op"));
  const uint64_t count = words.number("count"), depth = words.number("depth", 16);
  uint64_t posted = 0, completed = 0;
  std::string status = "success";
  while (completed < count && status == "success") {
    for (; posted < count && posted - completed < depth; ++posted)
      endpoint_.post(request(words, what, posted));
    const std::optional<Done> done = endpoint_.next(kPatience_ms);
    if (!done)
      status = "nothing_happened";
    else if (done->receive)
      note_receive(*done);
    else if (done->status == "success")
      ++completed;
    else
      status = done->status;
  }
  return "status=" + status + " done=" + std::to_string(completed);
}

std::string Commands::State::collect(const Words& words) {
  while (received_ < words.number("count") && receive_status_ == "success") {
    const std::optional<Done> done = endpoint_.next(limit_ms(words, kPatience_ms));
    if (!done) receive_status_ = "nothing_happened";
    if (done && done->receive) note_receive(*done);
  }
  return "status=" + receive_status_ + " received=" + std::to_string(received_) +
         " bytes=" + std::to_string(received_bytes_) + " in_order=" + (in_order_ ? "1" : "0");
}

std::string Commands::State::post(const Words& words) {
  Request one;
  one.operation = operation(words.text("op"));
  one.id = words.number("id", 0);
  const std::span<std::byte> data = part(words.number("offset", 0), words.number("size"));
  one.data = data.data();
  one.length = static_cast<uint32_t>(data.size());
  one.remote_address = words.number("address", 0);
  one.rkey = static_cast<uint32_t>(words.number("rkey", 0));
  one.imm = static_cast<uint32_t>(words.number("imm", 0));
  const bool swaps = one.operation == Operation::compare_swap;
  one.compare_add = words.number(swaps ? "compare" : "add", 0);
  one.swap = words.number("swap", 0);
  one.invalidate = static_cast<uint32_t>(words.number("invalidate", 0));
  one.fence = words.number("fence", 0) != 0;
  endpoint_.post(one);
  return "";
}

std::string Commands::State::next(const Words& words) {
  const std::optional<Done> done = endpoint_.next(limit_ms(words));
  if (!done) return "kind=none";
  return std::string("kind=") + (done->receive ? "receive" : "send") + " status=" + done->status +
         " id=" + std::to_string(done->id) + " bytes=" + std::to_string(done->bytes) +
         " imm=" + std::to_string(done->imm) + " invalidated=" + std::to_string(done->invalidated);
}

std::string Commands::State::poke(const Words& words) {
  const std::string hex = words.text("hex");
  const std::span<std::byte> bytes = part(words.number("offset"), hex.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
  return "";
}

std::string Commands::State::peek(const Words& words) {
  std::string hex;
  for (const std::byte byte : part(words.number("offset"), words.number("length"))) {
    hex += "0123456789abcdef"[static_cast<unsigned>(byte) >> 4];
    hex += "0123456789abcdef"[static_cast<unsigned>(byte) & 15];
  }
  return "hex=" + hex;
}

std::string Commands::State::execute(const std::string& line) {
  const std::string name = line.substr(0, line.find(' '));
  if (name == "shell" && options_.shell)
    return "output=" + output_of(line.substr(line.find('=') + 1));
  const Words words(line);
  if (name == "open") return open(words);
  if (name == "connect") return connect(words);
  if (name == "receive") return receive(words);
  if (name == "run") return run(words);
  if (name == "collect") return collect(words);
  if (name == "post") return post(words);
  if (name == "next") return next(words);
  if (name == "poke") return poke(words);
  if (name == "peek") return peek(words);
  if (name == "attach") return endpoint_.attach(words.text("group")), "";
  if (name == "qp")
    return "qpn=" +
           std::to_string(endpoint_.make_qp(service(words.text("type")),
                                            static_cast<uint32_t>(words.number("depth", 256)),
                                            static_cast<uint32_t>(words.number("access", 15))));
  if (name == "ramp") {
    const std::span<std::byte> bytes = part(words.number("offset", 0), words.number("count") * 8);
    for (uint64_t i = 0; i < bytes.size() / 8; ++i) {
      const uint64_t word = i * words.number("step", 1);
      std::memcpy(&bytes[i * 8], &word, 8);
    }
    return "";
  }
  const uint64_t offset = words.number("offset", 0);
  const std::span<std::byte> bytes = part(offset, words.number("length"));
  if (name == "window")
    return "rkey=" +
           std::to_string(endpoint_.bind_window(bytes.data(), static_cast<uint32_t>(bytes.size())));
  if (name == "digest") return "digest=" + std::to_string(digest_of(bytes));
  if (name != "fill") throw std::runtime_error("no command " + name);
  const uint64_t seed = words.number("seed");
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(offset + i, seed);
  return "";
}

Words::Words(std::string_view line) {
  std::istringstream stream{std::string(line)};
  for (std::string word; stream >> word;) {
    const size_t equals = word.find('=');
    if (equals != std::string::npos) values_[word.substr(0, equals)] = word.substr(equals + 1);
  }
}

std::string Words::text(const std::string& key, const std::string& otherwise) const {
  const auto found = values_.find(key);
  if (found == values_.end() && !otherwise.empty()) return otherwise;
  if (found == values_.end()) throw std::runtime_error("no " + key + "=");
  return found->second;
}

uint64_t Words::number(const std::string& key, std::optional<uint64_t> otherwise) const {
  if (otherwise && !values_.contains(key)) return *otherwise;
  return std::stoull(text(key));
}

Commands::Commands(const ServeOptions& options, Endpoint& endpoint)
    : state_(std::make_unique<State>(options, endpoint)) {}
Commands::~Commands() = default;
std::string Commands::execute(const std::string& line) { return state_->execute(line); }

}  // namespace weft::responder
