// SPDX-License-Identifier: BSD-3-Clause
// The functions of weft/sim.h.
#include <memory>
#include <optional>
#include <utility>

#include "lib/adapters/c/call.hpp"
#include "lib/adapters/sim/called_controller.hpp"
#include "lib/adapters/sim/columns.hpp"
#include "lib/sim/scenario/scenario.hpp"

struct weft_sim {
  weft::sim::scenario::Scenario scenario;
  weft::sim::flow::Parameters parameters;
};
struct weft_sim_result {
  weft::c::SimColumns columns;
};

using weft::Code;
using weft::Result;
using weft::c::call;
using weft::c::failed;
namespace sim = weft::sim;

namespace {

Result<sim::scenario::Scenario> read(const std::string& text, uint64_t seed) {
  Result<sim::scenario::Scenario> scenario = text.find('\n') != std::string::npos
                                                 ? sim::scenario::parse_scenario(text, seed)
                                                 : sim::scenario::read_scenario(text, seed);
  if (scenario && !scenario->jobs.empty())
    return weft::Error{Code::not_supported,
                       "the scenario has [[jobs]], which the program weft_sim runs; here it may "
                       "have [[flows]]"};
  return scenario;
}

Result<sim::flow::RunResult> run(const weft_sim& it, const Result<sim::flow::Scheme>& scheme,
                                 uint64_t seed, sim::flow::Progress* progress) {
  if (!scheme) return scheme.error();
  sim::flow::RunOptions options = sim::scenario::run_options(it.scenario, it.parameters, seed);
  options.progress = progress;
  return sim::flow::run(it.scenario.topology, *scheme, it.scenario.flows, options);
}

Result<sim::flow::RunResult> run_named(const weft_sim& it, const weft_sim_run_options& options) {
  const std::string name =
      options.controller != nullptr ? options.controller : it.scenario.controllers.front();
  return run(it, sim::flow::make_scheme(name, it.parameters, it.scenario.topology), options.seed,
             nullptr);
}

Result<sim::flow::RunResult> run_called(const weft_sim& it, const weft_sim_run_options& options) {
  if (it.parameters[sim::flow::Net::fidelity] != 0)
    return weft::Error{Code::not_supported,
                       "a callback is for hosts of host.fidelity=flow; the engines take a "
                       "controller of C++: WEFT_CONTROLLER of <weft/congestion.hpp>"};
  const Result<weft::congestion::Signal> signal =
      weft::c::CalledController::signal_of(options.signal);
  if (!signal) return signal.error();
  weft::c::CalledController controller(options, *signal);
  Result<sim::flow::RunResult> result =
      run(it, sim::flow::make_scheme(controller.kind(), false, it.parameters, it.scenario.topology),
          options.seed, &controller.progress());
  if (result && controller.failed())
    return weft::Error{Code::invalid_argument,
                       "the controller " + std::string(controller.kind().name) + " failed"};
  return result;
}

}  // namespace

void weft_sim_run_options_init(weft_sim_run_options* options, size_t size) {
  weft_sim_run_options defaults{};
  defaults.seed = 1;
  weft::c::initialise(options, size, defaults);
}

weft_code weft_sim_open(const char* scenario, uint64_t seed, weft_sim** made) {
  return call({{"scenario", scenario}, {"sim", made}}, [&] {
    Result<sim::scenario::Scenario> found = read(scenario, seed);
    if (!found) return failed(found.error());
    std::unique_ptr<weft_sim> it(new weft_sim{std::move(*found), sim::flow::Parameters()});
    for (const auto& [key, value] : it->scenario.settings)
      if (const Result<void> set = it->parameters.set(key, value); !set) return failed(set.error());
    *made = it.release();
    return WEFT_OK;
  });
}

void weft_sim_close(weft_sim* it) { delete it; }

weft_code weft_sim_set(weft_sim* it, const char* key, const char* value) {
  return call({{"sim", it}, {"key", key}, {"value", value}},
              [&] { return weft::c::done(it->parameters.set(key, value)); });
}

weft_code weft_sim_run(weft_sim* it, const weft_sim_run_options* given, weft_sim_result** made) {
  return call({{"sim", it}, {"result", made}}, [&] {
    weft_sim_run_options options;
    weft_sim_run_options_init(&options, sizeof options);
    if (const weft_code code = weft::c::known(given, options, "weft_sim_run_options");
        code != WEFT_OK)
      return code;
    const Result<sim::flow::RunResult> result =
        options.callback != nullptr ? run_called(*it, options) : run_named(*it, options);
    if (!result) return failed(result.error());
    *made = new weft_sim_result{weft::c::SimColumns(it->scenario, *result)};
    return WEFT_OK;
  });
}

weft_code weft_sim_columns(const weft_sim_result* result, const weft_sim_column** columns,
                           size_t* count) {
  return call({{"result", result}, {"columns", columns}, {"count", count}}, [&] {
    *columns = result->columns.all().data();
    *count = result->columns.all().size();
    return WEFT_OK;
  });
}

void weft_sim_result_free(weft_sim_result* result) { delete result; }
