// SPDX-License-Identifier: BSD-3-Clause
// SRD uses the names of lib/transport (Port, Frame, Machine, WorkRing ...) without a prefix. The
// public API has a CompletionQueue, too; in namespace weft::srd it is that of lib/transport.
#pragma once

namespace weft::transport {
class CompletionQueue;
}  // namespace weft::transport

namespace weft::srd {
using namespace transport;
using transport::CompletionQueue;
}  // namespace weft::srd
