// SPDX-License-Identifier: BSD-3-Clause
// See line.hpp: a row for each first word, and the function that reads the others.
#include "bench/script/line.hpp"

#include <algorithm>
#include <utility>

#include "bench/script/parse.hpp"
#include "bench/script/text.hpp"

namespace weft::script {

namespace {

// The words after the first, taken one by one.
struct Rest {
  const std::vector<std::string>& words;
  int64_t i;
  size_t at = 1;

  bool empty() const { return at == words.size(); }
  const std::string& peek() const { return words[at]; }
  const std::string& take(const char* what) {
    if (empty()) throw Complaint(std::string("here is missing: ") + what);
    return words[at++];
  }
};

[[noreturn]] void unknown(const std::string& word, const std::string& valid) {
  throw Complaint("\"" + word + "\" means nothing here; " + valid);
}

uint64_t natural(const std::string& text, int64_t i) {
  const int64_t value = number(text, i);
  if (value < 0) throw Complaint(text + " is negative");
  return static_cast<uint64_t>(value);
}

// "key=value" of `word`; false if it has another key.
bool keyed(const std::string& word, std::string_view key, std::string& value) {
  if (!word.starts_with(std::string(key) + "=")) return false;
  value = word.substr(key.size() + 1);
  return true;
}

template <class T>
bool keyed_number(const std::string& word, std::string_view key, int64_t i, T& to) {
  std::string value;
  if (!keyed(word, key, value)) return false;
  to = static_cast<T>(natural(value, i));
  return true;
}

bool keyed_number(const std::string& word, std::string_view key, int64_t i,
                  std::optional<uint64_t>& to) {
  std::string value;
  if (keyed(word, key, value)) return to = natural(value, i), true;
  return false;
}

// "@N": a place in memory.
bool place(const std::string& word, int64_t i, uint64_t& to) {
  if (!word.starts_with('@')) return false;
  to = static_cast<uint64_t>(number(word.substr(1), i));
  return true;
}

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
  if (dots == std::string::npos) throw Complaint("write a range of time like 1ms..4ms");
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
  throw Complaint("\"" + word + "\" is no " + what + ": " + all);
}

QpState state_named(const std::string& word) {
  constexpr QpState kStates[] = {QpState::reset, QpState::init, QpState::rtr, QpState::rts,
                                 QpState::sqd,   QpState::sqe,  QpState::err};
  return named(word, kStates, "state");
}

Access rights(const std::string& text) {
  Access access = Access::local_write;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string right = text.substr(at, end - at);
    if (right == "write")
      access = access | Access::remote_write;
    else if (right == "read")
      access = access | Access::remote_read;
    else if (right == "atomic")
      access = access | Access::remote_atomic;
    else if (right == "flush")
      access = access | Access::flush_global;
    else if (right != "none")
      unknown(right, "rights are write, read, atomic, flush or none, joined with ','");
    at = end + 1;
  }
  return access;
}

Action qp_line(Rest& rest) {
  constexpr QpType kTypes[] = {QpType::rc, QpType::uc, QpType::ud};
  QpText qp;
  qp.type = named(rest.take("rc, uc or ud"), kTypes, "service");
  while (!rest.empty()) {
    const std::string& word = rest.take("");
    std::string value;
    if (keyed(word, "state", value))
      qp.state = state_named(value);
    else if (keyed(word, "access", value))
      qp.access = rights(value);
    else if (!keyed_number(word, "mtu", rest.i, qp.mtu) &&
             !keyed_number(word, "timeout", rest.i, qp.timeout) &&
             !keyed_number(word, "retry", rest.i, qp.retry) &&
             !keyed_number(word, "rnr_retry", rest.i, qp.rnr_retry) &&
             !keyed_number(word, "min_rnr_timer", rest.i, qp.min_rnr_timer) &&
             !keyed_number(word, "max_rd", rest.i, qp.max_rd) &&
             !keyed_number(word, "depth", rest.i, qp.depth) &&
             !keyed_number(word, "credits", rest.i, qp.credits))
      unknown(word,
              "a queue pair has state= access= mtu= timeout= retry= rnr_retry= min_rnr_timer= "
              "max_rd= depth= credits=");
  }
  return qp;
}

// ACK, NAK KIND and RNR are the one opcode of acknowledgements.
void read_opcode(Rest& rest, PacketText& packet) {
  const std::string& word = rest.take("an opcode");
  if (word == "ACK" || word == "RNR" || word == "NAK") {
    packet.opcode = wire::kRcAcknowledge;
    packet.kind = word == "ACK" ? 0 : word == "RNR" ? 1 : 3;
  } else if (const std::optional<uint8_t> opcode = find_opcode(word)) {
    packet.opcode = *opcode;
  } else if (word.starts_with("0x")) {
    packet.opcode = static_cast<uint8_t>(natural(word, rest.i));
  } else {
    unknown(word,
            "it should be an opcode: SEND_ONLY, WRITE_FIRST, READ, ACK ... (weft_script words)");
  }
  if (word != "NAK") return;
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

void read_setting(const std::string& word, int64_t i, bool said, PacketText& packet) {
  const size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  const Field* field = equals == std::string::npos ? nullptr : find_field(name);
  if (!field) unknown(word, "fields are listed by `weft_script words`");
  if (said && !field->put) throw Complaint(name + " can be expected, not said");
  if (!said && !field->take) throw Complaint(name + " can be said, not expected");
  if (!field->carried(wire::opcode_info(packet.opcode)))
    throw Complaint("a packet like this one has no " + name);
  const std::string value = word.substr(equals + 1);
  const bool relative = value.starts_with('+') || value.starts_with('-');
  packet.settings.push_back({field, static_cast<uint64_t>(number(value, i)), relative});
}

PacketText packet_line(Rest& rest, bool said, Window* when) {
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
      read_setting(word, rest.i, said, packet);
  }
  return packet;
}

Action say_line(Rest& rest) { return Say{packet_line(rest, true, nullptr)}; }

Action hear_line(Rest& rest) {
  Hear hear;
  hear.packets.push_back(packet_line(rest, false, &hear.window));
  return hear;
}

template <class T>
Action time_line(Rest& rest) {
  return T{duration(rest.take("a time"))};
}

template <class T>
Action bytes_line(Rest& rest) {
  T line;
  if (!place(rest.take("a place like @0"), rest.i, line.offset))
    throw Complaint("write a place in the end's memory: @0");
  const std::string& data = rest.take("data");
  line.data = bytes_of(data, rest.i);
  return line;
}

Opcode opcode_named(const std::string& word) {
  constexpr std::pair<const char*, Opcode> kOpcodes[] = {{"SEND", Opcode::send},
                                                         {"SEND_IMM", Opcode::send_with_imm},
                                                         {"SEND_INV", Opcode::send_with_invalidate},
                                                         {"WRITE", Opcode::write},
                                                         {"WRITE_IMM", Opcode::write_with_imm},
                                                         {"READ", Opcode::read},
                                                         {"COMPARE_SWAP", Opcode::compare_swap},
                                                         {"FETCH_ADD", Opcode::fetch_add},
                                                         {"ATOMIC_WRITE", Opcode::atomic_write},
                                                         {"FLUSH", Opcode::flush}};
  for (const auto& [text, opcode] : kOpcodes)
    if (word == text) return opcode;
  unknown(word,
          "posted are SEND, SEND_IMM, SEND_INV, WRITE, WRITE_IMM, READ, COMPARE_SWAP, FETCH_ADD, "
          "ATOMIC_WRITE, FLUSH");
}

bool read_flag(const std::string& word, SendRequest& request) {
  if (word == "fence")
    request.flags = request.flags | SendFlags::fence;
  else if (word == "solicited")
    request.flags = request.flags | SendFlags::solicited;
  else if (word == "inline")
    request.flags = request.flags | SendFlags::inline_data;
  else if (word == "unsignaled")
    request.flags = static_cast<SendFlags>(static_cast<uint32_t>(request.flags) & ~1u);
  else
    return false;
  return true;
}

Action post_line(Rest& rest) {
  Post post;
  SendRequest& r = post.request;
  r.opcode = opcode_named(rest.take("what to post"));
  if (r.opcode == Opcode::compare_swap || r.opcode == Opcode::fetch_add) post.length = 8;
  while (!rest.empty()) {
    const std::string& word = rest.take("");
    std::string value;
    std::optional<uint64_t> from;
    if (is_bytes(word)) {
      post.data = bytes_of(word, rest.i);
      post.length = static_cast<uint32_t>(post.data->size());
    } else if (keyed(word, "add", value) || keyed(word, "compare", value)) {
      r.compare_add = static_cast<uint64_t>(number(value, rest.i));
    } else if (!place(word, rest.i, r.remote_address) && !read_flag(word, r) &&
               !keyed_number(word, "id", rest.i, r.id) &&
               !keyed_number(word, "from", rest.i, from) &&
               !keyed_number(word, "length", rest.i, post.length) &&
               !keyed_number(word, "imm", rest.i, r.imm) &&
               !keyed_number(word, "swap", rest.i, r.swap) &&
               !keyed_number(word, "region", rest.i, r.flush.whole_region) &&
               !keyed_number(word, "invalidate", rest.i, r.invalidate.value)) {
      unknown(word,
              "a request has @PLACE DATA id= from= length= imm= add= compare= swap= invalidate= "
              "region= "
              "fence solicited inline unsignaled");
    }
    if (from) post.from = static_cast<uint32_t>(*from);
  }
  if (r.opcode == Opcode::flush) r.flush.length = std::exchange(post.length, 0);
  return post;
}

Action receive_line(Rest& rest) {
  Receive receive;
  receive.length = static_cast<uint32_t>(natural(rest.take("how many bytes"), rest.i));
  while (!rest.empty()) {
    const std::string& word = rest.take("");
    uint64_t offset = receive.from;
    if (!place(word, rest.i, offset) && !keyed_number(word, "id", rest.i, receive.id))
      unknown(word, "a receive has @PLACE and id=");
    receive.from = static_cast<uint32_t>(offset);
  }
  return receive;
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
    {"<", hear_line},
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
    if (!rest.empty()) unknown(rest.peek(), "the line is complete before it");
    return read;
  }
  unknown(words[0], "a line begins with " + std::string(line_list()));
}

}  // namespace weft::script
