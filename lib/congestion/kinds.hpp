// SPDX-License-Identifier: BSD-3-Clause
// The controllers' constants, each defined in the file of its name.
#pragma once

#include "lib/congestion/controller.hpp"

namespace weft::congestion {

extern const Kind kNone;
extern const Kind kDcqcnPaper;    // dcqcn.cpp
extern const Kind kDcqcnNic;      // dcqcn.cpp
extern const Kind kDcqcnHpccsim;  // dcqcn.cpp
extern const Kind kHpcc;
extern const Kind kHpccPint;
extern const Kind kPowerTcp;
extern const Kind kThetaPowerTcp;  // powertcp.cpp
extern const Kind kSwift;
extern const Kind kMswift;  // swift.cpp
extern const Kind kTimely;
extern const Kind kTimelyPatched;
extern const Kind kDctcp;
extern const Kind kNscc;
extern const Kind kRccc;
extern const Kind kNsccRccc;  // rccc.cpp

}  // namespace weft::congestion
