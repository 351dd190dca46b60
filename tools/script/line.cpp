// SPDX-License-Identifier: BSD-3-Clause
// Parses a line: a table row per first word, with the function that parses the rest.
#include "tools/script/line.hpp"

#include <algorithm>

#include "lib/roce/profiles.hpp"
#include "tools/script/parse.hpp"
#include "tools/script/words.hpp"

namespace weft::script {

namespace {

// "within 1ms" or "in 1ms..4ms" at the end of a line.
bool window(Rest& rest, Window& to) {
  if (rest.peek() == "within") {
    ++rest.at;
    to.most = duration(rest.take("a time"));
    return true;
  }
  if (rest.peek() != "in") return false;
  ++rest.at;
  const std::string& text = rest.take("a range of time like 1ms..4ms");
  const size_t dots = text.find("..");
  if (dots == std::string::npos) throw ScriptError("write a range of time like 1ms..4ms");
  to.least = duration(text.substr(0, dots));
  to.most = duration(text.substr(dots + 2));
  return true;
}

template <class E, size_t N>
E named(const std::string& word, const E (&values)[N], const char* what) {
  std::string all;
  for (const E value : values) {
    if (name(value) == word) return value;
    all += (all.empty() ? "" : ", ") + std::string(name(value));
  }
  throw ScriptError("\"" + word + "\" is no " + what + ": " + all);
}

QpState state_named(const std::string& word) {
  constexpr QpState kStates[] = {QpState::reset, QpState::init, QpState::rtr, QpState::rts,
                                 QpState::sqd,   QpState::sqe,  QpState::err};
  return named(word, kStates, "state");
}

Access rights(const std::string& text) {
  constexpr std::pair<const char*, Access> kRights[] = {
      {"write", Access::remote_write},       {"read", Access::remote_read},
      {"atomic", Access::remote_atomic},     {"flush", Access::flush_global},
      {"persist", Access::flush_persistent}, {"none", Access::none}};
  Access access = Access::local_write;
  for (size_t at = 0, end = 0; at <= text.size(); at = end + 1) {
    end = std::min(text.find(',', at), text.size());
    access =
        access | chosen(text.substr(at, end - at), kRights,
                        "rights are write, read, atomic, flush, persist or none, joined with ','");
  }
  return access;
}

std::string profile_named(const std::string& word) {
  std::string all;
  for (const roce::Profile& profile : roce::profiles()) {
    if (profile.name == word) return word;
    all += (all.empty() ? "" : ", ") + std::string(profile.name);
  }
  throw ScriptError("\"" + word + "\" is no profile: " + all);
}

Action qp_line(Rest& rest) {
  constexpr QpType kTypes[] = {QpType::rc, QpType::uc, QpType::ud, QpType::xrc_initiator,
                               QpType::xrc_target};
  QpText qp;
  qp.type = named(rest.take("rc, uc, ud, xrc_initiator or xrc_target"), kTypes, "service");
  while (!rest.empty()) {
    const std::string& word = rest.take("");
    std::string value;
    if (keyed(word, "state", value))
      qp.state = state_named(value);
    else if (keyed(word, "access", value))
      qp.access = rights(value);
    else if (keyed(word, "region", value))
      qp.region = rights(value);
    else if (keyed(word, "profile", value))
      qp.profile = profile_named(value);
    else if (keyed(word, "ip", value))
      qp.ipv6 = natural(value, rest.i) == 6;
    else if (!keyed_number(word, "mtu", rest.i, qp.mtu) &&
             !keyed_number(word, "timeout", rest.i, qp.timeout) &&
             !keyed_number(word, "retry", rest.i, qp.retry) &&
             !keyed_number(word, "rnr_retry", rest.i, qp.rnr_retry) &&
             !keyed_number(word, "min_rnr_timer", rest.i, qp.min_rnr_timer) &&
             !keyed_number(word, "max_rd", rest.i, qp.max_rd) &&
             !keyed_number(word, "depth", rest.i, qp.depth) &&
             !keyed_number(word, "credits", rest.i, qp.credits) &&
             !keyed_number(word, "dscp", rest.i, qp.dscp) &&
             !keyed_number(word, "ttl", rest.i, qp.ttl) &&
             !keyed_number(word, "label", rest.i, qp.flow_label) &&
             !keyed_number(word, "line_mbps", rest.i, qp.line_mbps) &&
             !keyed_number(word, "selective", rest.i, qp.selective) &&
             !keyed_number(word, "udp_source", rest.i, qp.udp_source) &&
             !keyed_number(word, "rate_mbps", rest.i, qp.rate_mbps) &&
             !keyed_number(word, "max_burst", rest.i, qp.max_burst))
      unknown(word,
              "a queue pair has state= access= region= mtu= timeout= retry= rnr_retry= "
              "min_rnr_timer= max_rd= depth= credits= ip= dscp= ttl= label= "
              "line_mbps= selective= udp_source= rate_mbps= max_burst= profile=");
  }
  return qp;
}

// ACK, NAK KIND and RNR are kinds of the acknowledgement opcode, also with XRC_ before them.
void read_opcode(Rest& rest, PacketText& packet) {
  const std::string& word = rest.take("an opcode");
  const bool xrc = word.starts_with("XRC_");
  const std::string answer = xrc ? word.substr(4) : word;
  if (answer == "ACK" || answer == "RNR" || answer == "NAK") {
    packet.opcode =
        wire::in_class(xrc ? wire::OpClass::xrc : wire::OpClass::rc, wire::kRcAcknowledge);
    packet.kind = answer == "ACK" ? 0 : answer == "RNR" ? 1 : 3;
  } else if (const std::optional<uint8_t> opcode = find_opcode(word)) {
    packet.opcode = *opcode;
  } else if (word.starts_with("0x")) {
    packet.opcode = static_cast<uint8_t>(natural(word, rest.i));
  } else {
    unknown(
        word,
        "expected an opcode: SEND_ONLY, WRITE_FIRST, READ, ACK ... (weft_script words lists them)");
  }
  if (answer != "NAK") return;
  constexpr std::pair<const char*, uint64_t> kKinds[] = {{"sequence", 0x60},
                                                         {"invalid_request", 0x61},
                                                         {"remote_access", 0x62},
                                                         {"remote_operation", 0x63},
                                                         {"invalid_rd", 0x64}};
  const std::string& kind = rest.take("what kind of NAK");
  for (const auto& [text, syndrome] : kKinds)
    if (kind == text) return packet.settings.push_back({find_field("syndrome"), syndrome}), void();
  unknown(kind,
          "a NAK is sequence, invalid_request, remote_access, remote_operation or invalid_rd");
}

void set(PacketText& packet, const char* field, int64_t value, bool relative) {
  packet.settings.push_back({find_field(field), static_cast<uint64_t>(value), relative});
}

void read_setting(const std::string& word, int64_t i, bool is_sent, PacketText& packet) {
  const size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  const Field* field = equals == std::string::npos ? nullptr : find_field(name);
  if (!field) unknown(word, "fields are listed by `weft_script words`");
  if (is_sent && !field->put) throw ScriptError(name + " can only be expected (after <)");
  if (!is_sent && !field->take) throw ScriptError(name + " can only be sent (after >)");
  if (!field->carried(wire::opcode_info(packet.opcode)))
    throw ScriptError("a packet like this one has no " + name);
  const std::string value = word.substr(equals + 1);
  const bool relative = value.starts_with('+') || value.starts_with('-');
  packet.settings.push_back({field, static_cast<uint64_t>(number(value, i)), relative});
}

PacketText packet_line(Rest& rest, bool is_sent, Window* when) {
  PacketText packet;
  read_opcode(rest, packet);
  while (!rest.empty()) {
    if (when && window(rest, *when)) continue;
    const std::string& word = rest.take("");
    uint64_t offset = 0;
    if (is_bytes(word))
      packet.data = bytes_of(word, rest.i);
    else if (word == "A" || word == "!A")
      set(packet, "ack", word == "A", false);
    else if (word == "SE" || word == "!SE")
      set(packet, "solicited", word == "SE", false);
    else if (place(word, rest.i, offset))
      set(packet, "address", static_cast<int64_t>(offset), true);
    else if (word.find('=') == std::string::npos)
      set(packet, "psn", number(word, rest.i), true);
    else
      read_setting(word, rest.i, is_sent, packet);
  }
  return packet;
}

Action say_line(Rest& rest) { return Say{packet_line(rest, true, nullptr)}; }

Action expect_line(Rest& rest) {
  Expect expect;
  expect.packets.push_back(packet_line(rest, false, &expect.window));
  return expect;
}

template <class T>
Action time_line(Rest& rest) {
  return T{duration(rest.take("a time"))};
}

template <class T>
Action bytes_line(Rest& rest) {
  T line;
  if (!place(rest.take("a place like @0"), rest.i, line.offset))
    throw ScriptError("write a place in the end's memory: @0");
  const std::string& data = rest.take("data");
  line.data = bytes_of(data, rest.i);
  return line;
}

Status status_named(const std::string& word) {
  constexpr Status kStatuses[] = {Status::success,
                                  Status::local_length_error,
                                  Status::local_qp_operation_error,
                                  Status::local_protection_error,
                                  Status::flushed,
                                  Status::mw_bind_error,
                                  Status::bad_response,
                                  Status::local_access_error,
                                  Status::remote_invalid_request,
                                  Status::remote_access_error,
                                  Status::remote_operation_error,
                                  Status::retry_exceeded,
                                  Status::rnr_retry_exceeded,
                                  Status::remote_aborted,
                                  Status::fatal};
  return named(word, kStatuses, "status");
}

Action done_line(Rest& rest) {
  Done done;
  const std::string& side = rest.take("send or receive");
  if (side != "send" && side != "receive") unknown(side, "write: done send, or done receive");
  done.receive = side == "receive";
  while (!rest.empty()) {
    if (window(rest, done.window)) continue;
    const std::string& word = rest.take("");
    if (word.find('=') == std::string::npos)
      done.status = status_named(word);
    else if (!keyed_number(word, "id", rest.i, done.id) &&
             !keyed_number(word, "bytes", rest.i, done.bytes) &&
             !keyed_number(word, "imm", rest.i, done.imm))
      unknown(word, "a completion has a status, id=, bytes=, imm=");
  }
  return done;
}

template <class T>
Action state_line(Rest& rest) {
  return T{state_named(rest.take("a state"))};
}

Action count_line(Rest& rest) {
  Count count;
  count.name = rest.take("a counter");
  count.value = natural(rest.take("its value"), rest.i);
  return count;
}

Action event_line(Rest& rest) { return Event{rest.take("the name of an event")}; }

Action virtual_line(Rest&) { return Virtual{}; }

struct Row {
  std::string_view word;
  Action (*read)(Rest& rest);
};
constexpr Row kRows[] = {
    {"qp", qp_line},
    {">", say_line},
    {"<", expect_line},
    {"nothing", time_line<Nothing>},
    {"wait", time_line<Wait>},
    {"fill", bytes_line<Fill>},
    {"memory", bytes_line<Memory>},
    {"post", post_line},
    {"receive", receive_line},
    {"done", done_line},
    {"modify", state_line<Modify>},
    {"state", state_line<State>},
    {"count", count_line},
    {"event", event_line},
    {"virtual", virtual_line},
};

}  // namespace

std::string_view line_list() {
  return "qp, >, <, any .. end, repeat N .. end, nothing, wait, fill, memory, post, receive, done, "
         "modify, state, count, event, virtual";
}

Action action(const std::vector<std::string>& words, int64_t i) {
  for (const Row& row : kRows) {
    if (row.word != words[0]) continue;
    Rest rest{words, i};
    Action read = row.read(rest);
    if (!rest.empty()) unknown(rest.peek(), "expected the end of the line");
    return read;
  }
  unknown(words[0], "a line begins with " + std::string(line_list()));
}

}  // namespace weft::script
