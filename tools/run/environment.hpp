// SPDX-License-Identifier: BSD-3-Clause
// The environment in which a program finds the drop-in libraries.
#pragma once

#include <string>
#include <vector>

#include "weft/result.hpp"

namespace weft::run {

struct Variable {
  std::string name, value;
};

// LD_PRELOAD with the paths of the drop-in libraries behind what is there, and WEFT_VERBS_DEVICES.
// Error: not_found (the libraries lie neither beside the build's programs nor where installed).
Result<std::vector<Variable>> preloading(const std::vector<std::string>& devices);

// For programs of NCCL and RCCL: NCCL_NET_PLUGIN, and LD_LIBRARY_PATH with the folder of the
// plug-in before what is there. Error: not_found.
Result<std::vector<Variable>> selecting_nccl_plugin();
// For programs of libfabric: FI_PROVIDER_PATH with the folder of the providers before what is
// there. Error: not_found.
Result<std::vector<Variable>> offering_libfabric_providers();
// The devices of both: WEFT_DEVICE.
Variable naming_devices(const std::vector<std::string>& devices);

// The lines that set the variables: in a shell (sh), a file of NAME=VALUE lines as CI systems and
// docker --env-file read (file), a Dockerfile (docker), or as arguments of Open MPI's mpirun
// (mpirun).
std::string lines_for(const std::string& format, const std::vector<Variable>& variables);

}  // namespace weft::run
