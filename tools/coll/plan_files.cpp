// SPDX-License-Identifier: BSD-3-Clause
// Plans from files as algorithms of this process.
#include <cstdlib>
#include <filesystem>
#include <set>

#include "lib/collective/msccl/program.hpp"
#include "tools/coll/msccl_xml.hpp"

namespace weft::bench {
namespace {

bool is_taken(const std::string& name, Collective collective) {
  return !!collective::find_algorithm(name, collective, 1) ||
         collective::find_algorithm(name, collective, 1).error().code != Code::not_found;
}

}  // namespace

bool is_plan_file(const std::string& algorithm) {
  return algorithm.ends_with(".xml") || algorithm.find('/') != std::string::npos;
}

// What algorithms() names lives as long as the process.
Result<std::string> load_plan(const std::string& path) {
  Result<collective::MscclPlan> plan = read_msccl(path);
  if (!plan) return plan.error();
  plan->name = std::filesystem::path(path).filename().string();
  const Collective collective = plan->collective;
  Result<std::unique_ptr<collective::MscclProgram>> program =
      collective::MscclProgram::make(*std::move(plan));
  if (!program) return program.error();
  static std::set<std::string>* const names = new std::set<std::string>;
  std::string name = std::filesystem::path(path).stem().string();
  if (is_taken(name, collective)) name = path;
  const std::string& kept = *names->insert(name).first;
  const Result<void> added = collective::add_algorithm(
      {.name = kept, .collective = collective, .source = program->release()});
  return added ? Result<std::string>(kept) : added.error();
}

Result<void> load_plan_folder() {
  const char* const folder = std::getenv("WEFT_COLL_PLAN_DIR");
  if (folder == nullptr || *folder == '\0') return {};
  std::error_code unreadable;
  std::set<std::string> files;  // in the same order on all ranks
  for (const auto& entry : std::filesystem::directory_iterator(folder, unreadable))
    if (entry.path().extension() == ".xml") files.insert(entry.path().string());
  if (unreadable)
    return Error{Code::io_error, std::string("WEFT_COLL_PLAN_DIR: cannot read ") + folder + ": " +
                                     unreadable.message()};
  for (const std::string& file : files)
    if (const Result<std::string> loaded = load_plan(file); !loaded) return loaded.error();
  return {};
}

}  // namespace weft::bench
