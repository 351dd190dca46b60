// SPDX-License-Identifier: BSD-3-Clause
// A live end, controlled over TCP (live_stage.hpp).
#include "tools/script/live_stage.hpp"

#include <netdb.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "lib/verbs/device_spec.hpp"
#include "providers/software/open.hpp"

namespace weft::script {

namespace {

constexpr uint64_t kMemory = 1u << 20;
constexpr uint32_t kBatch = 32;
constexpr Duration kNap = Duration::from_ms(1);
// 67 ms: with less, the end may retransmit before the responder has received the next command.
constexpr uint8_t kLeastTimeout = 14;

Instant clock_now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return Instant{} + Duration::from_s(t.tv_sec) + Duration::from_ns(t.tv_nsec);
}

std::string hex(const Bytes& data) {
  std::string text;
  for (const std::byte byte : data) {
    text += "0123456789abcdef"[static_cast<unsigned>(byte) >> 4];
    text += "0123456789abcdef"[static_cast<unsigned>(byte) & 15];
  }
  return text;
}

template <class... Parts>
std::string line(const Parts&... parts) {
  std::string text;
  const auto add = [&text](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>)
      text += std::to_string(part);
    else
      text += part;
  };
  (add(parts), ...);
  return text;
}

const char* responder_word(Opcode opcode) {
  switch (opcode) {
    case Opcode::send:
      return "send";
    case Opcode::send_with_imm:
      return "send_with_imm";
    case Opcode::write:
      return "write";
    case Opcode::write_with_imm:
      return "write_with_imm";
    case Opcode::read:
      return "read";
    case Opcode::compare_swap:
      return "compare_swap";
    case Opcode::fetch_add:
      return "fetch_add";
    default:
      throw NotSupportedByEnd("a live end cannot post this operation");
  }
}

Status status_of(const std::string& text) {
  for (int i = 0; i <= static_cast<int>(Status::fatal); ++i)
    if (name(static_cast<Status>(i)) == text) return static_cast<Status>(i);
  throw ScriptError("the responder reports an unknown status: " + text);
}

// The address of this host from which packets go to `destination`, in brackets if it is IPv6.
Result<std::string> address_towards(const std::string& destination) {
  const auto unknown = [&] {
    return Error{Code::not_found, "this host has no route to " + destination +
                                      ", the end's address: name the port that reaches it with "
                                      "--wire, as roce+af_packet:eth0"};
  };
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(destination.c_str(), "4791", &hints, &found) != 0) return unknown();
  const int fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  char text[NI_MAXHOST] = {};
  const bool named = fd >= 0 && ::connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
                     getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text,
                                 nullptr, 0, NI_NUMERICHOST) == 0;
  const bool v6 = found->ai_family == AF_INET6;
  freeaddrinfo(found);
  if (fd >= 0) close(fd);
  if (!named) return unknown();
  return v6 ? "[" + std::string(text) + "]" : std::string(text);
}

}  // namespace

class LiveStage final : public Stage {
 public:
  explicit LiveStage(Live& live) : live_(live), port_(*live.port_) {}

  Meeting meet(const QpText& qp, Psn peer_first, Psn end_first) override;
  void say(const Bytes& frame, const Meeting& meeting, const Draft& draft) override;
  std::optional<ReceivedPacket> expect(Duration limit) override;
  void post(const Post& post, const Meeting& meeting) override;
  void receive(const Receive& receive) override;
  std::optional<Outcome> done(Duration limit) override;
  void fill(uint64_t offset, const Bytes& data) override;
  Bytes memory(uint64_t offset, size_t size) override;
  void modify(QpState) override { cannot("change its state"); }
  QpState state() override { cannot("report its state"); }
  uint64_t count(const std::string&) override { cannot("report its counters"); }
  std::string event() override { cannot("report its events"); }
  void wait(Duration time) override;
  Instant now() override { return clock_now(); }
  bool exact() const override { return false; }

 private:
  [[noreturn]] static void cannot(const char* what) {
    throw NotSupportedByEnd(std::string("a live end cannot ") + what);
  }
  std::map<std::string, std::string> send_command(const std::string& text) {
    return live_.responder_->send_command(text);
  }
  void fetch();

  Live& live_;
  transport::Port& port_;
  QpNum own_;
  uint64_t own_next_ = kMemory / 2;
  std::deque<ReceivedPacket> frames_received_;
};

Meeting LiveStage::meet(const QpText& qp, Psn peer_first, Psn end_first) {
  if (qp.type == QpType::ud || is_xrc(qp.type) || qp.state != QpState::rts ||
      qp.min_rnr_timer != 12 || qp.special())
    cannot(
        "be made like this (ud, xrc_*, state=, min_rnr_timer=, credits=, region=, ip=, dscp=, "
        "ttl=, label=, line_mbps=, selective=, udp_source=, rate_mbps=, profile=)");
  const auto opened = live_.open_end();
  // New queue pair and PSN numbers: packets of the previous script do not match.
  const transport::Port::QpnRange range = port_.qpn_range();
  own_ = QpNum{range.first + 1 + live_.scripts_++ % (range.count - 1)};
  Meeting meeting;
  meeting.peer = {port_.address(), own_, peer_first, 0x0000'5C00'0000'0000, RKey{0x5C5C5C5C}};
  const Result<Gid> address = parse_gid(opened.at("gid"));
  if (!address) throw ScriptError(address.error().message);
  meeting.end = {*address, QpNum{}, end_first, std::stoull(opened.at("address")),
                 RKey{static_cast<uint32_t>(std::stoul(opened.at("rkey")))}};
  meeting.source_port = port_.source_port(meeting.source_port, 0);
  const auto made = send_command(line("qp type=", std::string(name(qp.type)), " depth=", qp.depth,
                                      " access=", static_cast<uint32_t>(qp.access)));
  meeting.end.qpn = QpNum{static_cast<uint32_t>(std::stoul(made.at("qpn")))};
  const uint8_t timeout = qp.timeout == 0 ? uint8_t{0} : std::max(qp.timeout, kLeastTimeout);
  send_command(line("connect gid=", to_string(meeting.peer.address), " qpn=", own_.value,
                    " psn=", end_first.value, " peer_psn=", peer_first.value, " mtu=", qp.mtu,
                    " timeout=", int{timeout}, " retry=", int{qp.retry},
                    " rnr_retry=", int{qp.rnr_retry}, " max_rd=", int{qp.max_rd}));
  return meeting;
}

void LiveStage::say(const Bytes& frame, const Meeting& meeting, const Draft& draft) {
  if (draft.other_source) throw NotSupportedByEnd("the peer has only one address on a live wire");
  OuterDraft usual;
  usual.ecn = draft.outer.ecn;
  if (draft.outer != usual)
    throw NotSupportedByEnd("a live wire writes all fields of the outer headers but ecn itself");
  const transport::Path path{.source = meeting.peer.address,
                             .destination = meeting.end.address,
                             .source_port = meeting.source_port,
                             .traffic_class = draft.outer.ecn};
  transport::TxFrame out{};
  out.path = &path;
  out.head = frame.data();
  out.head_length = static_cast<uint32_t>(frame.size());
  out.header_length = static_cast<uint8_t>(std::min<size_t>(frame.size(), wire::kBthLength));
  out.ecn = draft.outer.ecn;
  const Instant end = now() + Duration::from_s(1);
  while (port_.transmit({&out, 1}) == 0)
    if (now() > end) throw ScriptError("the port refuses packets: its transmit queue is full");
}

void LiveStage::fetch() {
  transport::Frame frames[kBatch];
  for (size_t n; (n = port_.receive(frames)) != 0;) {
    for (const transport::Frame& frame : std::span(frames, n)) {
      ReceivedPacket received;
      received.bytes.assign(frame.bytes, frame.bytes + frame.length);
      received.bytes.insert(received.bytes.end(), frame.more, frame.more + frame.more_length);
      received.path = *frame.path;
      received.ip_id = frame.ip_id;
      received.ip_id_known = frame.ip_id_known;
      received.at = now();
      const auto& bth = *reinterpret_cast<const wire::Bth*>(received.bytes.data());
      const bool ours = received.bytes.size() >= wire::kBthLength && bth.dest_qpn == own_.value;
      if (ours) frames_received_.push_back(std::move(received));
    }
    port_.release({frames, n});
  }
}

std::optional<ReceivedPacket> LiveStage::expect(Duration limit) {
  const Instant end = now() + limit;
  for (;;) {
    fetch();
    if (!frames_received_.empty()) break;
    if (now() >= end) return {};
    std::vector<pollfd> descriptors;
    if (!port_.prepare_wait(descriptors, false)) continue;
    for (pollfd& d : descriptors) d.events = POLLIN;
    ::poll(descriptors.data(), descriptors.size(), static_cast<int>(kNap.ms()));
    port_.finish_wait();
  }
  ReceivedPacket received = std::move(frames_received_.front());
  frames_received_.pop_front();
  return received;
}

void LiveStage::post(const Post& post, const Meeting& meeting) {
  const SendRequest& r = post.request;
  if (r.flags != SendFlags::signaled) cannot("post with fence, solicited, inline or unsignaled");
  uint64_t from = post.from.value_or(0);
  if (post.data) {
    if (!post.from) from = own_next_, own_next_ += (post.length + 63) / 64 * 64;
    fill(from, *post.data);
  }
  send_command(line("post op=", responder_word(r.opcode), " id=", r.id, " offset=", from,
                    " size=", post.length, " address=", r.remote_address + meeting.peer.memory,
                    " rkey=", meeting.peer.key.value, " imm=", r.imm, " add=", r.compare_add,
                    " compare=", r.compare_add, " swap=", r.swap));
}

void LiveStage::receive(const Receive& receive) {
  send_command(
      line("receive count=1 size=", receive.length, " offset=", receive.from, " id=", receive.id));
}

std::optional<Outcome> LiveStage::done(Duration limit) {
  const auto answer = send_command(line("next limit_ms=", std::max<int64_t>(limit.ms(), 0)));
  if (answer.at("kind") == "none") return {};
  return Outcome{answer.at("kind") == "receive", status_of(answer.at("status")),
                 std::stoull(answer.at("id")), std::stoull(answer.at("bytes")),
                 std::stoull(answer.at("imm"))};
}

void LiveStage::fill(uint64_t offset, const Bytes& data) {
  if (!data.empty()) send_command(line("poke offset=", offset, " hex=", hex(data)));
}

Bytes LiveStage::memory(uint64_t offset, size_t size) {
  if (size == 0) return {};
  const std::string text = send_command(line("peek offset=", offset, " length=", size)).at("hex");
  return bytes_of("hex:" + text, -1);
}

void LiveStage::wait(Duration time) {
  const Instant end = now() + time;
  while (now() < end) {
    const timespec nap{0, std::min<long>(1'000'000, (end - now()).ns())};
    nanosleep(&nap, nullptr);
    fetch();
  }
}

std::map<std::string, std::string> Live::open_end() {
  const std::string device = device_.empty() ? "" : line(" device=", device_);
  return responder_->send_command(line("open", device, " memory=", kMemory));
}

Result<void> Live::open_wire() {
  Result<verbs::DeviceSpec> spec = verbs::parse_device_spec(wire_);
  if (!spec) return spec.error();
  Result<software::OpenedPort> opened = software::open_port(*spec, {}, 4791);
  if (!opened) return opened.error();
  if (opened->first().capabilities().integrity_bits == 0)
    return Error{
        Code::not_supported,
        wire_ + " carries no ICRC, which scripts need: name a udp, af_packet or dpdk port"};
  port_ = std::move(opened->ports.front());
  return {};
}

Result<std::unique_ptr<Live>> Live::open(const LiveOptions& options) {
  std::unique_ptr<Live> live(new Live);
  live->wire_ = options.wire;
  if (!options.wire.empty())
    if (Result<void> opened = live->open_wire(); !opened) return opened.error();
  Result<std::unique_ptr<ResponderClient>> responder = ResponderClient::connect(options.responder);
  if (!responder) return responder.error();
  live->responder_ = std::move(*responder);
  live->device_ = options.device;
  try {
    live->end_ = live->open_end().at("gid");
  } catch (const NotSupportedByEnd& refused) {
    return Error{Code::not_supported, options.responder + ": " + refused.what()};
  }
  if (!options.wire.empty()) return live;
  Result<std::string> address = address_towards(live->end_);
  if (!address) return address.error();
  live->wire_ = "roce+udp:" + *address;
  if (Result<void> opened = live->open_wire(); !opened) return opened.error();
  return live;
}

std::unique_ptr<Stage> Live::stage() { return std::make_unique<LiveStage>(*this); }

}  // namespace weft::script
