// SPDX-License-Identifier: BSD-3-Clause
// A program of libibverbs that waits for one kind of fault, which weft-run --faults FILE injects,
// and checks what verbs say then. The argument is the kind; the last line is "seen KIND".
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(condition)                                                    \
  do {                                                                      \
    if (!(condition)) {                                                     \
      printf("line %d: %s, errno %d\n", __LINE__, #condition, errno);       \
      exit(1);                                                              \
    }                                                                       \
  } while (0)

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qps[2];
static uint64_t words[2];

static void connect_to(struct ibv_qp *qp, const struct ibv_qp *peer) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                             .port_num = 1,
                             .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  CHECK(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer->qp_num;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 6;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.hop_limit = 64;
  CHECK(ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid) == 0);
  CHECK(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.retry_cnt = attr.rnr_retry = 7;
  attr.max_rd_atomic = 1;
  CHECK(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static void make_objects(void) {
  struct ibv_device **list = ibv_get_device_list(NULL);
  CHECK(list != NULL && list[0] != NULL);
  context = ibv_open_device(list[0]);
  CHECK(context != NULL);
  ibv_free_device_list(list);
  pd = ibv_alloc_pd(context);
  cq = ibv_create_cq(context, 64, NULL, NULL, 0);
  CHECK(pd != NULL && cq != NULL);
  mr = ibv_reg_mr(pd, words, sizeof words, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  CHECK(mr != NULL);
  for (int i = 0; i < 2; ++i) {
    struct ibv_qp_init_attr init = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1}};
    qps[i] = ibv_create_qp(pd, &init);
    CHECK(qps[i] != NULL);
  }
  connect_to(qps[0], qps[1]);
  connect_to(qps[1], qps[0]);
}

static void post_write(uint64_t value) {
  struct ibv_sge sge = {.addr = (uintptr_t)&words[0], .length = 8, .lkey = mr->lkey};
  struct ibv_send_wr wr = {.wr_id = value,
                           .opcode = IBV_WR_RDMA_WRITE,
                           .send_flags = IBV_SEND_SIGNALED,
                           .sg_list = &sge,
                           .num_sge = 1},
                     *bad;
  wr.wr.rdma.remote_addr = (uintptr_t)&words[1];
  wr.wr.rdma.rkey = mr->rkey;
  words[0] = value;
  CHECK(ibv_post_send(qps[0], &wr, &bad) == 0);
}

static enum ibv_wc_status completion(void) {
  struct ibv_wc wc;
  while (ibv_poll_cq(cq, 1, &wc) == 0) continue;
  return wc.status;
}

// Sleeps until there is an event of the type; others are acknowledged and dropped.
static struct ibv_async_event expect(enum ibv_event_type type) {
  struct ibv_async_event event;
  do {
    struct pollfd wanted = {.fd = context->async_fd, .events = POLLIN};
    CHECK(poll(&wanted, 1, 30000) == 1);
    CHECK(ibv_get_async_event(context, &event) == 0);
    ibv_ack_async_event(&event);
  } while (event.event_type != type);
  return event;
}

static enum ibv_port_state port_state(void) {
  struct ibv_port_attr port;
  CHECK(ibv_query_port(context, 1, &port) == 0);
  return port.state;
}

static int has_gid(void) {
  static const union ibv_gid none;
  union ibv_gid gid;
  CHECK(ibv_query_gid(context, 1, 0, &gid) == 0);
  return memcmp(&gid, &none, sizeof gid) != 0;
}

static int qp_state(struct ibv_qp *qp) {
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  CHECK(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
  return attr.qp_state;
}

int main(int argc, char **argv) {
  const char *kind = argc == 2 ? argv[1] : "";
  make_objects();
  if (strcmp(kind, "port") == 0) {
    expect(IBV_EVENT_PORT_ERR);
    CHECK(port_state() == IBV_PORT_DOWN);
    expect(IBV_EVENT_PORT_ACTIVE);
    CHECK(port_state() == IBV_PORT_ACTIVE);
    post_write(1);
    CHECK(completion() == IBV_WC_SUCCESS);
  } else if (strcmp(kind, "gid") == 0) {
    expect(IBV_EVENT_GID_CHANGE);
    CHECK(!has_gid());
    expect(IBV_EVENT_GID_CHANGE);
    CHECK(has_gid());
  } else if (strcmp(kind, "qp") == 0) {
    const struct ibv_async_event event = expect(IBV_EVENT_QP_FATAL);
    CHECK(event.element.qp == qps[0] || event.element.qp == qps[1]);
    while (qp_state(qps[0]) != IBV_QPS_ERR) continue;
    post_write(1);
    CHECK(completion() == IBV_WC_WR_FLUSH_ERR);
  } else if (strcmp(kind, "cq") == 0) {
    CHECK(expect(IBV_EVENT_CQ_ERR).element.cq == cq);
    post_write(1);
    expect(IBV_EVENT_QP_FATAL);
    CHECK(qp_state(qps[0]) == IBV_QPS_ERR);
  } else if (strcmp(kind, "device") == 0) {
    expect(IBV_EVENT_DEVICE_FATAL);
    CHECK(qp_state(qps[0]) == IBV_QPS_ERR);
    CHECK(ibv_alloc_pd(context) == NULL && errno == EIO);
    CHECK(ibv_create_cq(context, 1, NULL, NULL, 0) == NULL && errno == EIO);
  } else if (strcmp(kind, "frames") == 0) {
    // For a second at least, so that each fault has its time.
    const time_t end = time(NULL) + 2;
    for (uint64_t i = 1; i <= 300 || time(NULL) < end; ++i) {
      post_write(i);
      CHECK(completion() == IBV_WC_SUCCESS);
      CHECK(((volatile uint64_t *)words)[1] == i);
    }
  } else {
    return 2;
  }
  for (int i = 0; i < 2; ++i) CHECK(ibv_destroy_qp(qps[i]) == 0);
  CHECK(ibv_dereg_mr(mr) == 0);
  CHECK(ibv_destroy_cq(cq) == 0);
  CHECK(ibv_dealloc_pd(pd) == 0);
  CHECK(ibv_close_device(context) == 0);
  printf("seen %s\n", kind);
  return 0;
}
