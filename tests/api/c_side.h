// SPDX-License-Identifier: BSD-3-Clause
// For c_calls.c and c_refusals.c: the two sides of a connection in one process, and checks that say
// which line failed.
#pragma once

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#define CHECK(what)                                                                  \
  do {                                                                               \
    if (!(what)) {                                                                   \
      printf("line %d: %s fails; weft: %s\n", __LINE__, #what, weft_error_text());   \
      exit(1);                                                                       \
    }                                                                                \
  } while (0)
#define GOOD(call) CHECK((call) == WEFT_OK)
// The call fails with this code and a text that has these words.
#define REFUSED(call, code, words) \
  CHECK((call) == (code) && strstr(weft_error_text(), (words)) != NULL)

enum { kBytes = 1 << 16 };

// One of two sides.
struct side {
  weft_device* device;
  weft_pd* pd;
  weft_cq* cq;
  weft_qp* qp;
  weft_mr* mr;
  uint8_t* memory;
  weft_connection peer;
};

static inline void open_side(struct side* it, const char* device, weft_qp_type type) {
  GOOD(weft_device_open(device, &it->device));
  GOOD(weft_pd_create(it->device, &it->pd));
  GOOD(weft_cq_create(it->device, NULL, &it->cq));
  weft_qp_options options;
  weft_qp_options_init(&options, sizeof options);
  options.type = type;
  options.send_cq = options.recv_cq = it->cq;
  GOOD(weft_qp_create(it->pd, &options, &it->qp));
  it->memory = calloc(1, kBytes);
  GOOD(weft_mr_register(it->pd, it->memory, kBytes, WEFT_ACCESS_ALL, &it->mr));
  CHECK(weft_mr_address(it->mr) == it->memory && weft_mr_size(it->mr) == kBytes);
  CHECK(weft_qp_type_of(it->qp) == type && weft_qp_state_of(it->qp) == WEFT_QP_RESET);
  it->peer.size = sizeof it->peer;
}

// In another order than that of creation, since any is right.
static inline void close_side(struct side* it) {
  weft_device_close(it->device);
  weft_pd_destroy(it->pd);
  weft_cq_destroy(it->cq);
  weft_mr_deregister(it->mr);
  weft_qp_destroy(it->qp);
  free(it->memory);
}

// Connects both, step by step in one thread. Each sends its number as private data.
static inline void join(struct side* a, struct side* b) {
  weft_listener* listener;
  GOOD(weft_listener_create("127.0.0.1:0", &listener));
  char address[32];
  snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)weft_listener_port(listener));
  weft_connect_options options;
  weft_connect_options_init(&options, sizeof options);
  const uint32_t numbers[2] = {weft_qp_number(a->qp), weft_qp_number(b->qp)};
  options.private_data = &numbers[0];
  options.private_size = sizeof numbers[0];
  weft_connector* from;
  weft_connector* to = NULL;
  GOOD(weft_connector_start(address, a->qp, &options, &from));
  options.private_data = &numbers[1];
  weft_code first = WEFT_WOULD_BLOCK, second = WEFT_WOULD_BLOCK;
  while (first == WEFT_WOULD_BLOCK || second == WEFT_WOULD_BLOCK) {
    struct pollfd wanted[2] = {
        {weft_connector_fd(from), weft_connector_poll_events(from), 0},
        {to != NULL ? weft_connector_fd(to) : weft_listener_fd(listener),
         to != NULL ? weft_connector_poll_events(to) : (short)POLLIN, 0}};
    poll(wanted, 2, 10);
    if (first == WEFT_WOULD_BLOCK) first = weft_connector_advance(from, &a->peer);
    if (to == NULL)
      (void)weft_listener_try_accept(listener, b->qp, &options, &to);
    else if (second == WEFT_WOULD_BLOCK)
      second = weft_connector_advance(to, &b->peer);
  }
  GOOD(first);
  GOOD(second);
  weft_connector_destroy(from);
  weft_connector_destroy(to);
  weft_listener_destroy(listener);
  CHECK(a->peer.private_size == sizeof numbers[1]);
  CHECK(memcmp(a->peer.private_data, &numbers[1], sizeof numbers[1]) == 0);
  CHECK(a->peer.peer_qpn == numbers[1] && b->peer.peer_qpn == numbers[0]);
  CHECK(weft_qp_state_of(a->qp) == WEFT_QP_RTS && weft_qp_state_of(b->qp) == WEFT_QP_RTS);
}

// The next completion of `from`, while `other` makes progress.
static inline weft_completion next(const struct side* from, const struct side* other) {
  weft_completion done;
  for (int turns = 0; turns < 1000; ++turns) {
    if (weft_cq_wait(from->cq, &done, 1, 10) == 1) return done;
    weft_device_progress(other->device);
  }
  CHECK(!"a completion came within ten seconds");
  return done;
}

static inline void receive(const struct side* at, uint64_t id, const weft_sge* sge) {
  const weft_recv_request request = {.id = id, .sges = sge, .sge_count = 1};
  GOOD(weft_post_recv(at->qp, &request, 1, NULL));
}

// In c_refusals.c.
void refusals(struct side* a, struct side* b);
