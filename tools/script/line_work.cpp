// SPDX-License-Identifier: BSD-3-Clause
// The lines with which the end's program posts requests and receives.
#include <utility>

#include "tools/script/line.hpp"
#include "tools/script/words.hpp"

namespace weft::script {

namespace {

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
  return chosen(word, kOpcodes,
                "posted are SEND, SEND_IMM, SEND_INV, WRITE, WRITE_IMM, READ, COMPARE_SWAP, "
                "FETCH_ADD, ATOMIC_WRITE, FLUSH");
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

}  // namespace

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
               !keyed_number(word, "srq", rest.i, r.remote_srq) &&
               !keyed_number(word, "invalidate", rest.i, r.invalidate.value)) {
      unknown(word,
              "a request has @PLACE DATA id= from= length= imm= add= compare= swap= invalidate= "
              "region= srq= fence solicited inline unsignaled");
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

}  // namespace weft::script
