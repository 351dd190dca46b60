// SPDX-License-Identifier: BSD-3-Clause
// What a test may ask of the library fake_efa besides what libibverbs and libefa have.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

extern "C" {
// What efadv_query_device() says from now on: efadv_device_attr::device_caps, and the bytes of a
// WRITE or READ. Forgets the calls so far.
void fake_efa_begin(uint32_t caps, uint32_t max_rdma_size);
// The calls since then, one word each, arguments behind some: "wr_start wr_send:... wr_complete".
const char* fake_efa_calls();
// How the next request that is posted ends, whatever it is. Once.
void fake_efa_fail_next(ibv_wc_status status, uint32_t vendor_error);
// Calls of ibv_wr_complete() that return EINVAL, from the next one on that has a request with that
// immediate data.
void fake_efa_refuse_immediate(uint32_t immediate);
// Completion queues that are made from now on have events, as newer devices; until begin().
void fake_efa_have_events();
// Each SEND and WRITE from now on comes from an address of its own; until begin().
void fake_efa_hide_peers();
}
