// SPDX-License-Identifier: BSD-3-Clause
// Tables of words, and the options whose letters mean something else here.
#include "tools/coll/foreign_words.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

namespace weft::bench {
namespace {

using Words = std::pair<std::string_view, std::string_view>;

constexpr Words kForeignOperations[] = {
    {"allr", "all_reduce"},          {"allreduce", "all_reduce"},
    {"allg", "all_gather"},          {"allgather", "all_gather"},
    {"redsct", "reduce_scatter"},    {"reducescatter", "reduce_scatter"},
    {"alltoall", "all_to_all"},      {"bcast", "broadcast"},
    {"all_gatherv", "all_gather_v"}, {"allgatherv", "all_gather_v"},
    {"alltoallv", "all_to_all_v"}};
constexpr Words kForeignTypes[] = {
    {"char", "int8"},         {"int", "int32"},        {"half", "fp16"},
    {"float16", "fp16"},      {"float", "fp32"},       {"float32", "fp32"},
    {"double", "fp64"},       {"float64", "fp64"},     {"bfloat16", "bf16"},
    {"fp8", "fp8_e4m3"},      {"f8e4m3", "fp8_e4m3"},  {"f8e5m2", "fp8_e5m2"},
    {"uint8", "uint8"},       {"int8", "int8"},        {"uint16", "uint16"},
    {"int16", "int16"},       {"uint32", "uint32"},    {"int32", "int32"},
    {"uint64", "uint64"},     {"int64", "int64"},      {"fp16", "fp16"},
    {"bf16", "bf16"},         {"fp32", "fp32"},        {"fp64", "fp64"},
    {"fp8_e4m3", "fp8_e4m3"}, {"fp8_e5m2", "fp8_e5m2"}};
// Options that have a name of their own here, or another letter.
constexpr Words kForeignOptions[] = {{"-T", "--limit"},
                                     {"--timeout", "--limit"},
                                     {"-J", "--report-to-json-file"},
                                     {"--output_file", "--report-to-json-file"}};

// Options without a meaning for ranks on processors, and the value that asks for nothing.
struct Unused {
  std::string_view letter, name;
  std::string_view usual;  // empty: the option has no value
};
constexpr Unused kUnused[] = {{"-m", "--agg_iters", "1"},
                              {"-p", "--parallel_init", "0"},
                              {"-z", "--blocking", "0"},
                              {"-G", "--cudagraph", "0"},
                              {"-a", "--average", "1"},
                              {"-C", "--report_cputime", "0"},
                              {"-R", "--local_register", "0"},
                              {"-N", "--run_cycles", "1"},
                              {"-S", "--report_timestamps", "0"},
                              {"-D", "--device_implementation", "0"},
                              {"", "--nnodes", "1"},
                              {"", "--non-interactive", ""},
                              {"", "--show-input-output-size", ""}};

template <size_t n>
std::optional<std::string> translated(const Words (&table)[n], std::string_view word) {
  for (const auto& [foreign, ours] : table)
    if (foreign == word) return std::string(ours);
  return std::nullopt;
}

// "all_reduce_perf_mpi" is a program of nccl-tests.
std::string our_operation(std::string word) {
  for (const std::string_view ending : {"_mpi", "_perf"})
    if (word.ends_with(ending)) word.resize(word.size() - ending.size());
  return translated(kForeignOperations, word).value_or(word);
}

class Translation {
 public:
  Translation(int argc, char** argv) : given_(argv + 1, argv + argc) {
    split_values();
    for (const std::string& word : given_)
      of_nccl_ |= word == "-g" || word == "--ngpus" || word == "-t" || word == "--nthreads";
  }

  Result<std::vector<std::string>> run() {
    for (size_t i = 0; i < given_.size(); ++i) {
      const std::string& word = given_[i];
      const std::string* const value = i + 1 < given_.size() ? &given_[i + 1] : nullptr;
      if (const Unused* const unused = find_unused(word)) {
        if (const Result<void> dropped = drop(*unused, word, value); !dropped)
          return dropped.error();
        i += unused->usual.empty() ? 0 : 1;
      } else if (value != nullptr && takes_value(word, *value)) {
        ++i;
      } else if (word.starts_with("-")) {
        words_.push_back(translated(kForeignOptions, word).value_or(word));
      } else {
        words_.push_back(i > 0 && names_a_file(given_[i - 1]) ? word : our_operation(word));
      }
    }
    if (of_nccl_) {
      words_.push_back("--ranks");
      words_.push_back(std::to_string(gpus_ * threads_));
    }
    return std::move(words_);
  }

 private:
  // "--op=sum" as two words.
  void split_values() {
    std::vector<std::string> words;
    for (const std::string& word : given_) {
      const size_t equals = word.starts_with("--") ? word.find('=') : std::string::npos;
      words.push_back(word.substr(0, equals));
      if (equals != std::string::npos) words.push_back(word.substr(equals + 1));
    }
    given_ = std::move(words);
  }

  static const Unused* find_unused(std::string_view word) {
    for (const Unused& unused : kUnused)
      if (word == unused.name || (!unused.letter.empty() && word == unused.letter)) return &unused;
    return nullptr;
  }

  // What follows is no operation, whatever it is called.
  static bool names_a_file(std::string_view option) {
    constexpr std::string_view kFiles[] = {"-J",           "--output_file", "--report-to-json-file",
                                           "--trace",      "--dump",        "--store",
                                           "--prometheus", "--algorithm",   "--topology",
                                           "--network",    "--plot",        "--export-msccl",
                                           "-d",           "--device",      "merge"};
    return std::find(std::begin(kFiles), std::end(kFiles), option) != std::end(kFiles);
  }

  static Result<void> drop(const Unused& unused, const std::string& word,
                           const std::string* value) {
    if (unused.usual.empty()) return {};
    if (value != nullptr && *value == unused.usual) return {};
    return Error{Code::not_supported, word + (value != nullptr ? " " + *value : "") + ": " +
                                          std::string(unused.name) +
                                          " has no meaning here: leave it out"};
  }

  // Options whose value says what they are, or changes.
  bool takes_value(const std::string& word, const std::string& value) {
    const std::optional<std::string> type = translated(kForeignTypes, value);
    if (word == "-g" || word == "--ngpus") {
      gpus_ = std::strtoul(value.c_str(), nullptr, 10);
    } else if (word == "-t" || word == "--nthreads") {
      threads_ = std::strtoul(value.c_str(), nullptr, 10);
    } else if (word == "-r" && of_nccl_) {
      add("--root", value);
    } else if ((word == "-d" || word == "--datatype" || word == "--type") && type) {
      add("--type", *type);
    } else if (word == "-o" || word == "--op") {
      add("--op", our_operation(value));
    } else {
      return false;
    }
    return true;
  }

  void add(std::string option, std::string value) {
    words_.push_back(std::move(option));
    words_.push_back(std::move(value));
  }

  std::vector<std::string> given_, words_;
  bool of_nccl_ = false;  // -g or -t: then -r is the root
  unsigned long gpus_ = 1, threads_ = 1;
};

}  // namespace

Result<std::vector<std::string>> in_our_words(int argc, char** argv) {
  return Translation(argc, argv).run();
}

}  // namespace weft::bench
