// SPDX-License-Identifier: BSD-3-Clause
// The output of the measuring programs: perftest's head, columns and JSON records.
#pragma once

#include <vector>

#include "bench/perftest/run.hpp"

namespace weft::bench {

// Prints the settings, and the addresses of both sides.
void print_head(const Session& session);
// The column titles, a result, the rule below them.
void print_titles(const Options& options);
void print_result(const Options& options, const SizeResult& result);
void print_foot();
void print_counters(const Device& device);
// SRD: prints the paths to the peer, if anything was sent.
void print_paths(const Session& session);

// Writes test_info and one record per size. Errors: io_error.
Result<void> write_json(const Session& session, const std::vector<SizeResult>& results);

}  // namespace weft::bench
