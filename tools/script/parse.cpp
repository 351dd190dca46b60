// SPDX-License-Identifier: BSD-3-Clause
// Converts lines to steps; line.hpp parses a line after its first word.
#include "tools/script/parse.hpp"

#include "tools/script/line.hpp"
#include "tools/script/text.hpp"

namespace weft::script {

namespace {

constexpr int64_t kMostSteps = 2'000'000;

struct SourceLine {
  size_t number;
  std::string text;
  std::vector<std::string> words;
};

struct At : ScriptError {
  At(size_t line, const char* what) : ScriptError(what), line(line) {}
  size_t line;
};

std::vector<SourceLine> split(std::string_view text, std::string& title) {
  std::vector<SourceLine> lines;
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    const size_t first = line.find_first_not_of(" \t\r");
    if (title.empty() && first != std::string_view::npos && line[first] == '#' &&
        line.find("SPDX") == std::string_view::npos)
      title = line.substr(std::min(line.find_first_not_of("# \t", first), line.size()));
    std::vector<std::string> words = words_of(line);
    if (!words.empty()) lines.push_back({number, std::string(line.substr(first)), words});
  }
  return lines;
}

class Parser {
 public:
  Parser(std::vector<SourceLine> lines, Script& script)
      : lines_(std::move(lines)), script_(script) {}

  // Parses from line `at` to the end of the file or to the `end` of a block; returns its line.
  size_t block(size_t at, int64_t i, bool within) {
    for (; at < lines_.size(); ++at) {
      const SourceLine& line = lines_[at];
      try {
        if (line.words[0] == "end") {
          if (within) return at;
          throw ScriptError("'end' without any or repeat");
        }
        if (line.words[0] == "repeat")
          at = repeat(at, i);
        else if (line.words[0] == "any")
          at = any(at, i);
        else
          add(line, action(line.words, i));
      } catch (const At&) {
        throw;
      } catch (const ScriptError& complaint) {
        throw At(line.number, complaint.what());
      }
    }
    if (within) throw ScriptError("this block has no 'end'");
    return at;
  }

 private:
  void add(const SourceLine& line, Action action) {
    if (static_cast<int64_t>(script_.steps.size()) >= kMostSteps)
      throw ScriptError("more than 2,000,000 steps; repeat less often");
    script_.steps.push_back({line.number, line.text, std::move(action)});
  }

  size_t repeat(size_t at, int64_t i) {
    const SourceLine& line = lines_[at];
    if (line.words.size() != 2) throw ScriptError("write: repeat COUNT");
    const int64_t count = number(line.words[1], i);
    if (count < 1) throw ScriptError("repeat at least once");
    size_t end = at;
    for (int64_t turn = 0; turn < count; ++turn) end = block(at + 1, turn, true);
    return end;
  }

  size_t any(size_t at, int64_t i) {
    const SourceLine& line = lines_[at];
    Expect all;
    while (++at < lines_.size() && lines_[at].words[0] != "end") {
      Action one = action(lines_[at].words, i);
      const Expect* expect = std::get_if<Expect>(&one);
      if (!expect) throw At(lines_[at].number, "any .. end may contain only lines with '<'");
      all.packets.push_back(expect->packets[0]);
      all.window = expect->window;
    }
    if (at == lines_.size()) throw ScriptError("this block has no 'end'");
    add(line, std::move(all));
    return at;
  }

  std::vector<SourceLine> lines_;
  Script& script_;
};

}  // namespace

Result<Script> parse(std::string name, std::string_view text) {
  Script script;
  script.name = std::move(name);
  try {
    std::vector<SourceLine> lines = split(text, script.title);
    Parser(std::move(lines), script).block(0, -1, false);
  } catch (const At& at) {
    return Error{Code::invalid_argument,
                 script.name + ":" + std::to_string(at.line) + ": " + at.what()};
  } catch (const ScriptError& complaint) {
    return Error{Code::invalid_argument, script.name + ": " + complaint.what()};
  }
  if (script.steps.empty() || !std::holds_alternative<QpText>(script.steps[0].action))
    return Error{Code::invalid_argument,
                 script.name + ": a script begins with the end's queue pair: qp rc"};
  for (size_t i = 1; i < script.steps.size(); ++i)
    if (std::holds_alternative<QpText>(script.steps[i].action))
      return Error{Code::invalid_argument, script.name + ":" +
                                               std::to_string(script.steps[i].line) +
                                               ": a script has one queue pair"};
  return script;
}

}  // namespace weft::script
