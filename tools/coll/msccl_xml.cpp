// SPDX-License-Identifier: BSD-3-Clause
// XML to plan, by expat, and back.
#include "tools/coll/msccl_xml.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#if WEFT_HAVE_EXPAT
#include <expat.h>
#endif

namespace weft::bench {
namespace {

using collective::MscclBlock;
using collective::MscclBuffer;
using collective::MscclChunks;
using collective::MscclKind;
using collective::MscclPlan;
using collective::MscclRank;
using collective::MscclStep;

constexpr std::pair<std::string_view, Collective> kCollectives[] = {
    {"allreduce", Collective::all_reduce},
    {"allgather", Collective::all_gather},
    {"reduce_scatter", Collective::reduce_scatter},
    {"reducescatter", Collective::reduce_scatter},
    {"broadcast", Collective::broadcast},
    {"reduce", Collective::reduce},
    {"alltoall", Collective::all_to_all}};

std::string xml_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"')
      out += "&quot;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else
      out += c;
  }
  return out + "\"";
}

template <class T>
std::string xml_attribute(const char* name, T value) {
  std::string text;
  if constexpr (std::is_arithmetic_v<T>)
    text = std::to_string(value);
  else
    text = value;
  return std::string(" ") + name + "=" + xml_text(text);
}

std::string xml_place(const char* buffer, const char* offset, const MscclStep& step,
                      const MscclChunks& chunks) {
  static constexpr const char* kBuffers[] = {"i", "o", "s"};
  const int64_t index = step.kind == MscclKind::nothing ? -1 : int64_t{chunks.index};
  return xml_attribute(buffer, kBuffers[static_cast<int>(chunks.buffer)]) +
         xml_attribute(offset, index);
}

std::string step_xml(const MscclStep& step, size_t number) {
  return "      <step" + xml_attribute("s", number) +
         xml_attribute("type", std::string(name(step.kind))) +
         xml_place("srcbuf", "srcoff", step, step.source) +
         xml_place("dstbuf", "dstoff", step, step.target) + xml_attribute("cnt", step.count) +
         xml_attribute("depid", step.after_block) + xml_attribute("deps", step.after_step) +
         xml_attribute("hasdep", step.awaited ? 1 : 0) + "/>\n";
}

}  // namespace

std::string msccl_xml(const MscclPlan& plan) {
  std::string_view coll;
  for (const auto& [word, collective] : kCollectives)
    if (coll.empty() && collective == plan.collective) coll = word;
  std::string xml =
      "<algo" + xml_attribute("name", plan.name) + xml_attribute("proto", "Simple") +
      xml_attribute("nchannels", plan.channels) + xml_attribute("nchunksperloop", plan.chunks) +
      xml_attribute("ngpus", plan.ranks.size()) + xml_attribute("coll", std::string(coll)) +
      xml_attribute("inplace", plan.in_place ? 1 : 0) +
      xml_attribute("outofplace", plan.in_place ? 0 : 1) +
      xml_attribute("minBytes", plan.min_bytes) + xml_attribute("maxBytes", plan.max_bytes) + ">\n";
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const MscclRank& of = plan.ranks[rank];
    xml += "  <gpu" + xml_attribute("id", rank) + xml_attribute("i_chunks", of.input_chunks) +
           xml_attribute("o_chunks", of.output_chunks) +
           xml_attribute("s_chunks", of.scratch_chunks) + ">\n";
    for (size_t b = 0; b < of.blocks.size(); ++b) {
      const MscclBlock& block = of.blocks[b];
      xml += "    <tb" + xml_attribute("id", b) + xml_attribute("send", block.send) +
             xml_attribute("recv", block.receive) + xml_attribute("chan", block.channel) + ">\n";
      for (size_t s = 0; s < block.steps.size(); ++s) xml += step_xml(block.steps[s], s);
      xml += "    </tb>\n";
    }
    xml += "  </gpu>\n";
  }
  return xml + "</algo>\n";
}

#if WEFT_HAVE_EXPAT

namespace {

constexpr uint32_t kMaxBlocksRead = 4096, kMaxStepsRead = 1 << 16;

class Reading {
 public:
  explicit Reading(std::string path) : path_(std::move(path)), parser_(XML_ParserCreate(nullptr)) {
    XML_SetUserData(parser_, this);
    XML_SetElementHandler(parser_, &begin, &end);
    XML_SetDoctypeDeclHandler(parser_, &doctype, nullptr);
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  ~Reading() { XML_ParserFree(parser_); }

  Result<MscclPlan> run(const std::string& text) {
    const XML_Status status =
        XML_Parse(parser_, text.data(), static_cast<int>(text.size()), XML_TRUE);
    if (!error_ && status == XML_STATUS_ERROR)
      fail(Code::invalid_argument, XML_ErrorString(XML_GetErrorCode(parser_)));
    if (!error_ && !begun_) fail(Code::invalid_argument, "there is no algo");
    if (!error_ && plan_.ranks.size() != ranks_)
      fail(Code::invalid_argument, "ngpus is " + std::to_string(ranks_) + ", and there are " +
                                       std::to_string(plan_.ranks.size()) + " gpus");
    return error_ ? Result<MscclPlan>(*error_) : std::move(plan_);
  }

 private:
  static void begin(void* user, const char* tag, const char** attributes) {
    static_cast<Reading*>(user)->on_begin(tag, attributes);
  }
  static void end(void*, const char*) {}
  static void doctype(void* user, const char*, const char*, const char*, int) {
    static_cast<Reading*>(user)->fail(Code::invalid_argument, "a plan has no DOCTYPE");
  }

  void fail(Code code, const std::string& text) {
    if (!error_)
      error_ = Error{code,
                     path_ + ":" + std::to_string(XML_GetCurrentLineNumber(parser_)) + ": " + text};
    XML_StopParser(parser_, XML_FALSE);
  }

  std::optional<std::string> find(const char* name) const {
    for (const char** at = attributes_; *at != nullptr; at += 2)
      if (std::strcmp(at[0], name) == 0) return at[1];
    return std::nullopt;
  }
  std::string word(const char* name) {
    const std::optional<std::string> found = find(name);
    if (!found) fail(Code::invalid_argument, tag_ + " has no " + name);
    return found.value_or("");
  }
  int64_t number(const char* name, int64_t least, int64_t most) {
    const std::string text = word(name);
    int64_t value = 0;
    const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (wrong == std::errc() && end == text.data() + text.size() && value >= least && value <= most)
      return value;
    fail(Code::invalid_argument, tag_ + "'s " + name + " is '" + text + "': it is " +
                                     std::to_string(least) + " to " + std::to_string(most));
    return least;
  }
  uint32_t count(const char* name, uint32_t most) {
    return static_cast<uint32_t>(number(name, 0, most));
  }
  uint64_t bytes(const char* name) {
    return find(name) ? static_cast<uint64_t>(number(name, 0, INT64_MAX)) : 0;
  }

  void on_begin(const char* tag, const char** attributes) {
    if (error_) return;
    tag_ = tag;
    attributes_ = attributes;
    if (tag_ == "algo") return on_algorithm();
    if (!begun_) return fail(Code::invalid_argument, tag_ + " is outside of an algo");
    if (tag_ == "gpu") return on_rank();
    if (tag_ == "tb") return on_block();
    if (tag_ == "step") on_step();
  }

  void on_algorithm() {
    if (std::exchange(begun_, true)) return fail(Code::invalid_argument, "a second algo");
    plan_.name = word("name");
    const std::string coll = word("coll");
    const auto* const found = std::find_if(std::begin(kCollectives), std::end(kCollectives),
                                           [&](const auto& known) { return known.first == coll; });
    if (found == std::end(kCollectives))
      return fail(Code::not_supported, "coll is '" + coll +
                                           "': known are allreduce, allgather, reduce_scatter, "
                                           "broadcast, reduce, alltoall");
    plan_.collective = found->second;
    ranks_ = count("ngpus", collective::kMaxMscclRanks);
    plan_.chunks = count("nchunksperloop", collective::kMaxMscclChunks);
    plan_.channels = count("nchannels", 1 << 16);
    plan_.in_place = count("inplace", 1) == 1;
    plan_.min_bytes = bytes("minBytes");
    plan_.max_bytes = bytes("maxBytes");
  }

  void on_rank() {
    if (count("id", ranks_) != plan_.ranks.size() || plan_.ranks.size() == ranks_)
      return fail(Code::invalid_argument, "gpus are numbered from 0 to " +
                                              std::to_string(int64_t{ranks_} - 1) + ", in order");
    plan_.ranks.push_back({count("i_chunks", collective::kMaxMscclChunks),
                           count("o_chunks", collective::kMaxMscclChunks),
                           count("s_chunks", collective::kMaxMscclChunks),
                           {}});
  }

  void on_block() {
    if (plan_.ranks.empty()) return fail(Code::invalid_argument, "tb is outside of a gpu");
    std::vector<MscclBlock>& blocks = plan_.ranks.back().blocks;
    if (count("id", kMaxBlocksRead) != blocks.size())
      return fail(Code::invalid_argument, "tbs of a gpu are numbered from 0 on, in order");
    blocks.push_back({static_cast<int32_t>(number("send", -1, collective::kMaxMscclRanks)),
                      static_cast<int32_t>(number("recv", -1, collective::kMaxMscclRanks)),
                      count("chan", 1 << 16),
                      {}});
  }

  void on_step() {
    if (plan_.ranks.empty() || plan_.ranks.back().blocks.empty())
      return fail(Code::invalid_argument, "step is outside of a tb");
    std::vector<MscclStep>& steps = plan_.ranks.back().blocks.back().steps;
    if (steps.size() == kMaxStepsRead) return fail(Code::not_supported, "a tb has too many steps");
    MscclStep step;
    const std::string type = word("type");
    int kind = 0;
    while (kind <= static_cast<int>(MscclKind::nothing) &&
           name(static_cast<MscclKind>(kind)) != type)
      ++kind;
    if (kind > static_cast<int>(MscclKind::nothing))
      return fail(Code::not_supported, "the step type is '" + type +
                                           "': known are s, r, rcs, rrc, rrs, rrcs, re, cpy, nop");
    step.kind = static_cast<MscclKind>(kind);
    step.source = chunks("srcbuf", "srcoff", step.kind);
    step.target = chunks("dstbuf", "dstoff", step.kind);
    step.count = count("cnt", collective::kMaxMscclChunks);
    step.after_block = static_cast<int32_t>(number("depid", -1, kMaxBlocksRead));
    step.after_step = static_cast<int32_t>(number("deps", -1, kMaxStepsRead));
    step.awaited = number("hasdep", 0, 1) == 1;
    step.line = static_cast<uint32_t>(XML_GetCurrentLineNumber(parser_));
    steps.push_back(step);
  }

  MscclChunks chunks(const char* buffer, const char* offset, MscclKind kind) {
    const std::string where = word(buffer);
    const int64_t index = number(offset, -1, collective::kMaxMscclChunks);
    const size_t found = std::string_view("ios").find(where);
    if (where.size() != 1 || found == std::string_view::npos)
      fail(Code::not_supported, std::string(buffer) + " is '" + where + "': known are i, o, s");
    // A step that does nothing has no place, whatever stands there.
    if (kind == MscclKind::nothing) return {MscclBuffer::input, UINT32_MAX};
    return {static_cast<MscclBuffer>(found), static_cast<uint32_t>(std::max<int64_t>(index, 0))};
  }

  std::string path_;
  XML_Parser parser_;
  std::optional<Error> error_;
  MscclPlan plan_;
  bool begun_ = false;
  uint32_t ranks_ = 0;
  std::string tag_;
  const char** attributes_ = nullptr;
};

}  // namespace

Result<MscclPlan> read_msccl(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file && !file.eof()) return Error{Code::io_error, "cannot read the plan " + path};
  return parse_msccl(text, path);
}

Result<MscclPlan> parse_msccl(const std::string& text, const std::string& path) {
  if (text.size() > size_t{1} << 30) return Error{Code::not_supported, path + " is too large"};
  return Reading(path).run(text);
}

#else

Result<MscclPlan> read_msccl(const std::string& path) { return parse_msccl({}, path); }

Result<MscclPlan> parse_msccl(const std::string&, const std::string& path) {
  return Error{Code::not_supported,
               "cannot read the plan " + path +
                   ": this weft_coll was built without expat (apt-get install libexpat1-dev)"};
}

#endif

}  // namespace weft::bench
