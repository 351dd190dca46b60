// SPDX-License-Identifier: BSD-3-Clause
// Writes what a run has shown (report.hpp).
#include "tools/script/report.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <regex>

namespace weft::script {

namespace {

// Text and attribute values of XML 1.0, which has no control characters.
std::string xml(const std::string& text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\n':
        out += "&#10;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  return out;
}

std::string folder_of(const std::string& script) {
  const std::string name = short_name(script);
  const size_t slash = name.find('/');
  return slash == std::string::npos ? "scripts" : name.substr(0, slash);
}

void write_case(std::ostream& out, const Attempt& row) {
  out << "    <testcase classname=\"" << xml(folder_of(row.script)) << "\" name=\""
      << xml(short_name(row.script) + " psn=" + row.psn) << "\" time=\"" << row.seconds << "\"";
  if (row.played.verdict == Verdict::passed) {
    out << "/>\n";
    return;
  }
  const bool failed = row.played.verdict == Verdict::failed;
  out << ">\n      <" << (failed ? "failure" : "skipped") << " message=\""
      << xml(failed ? row.title + "\n" + row.played.why : row.played.why) << "\"";
  if (failed) {
    out << ">";
    for (const std::string& line : row.played.trace) out << xml(line) << "\n";
    out << "</failure>\n    </testcase>\n";
  } else {
    out << "/>\n    </testcase>\n";
  }
}

}  // namespace

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed:
      return "ok";
    case Verdict::failed:
      return "FAILED";
    case Verdict::skipped:
      return "skipped";
  }
  return "?";
}

std::string rules_of(const std::string& title) {
  static const std::regex kRule("[A-Z]-[A-Z]+-[0-9]+|A[0-9][0-9](?![0-9])");
  std::string rules;
  for (std::sregex_iterator at(title.begin(), title.end(), kRule), end; at != end; ++at)
    rules += (rules.empty() ? "" : " ") + at->str();
  return rules;
}

std::string short_name(const std::string& file) {
  const std::filesystem::path path = std::filesystem::path(file).replace_extension();
  const std::string folder = path.parent_path().filename().string();
  return folder.empty() ? path.filename().string() : folder + "/" + path.filename().string();
}

void print_attempt(const Attempt& row, bool trace) {
  const Played& played = row.played;
  if (trace || played.verdict == Verdict::failed)
    for (const std::string& line : played.trace) std::printf("    %s\n", line.c_str());
  if (played.verdict == Verdict::passed && !trace) return;
  std::printf("%s %s, first PSN %s%s%s\n", std::string(name(played.verdict)).c_str(),
              row.script.c_str(), row.psn.c_str(), played.why.empty() ? "" : ": ",
              played.why.c_str());
}

void print_json(const Report& report, const std::string& wire, const std::string& end) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Attempt& row : report.attempts)
    rows.push_back({{"script", row.script},
                    {"title", row.title},
                    {"rules", rules_of(row.title)},
                    {"psn", row.psn},
                    {"verdict", name(row.played.verdict)},
                    {"line", row.played.line},
                    {"why", row.played.why},
                    {"seconds", row.seconds},
                    {"trace", row.played.trace}});
  std::cout << nlohmann::json{{"wire", wire},
                              {"end", end},
                              {"passed", report.passed},
                              {"failed", report.failed},
                              {"skipped", report.skipped},
                              {"scripts", rows}}
            << "\n";
}

Result<void> write_junit(const Report& report, const std::string& file) {
  std::ofstream out(file);
  size_t failures = 0, skipped = 0;
  double seconds = 0;
  for (const Attempt& row : report.attempts) {
    failures += row.played.verdict == Verdict::failed;
    skipped += row.played.verdict == Verdict::skipped;
    seconds += row.seconds;
  }
  out << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
      << "  <testsuite name=\"weft_script\" tests=\"" << report.attempts.size() << "\" failures=\""
      << failures << "\" errors=\"0\" skipped=\"" << skipped << "\" time=\"" << seconds << "\">\n";
  for (const Attempt& row : report.attempts) write_case(out, row);
  out << "  </testsuite>\n</testsuites>\n";
  out.flush();
  if (!out)
    return Error{Code::io_error, file +
                                     " cannot be written: name a file of a folder that "
                                     "can, with --junit"};
  return {};
}

}  // namespace weft::script
