// SPDX-License-Identifier: BSD-3-Clause
// The C API in one process that is both sides of every connection, on the device of the command
// line: c_calls DEVICE WHAT, where WHAT is rc, uc, ud, srd, steps, events or refusals.
// c_api_test.py compiles and starts it.
#include "c_side.h"

static void send_and_receive(struct side* a, struct side* b, weft_send_request request,
                             size_t skipped) {
  memset(b->memory, 0, kBytes);
  strcpy((char*)a->memory, "from C");
  const weft_sge to = weft_mr_sge(b->mr, 0, 256), from = weft_mr_sge(a->mr, 0, 7);
  receive(b, 77, &to);
  request.id = 5;
  request.opcode = WEFT_OP_SEND_WITH_IMM;
  request.imm = 0xC0FFEE;
  request.flags = WEFT_SEND_SIGNALED;
  request.sges = &from;
  request.sge_count = 1;
  GOOD(weft_post_send(a->qp, &request, 1, NULL));
  const weft_completion sent = next(a, b), got = next(b, a);
  CHECK(sent.status == WEFT_SUCCESS && sent.id == 5 && sent.type == WEFT_WORK_SEND);
  CHECK(got.status == WEFT_SUCCESS && got.id == 77 && got.type == WEFT_WORK_RECV_WITH_IMM);
  CHECK(got.imm_or_key == 0xC0FFEE && (got.flags & WEFT_COMPLETION_WITH_IMM) != 0);
  CHECK(got.qp_number == weft_qp_number(b->qp) && got.byte_count == 7 + skipped);
  CHECK(strcmp((char*)b->memory + skipped, "from C") == 0);
}

static weft_send_request remote(const struct side* a, const struct side* b, weft_opcode opcode,
                                const weft_sge* sge) {
  (void)a;
  return (weft_send_request){.id = 9,
                             .opcode = opcode,
                             .flags = WEFT_SEND_SIGNALED,
                             .sges = sge,
                             .sge_count = 1,
                             .remote_address = weft_mr_iova(b->mr),
                             .rkey = weft_mr_rkey(b->mr)};
}

static void one_sided(struct side* a, struct side* b) {
  const weft_sge all = weft_mr_sge(a->mr, 0, kBytes), word = weft_mr_sge(a->mr, 0, 8);
  for (size_t i = 0; i < kBytes; ++i) a->memory[i] = (uint8_t)(i * 7);
  weft_send_request request = remote(a, b, WEFT_OP_WRITE, &all);
  GOOD(weft_post_send(a->qp, &request, 1, NULL));
  CHECK(next(a, b).status == WEFT_SUCCESS && memcmp(a->memory, b->memory, kBytes) == 0);
  memset(a->memory, 0, kBytes);
  request.opcode = WEFT_OP_READ;
  GOOD(weft_post_send(a->qp, &request, 1, NULL));
  CHECK(next(a, b).type == WEFT_WORK_READ && memcmp(a->memory, b->memory, kBytes) == 0);

  uint64_t value = 40;
  memcpy(b->memory, &value, sizeof value);
  request = remote(a, b, WEFT_OP_FETCH_ADD, &word);
  request.compare_add = 2;
  GOOD(weft_post_send(a->qp, &request, 1, NULL));
  CHECK(next(a, b).type == WEFT_WORK_FETCH_ADD);
  CHECK(memcmp(a->memory, &value, sizeof value) == 0);
  request.opcode = WEFT_OP_COMPARE_SWAP;
  request.compare_add = 42;
  request.swap = 1000;
  GOOD(weft_post_send(a->qp, &request, 1, NULL));
  CHECK(next(a, b).type == WEFT_WORK_COMPARE_SWAP);
  memcpy(&value, b->memory, sizeof value);
  CHECK(value == 1000);
}

// More requests in one call than a portion holds, with several entries each.
static void many(struct side* a, struct side* b) {
  enum { kMany = 50 };
  weft_send_request requests[kMany];
  weft_sge sges[kMany][4];
  for (uint32_t i = 0; i < kMany; ++i) {
    for (uint32_t k = 0; k < 4; ++k) sges[i][k] = weft_mr_sge(a->mr, i * 64 + k * 16, 16);
    requests[i] = remote(a, b, WEFT_OP_WRITE, sges[i]);
    requests[i].sge_count = 4;
    requests[i].remote_address += i * 64;
    requests[i].id = i;
    memset(a->memory + i * 64, (int)i + 1, 64);
  }
  size_t accepted = 0;
  GOOD(weft_post_send(a->qp, requests, kMany, &accepted));
  CHECK(accepted == kMany);
  for (uint64_t i = 0; i < kMany; ++i) {
    const weft_completion done = next(a, b);
    CHECK(done.status == WEFT_SUCCESS && done.id == i);
  }
  CHECK(memcmp(a->memory, b->memory, kMany * 64) == 0);
  requests[20].sge_count = 5;  // more than max_send_sge
  REFUSED(weft_post_send(a->qp, requests, kMany, &accepted), WEFT_INVALID_ARGUMENT, "");
  CHECK(accepted == 20);
  for (int i = 0; i < 20; ++i) CHECK(next(a, b).status == WEFT_SUCCESS);
  // The queue is full before the last of 128 and some.
  size_t total = 0;
  weft_code code = WEFT_OK;
  for (int i = 0; i < 4 && code == WEFT_OK; ++i) {
    weft_device_progress(b->device);
    requests[20].sge_count = 4;
    code = weft_post_send(a->qp, requests, kMany, &accepted);
    total += accepted;
  }
  CHECK(code == WEFT_OK || (code == WEFT_QUEUE_FULL && *weft_error_text() != '\0'));
  for (size_t i = 0; i < total; ++i) CHECK(next(a, b).status == WEFT_SUCCESS);
}

static void rc(struct side* a, struct side* b) {
  join(a, b);
  send_and_receive(a, b, (weft_send_request){0}, 0);
  one_sided(a, b);
  many(a, b);
  weft_qp_attributes has = {.size = sizeof has};
  GOOD(weft_qp_query(a->qp, &has));
  CHECK((has.mask & WEFT_ATTR_DEST_QPN) != 0 && has.dest_qpn == weft_qp_number(b->qp));
  CHECK((has.mask & WEFT_ATTR_PATH) != 0);
  CHECK(memcmp(&has.path.destination, &a->peer.peer_gid, sizeof has.path.destination) == 0);
  // A wrong key is a status, and a name for people.
  const weft_sge word = weft_mr_sge(a->mr, 0, 8);
  weft_send_request request = remote(a, b, WEFT_OP_WRITE, &word);
  request.rkey ^= 0x5A5A;
  GOOD(weft_post_send(a->qp, &request, 1, NULL));
  const weft_completion refused = next(a, b);
  CHECK(refused.status == WEFT_REMOTE_ACCESS_ERROR);
  CHECK(strcmp(weft_status_name(refused.status), "remote_access_error") == 0);
  CHECK(strstr(weft_status_reason(refused.status), "the peer refused the memory") != NULL);
  CHECK(strcmp(weft_status_reason((weft_status)99), "not a status of this version") == 0);
}

static void uc(struct side* a, struct side* b) {
  join(a, b);
  send_and_receive(a, b, (weft_send_request){0}, 0);
}

static void ud(struct side* a, struct side* b) {
  join(a, b);
  weft_address_vector path = {.destination = a->peer.peer_gid};
  send_and_receive(a, b,
                   (weft_send_request){
                       .to = &path, .remote_qpn = a->peer.peer_qpn, .remote_qkey = 0x11111111},
                   40);
  // And back, to the sender that the network header names.
  const weft_address_vector back = weft_sender_of(b->memory);
  CHECK(memcmp(&back.destination, &b->peer.peer_gid, sizeof back.destination) == 0);
}

static void srd(struct side* a, struct side* b) {
  join(a, b);
  weft_address_vector path = {.destination = a->peer.peer_gid};
  const weft_send_request to = {.to = &path, .remote_qpn = a->peer.peer_qpn};
  send_and_receive(a, b, to, 0);
  const weft_sge word = weft_mr_sge(a->mr, 0, 8);
  int64_t ones[1] = {1}, sum;
  memcpy(a->memory, ones, sizeof ones);
  memset(b->memory, 0, sizeof ones);
  weft_send_request request = remote(a, b, WEFT_OP_WRITE_ADD, &word);
  request.to = &path;
  request.remote_qpn = a->peer.peer_qpn;
  request.element = WEFT_INT64;
  for (int i = 0; i < 3; ++i) {
    GOOD(weft_post_send(a->qp, &request, 1, NULL));
    CHECK(next(a, b).status == WEFT_SUCCESS);
  }
  memcpy(&sum, b->memory, sizeof sum);
  CHECK(sum == 3);
}

// The transitions of a program that connects by itself, and sleeping on the descriptor of a queue.
static void steps(struct side* a, struct side* b) {
  struct side* sides[2] = {a, b};
  for (int i = 0; i < 2; ++i) {
    const struct side* other = sides[1 - i];
    weft_device_attributes is = {.size = sizeof is};
    GOOD(weft_device_query(other->device, &is));
    weft_qp_attributes to;
    weft_qp_attributes_init(&to, sizeof to);
    to.mask = WEFT_ATTR_STATE | WEFT_ATTR_PKEY_INDEX | WEFT_ATTR_PORT | WEFT_ATTR_ACCESS;
    to.state = WEFT_QP_INIT;
    to.port = 1;
    to.access = WEFT_ACCESS_ALL;
    GOOD(weft_qp_modify(sides[i]->qp, &to));
    to.mask = WEFT_ATTR_STATE | WEFT_ATTR_PATH | WEFT_ATTR_PATH_MTU | WEFT_ATTR_DEST_QPN |
              WEFT_ATTR_RQ_PSN | WEFT_ATTR_MAX_DEST_RD_ATOMIC;
    to.state = WEFT_QP_RTR;
    REFUSED(weft_qp_modify(sides[i]->qp, &to), WEFT_INVALID_ARGUMENT, "min_rnr_timer");
    to.mask |= WEFT_ATTR_MIN_RNR_TIMER;
    to.path.destination = is.gid;
    to.path_mtu = 1024;
    to.dest_qpn = weft_qp_number(other->qp);
    to.rq_psn = 100;
    to.max_dest_rd_atomic = 4;
    GOOD(weft_qp_modify(sides[i]->qp, &to));
    to.mask = WEFT_ATTR_STATE | WEFT_ATTR_SQ_PSN | WEFT_ATTR_MAX_RD_ATOMIC | WEFT_ATTR_TIMEOUT |
              WEFT_ATTR_RETRY_COUNT | WEFT_ATTR_RNR_RETRY;
    to.state = WEFT_QP_RTS;
    to.sq_psn = 100;
    to.max_rd_atomic = 4;
    to.timeout = 14;
    to.retry_count = to.rnr_retry = 7;
    GOOD(weft_qp_modify(sides[i]->qp, &to));
  }
  const weft_sge to = weft_mr_sge(b->mr, 0, 64);
  receive(b, 1, &to);
  weft_cq_arm(b->cq, false);
  const weft_sge from = {.address = "inline", .length = 7};
  const weft_send_request request = {.sges = &from, .sge_count = 1, .flags = WEFT_SEND_INLINE};
  GOOD(weft_post_send(a->qp, &request, 1, NULL));
  struct pollfd wanted = {weft_cq_fd(b->cq), POLLIN, 0};
  CHECK(poll(&wanted, 1, 10000) == 1);
  weft_cq_acknowledge(b->cq);
  weft_completion done[3];
  CHECK(weft_cq_poll(b->cq, done, 3) == 1 && done[0].id == 1);
  CHECK(strcmp((char*)b->memory, "inline") == 0);
}

// Counters, listings, events, sizes.
static void events(struct side* a, struct side* b) {
  join(a, b);
  send_and_receive(a, b, (weft_send_request){0}, 0);
  weft_counter* counters;
  size_t count, found = 0;
  GOOD(weft_device_counters(a->device, &counters, &count));
  for (size_t i = 0; i < count; ++i) found += strlen(counters[i].name) > 0 && counters[i].value > 0;
  CHECK(count > 10 && found > 0);
  weft_free(counters);
  weft_device_listing* listings;
  GOOD(weft_list_devices(false, &listings, &count));
  found = 0;
  for (size_t i = 0; i < count; ++i) {
    CHECK(listings[i].usable || *listings[i].reason != '\0');
    found += strcmp(listings[i].spec, "roce+udp:lo") == 0;
  }
  CHECK(found == 1);
  weft_free(listings);
  GOOD(weft_cq_resize(a->cq, 1000));
  CHECK(weft_cq_capacity(a->cq) >= 1000);
  weft_event event;
  while (weft_device_next_event(b->device, &event)) {
  }
  weft_send_request wrong = remote(a, b, WEFT_OP_WRITE, NULL);
  wrong.sge_count = 0;
  const weft_sge word = weft_mr_sge(a->mr, 0, 8);
  wrong.sges = &word;
  wrong.sge_count = 1;
  wrong.rkey ^= 1;
  GOOD(weft_post_send(a->qp, &wrong, 1, NULL));
  CHECK(next(a, b).status == WEFT_REMOTE_ACCESS_ERROR);
  struct pollfd wanted = {weft_device_event_fd(b->device), POLLIN, 0};
  CHECK(poll(&wanted, 1, 10000) == 1 && weft_device_next_event(b->device, &event));
  CHECK(event.type == WEFT_EVENT_QP_ACCESS_ERROR && event.qp_number == weft_qp_number(b->qp));
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    weft_qp_type type;
    void (*run)(struct side*, struct side*);
  } all[] = {{"rc", WEFT_QP_RC, rc},         {"uc", WEFT_QP_UC, uc},
             {"ud", WEFT_QP_UD, ud},         {"srd", WEFT_QP_SRD, srd},
             {"steps", WEFT_QP_RC, steps},   {"events", WEFT_QP_RC, events},
             {"refusals", WEFT_QP_RC, refusals}};
  for (size_t i = 0; argc == 3 && i < sizeof all / sizeof *all; ++i) {
    if (strcmp(argv[2], all[i].name) != 0) continue;
    static struct side a, b;
    open_side(&a, argv[1], all[i].type);
    open_side(&b, argv[1], all[i].type);
    all[i].run(&a, &b);
    close_side(&a);
    close_side(&b);
    printf("%s: good\n", argv[2]);
    return 0;
  }
  printf("usage: c_calls DEVICE rc|uc|ud|srd|steps|events|refusals\n");
  return 2;
}
