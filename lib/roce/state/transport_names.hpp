// SPDX-License-Identifier: BSD-3-Clause
// RoCE uses the names of lib/transport (Port, Frame, Machine, WorkRing ...) without a prefix. The
// public API has a CompletionQueue, too; in namespace weft::roce it is that of lib/transport.
#pragma once

namespace weft::transport {
class CompletionQueue;
}  // namespace weft::transport

namespace weft::roce {
using namespace transport;
using transport::CompletionQueue;
}  // namespace weft::roce
