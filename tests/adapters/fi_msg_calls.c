// SPDX-License-Identifier: BSD-3-Clause
// Calls of libfabric on the provider weft_msg that its programs do not make, in one process.
// fi_msg_calls CASE; fi_calls_test.py runs each.
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>

#include "fi_calls.h"

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_eq *eq;

static void open_domain(uint32_t api, uint64_t caps) {
  struct fi_info *hints = hints_of("weft_msg", FI_EP_MSG, caps);
  struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
  OK(fi_getinfo(api, "127.0.0.1", "7", 0, hints, &info));
  OK(fi_fabric(info->fabric_attr, &fabric, NULL));
  OK(fi_domain(fabric, info, &domain, NULL));
  OK(fi_eq_open(fabric, &attr, &eq, NULL));
  fi_freeinfo(hints);
}

static struct side opened(void) {
  struct side side = {0};
  struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE};
  OK(fi_cq_open(domain, &cq, &side.cq, NULL));
  OK(fi_endpoint(domain, info, &side.ep, NULL));
  OK(fi_ep_bind(side.ep, &side.cq->fid, FI_TRANSMIT | FI_RECV));
  OK(fi_ep_bind(side.ep, &eq->fid, 0));
  return side;
}

// A refusal: nobody listens.
static struct fid_ep *refused(void) {
  struct side a = opened();
  struct fi_eq_cm_entry entry;
  uint32_t event;
  IS(fi_connect(a.ep, NULL, NULL, 0), -FI_EINVAL);
  OK(fi_connect(a.ep, info->dest_addr, NULL, 0));
  IS(fi_eq_sread(eq, &event, &entry, sizeof entry, 20000, 0), -FI_EAVAIL);
  return a.ep;
}

static void refusal(void) {
  struct fid_ep *const ep = refused();
  struct fi_eq_err_entry error = {0};
  IS(fi_eq_readerr(eq, &error, 0), sizeof error);
  CHECK(error.fid == &ep->fid);
  IS(error.err, FI_ECONNREFUSED);
  IS(error.prov_errno, FI_ECONNREFUSED);
  CHECK(error.err_data == NULL && error.err_data_size == 0);
}

// Structures of a program of 1.4 end before err_data_size, and err_data is what the stack held.
static void old_refusal(void) {
  refused();
  struct fi_eq_err_entry error;
  memset(&error, 0x5A, sizeof error);
  IS(fi_eq_readerr(eq, &error, 0), offsetof(struct fi_eq_err_entry, err_data_size));
  IS(error.err, FI_ECONNREFUSED);
  CHECK(error.err_data == NULL && error.err_data_size == 0x5A5A5A5A5A5A5A5A);
}

// An endpoint that cannot be enabled can be closed.
static void sizes_beyond(void) {
  struct side a;
  info->tx_attr->iov_limit = 1000;
  a = opened();
  CHECK(fi_enable(a.ep) < 0);
  OK(fi_close(&a.ep->fid));
  info->tx_attr->iov_limit = 1;
  info->tx_attr->size = SIZE_MAX;
  a = opened();
  CHECK(fi_enable(a.ep) < 0);
  OK(fi_close(&a.ep->fid));
  info->tx_attr->size = 16;
  a = opened();
  OK(fi_enable(a.ep));
  OK(fi_close(&a.ep->fid));
}

// A buffer for many messages is not offered, and so not accepted in silence.
static void multi_receive(void) {
  struct fi_info *hints = hints_of("weft_msg", FI_EP_MSG, FI_MSG), *found;
  struct side a = opened();
  char bytes[64];
  struct iovec iov = {bytes, sizeof bytes};
  const struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1};
  OK(fi_enable(a.ep));
  IS(fi_recvmsg(a.ep, &msg, FI_MULTI_RECV), -FI_EOPNOTSUPP);
  hints->rx_attr->op_flags = FI_MULTI_RECV;
  IS(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &found), -FI_ENODATA);
  hints->rx_attr->op_flags = 0;
  hints->tx_attr->tclass = FI_TC_LOW_LATENCY;
  OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &found));
  IS(found->tx_attr->tclass, FI_TC_LOW_LATENCY);
}

// The next event is the one that is awaited. Its info, where it has one.
static struct fi_info *happened(uint32_t awaited) {
  struct fi_eq_cm_entry entry;
  uint32_t event;
  IS(fi_eq_sread(eq, &event, &entry, sizeof entry, 20000, 0), sizeof entry);
  IS(event, awaited);
  return entry.info;
}

// Connects `from` to an endpoint that receives from `shared` and completes in `cq`, and returns it.
static struct fid_ep *connected(struct fid_pep *pep, struct fid_ep *from, struct fid_ep *shared,
                                struct fid_cq *cq) {
  struct sockaddr_storage name;
  size_t length = sizeof name;
  struct fid_ep *ep;
  OK(fi_getname(&pep->fid, &name, &length));
  OK(fi_connect(from, &name, NULL, 0));
  struct fi_info *const request = happened(FI_CONNREQ);
  OK(fi_endpoint(domain, request, &ep, NULL));
  fi_freeinfo(request);
  OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
  OK(fi_ep_bind(ep, &eq->fid, 0));
  OK(fi_ep_bind(ep, &shared->fid, 0));
  OK(fi_enable(ep));
  OK(fi_accept(ep, NULL, 0));
  happened(FI_CONNECTED);
  happened(FI_CONNECTED);
  return ep;
}

struct sender {
  struct fid_ep *ep;
  volatile int stops;
};

static void *send_until_stopped(void *arg) {
  static const char bytes[4000];
  struct sender *const sender = arg;
  while (!sender->stops) (void)fi_send(sender->ep, bytes, sizeof bytes, NULL, FI_ADDR_UNSPEC, NULL);
  return NULL;
}

// Endpoints that are closed while messages arrive take no receive of their shared context with
// them: each completes, be it as canceled.
static void shared_receives_come_back(void) {
  enum { kRounds = 60, kReceives = 32, kSize = 40000 };
  struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_DATA, .size = 4096};
  struct fi_rx_attr rx_attr = {.size = kReceives};
  struct fi_cq_data_entry entry;
  struct fi_cq_err_entry error = {0};
  struct fid_pep *pep;
  struct fid_ep *shared, *to;
  struct fid_cq *cq;
  static char bytes[kSize], room[kReceives][kSize];
  info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
  OK(fi_passive_ep(fabric, info, &pep, NULL));
  OK(fi_pep_bind(pep, &eq->fid, 0));
  OK(fi_listen(pep));
  OK(fi_cq_open(domain, &cq_attr, &cq, NULL));
  OK(fi_srx_context(domain, &rx_attr, &shared, NULL));
  for (int i = 0; i < kReceives; ++i)
    OK(fi_recv(shared, room[i], kSize, NULL, FI_ADDR_UNSPEC, room[i]));
  IS(fi_recv(shared, bytes, kSize, NULL, FI_ADDR_UNSPEC, NULL), -FI_EAGAIN);
  for (int round = 0; round < kRounds; ++round) {
    struct side a = opened();
    int received = 0;
    const double until = seconds() + 20;
    to = connected(pep, a.ep, shared, cq);
    struct sender sender = {a.ep, 0};
    pthread_t thread;
    IS(pthread_create(&thread, NULL, send_until_stopped, &sender), 0);
    while (received < 3 + round % 7) {
      for (; fi_cq_read(cq, &entry, 1) == 1; ++received)
        OK(fi_recv(shared, entry.op_context, kSize, NULL, FI_ADDR_UNSPEC, entry.op_context));
      CHECK(seconds() < until);
    }
    OK(fi_close(&to->fid));
    sender.stops = 1;
    IS(pthread_join(thread, NULL), 0);
    OK(fi_close(&a.ep->fid));
    OK(fi_close(&a.cq->fid));
    for (;;) {
      const ssize_t got = fi_cq_read(cq, &entry, 1);
      void *context = entry.op_context;
      if (got == -FI_EAGAIN) break;
      if (got == -FI_EAVAIL) {
        IS(fi_cq_readerr(cq, &error, 0), 1);
        IS(error.err, FI_ECANCELED);
        context = error.op_context;
      }
      OK(fi_recv(shared, context, kSize, NULL, FI_ADDR_UNSPEC, context));
    }
    struct fi_eq_cm_entry shut;
    uint32_t event;
    while (fi_eq_read(eq, &event, &shut, sizeof shut, 0) >= 0) {
    }
  }
  // All of them are there, and are taken.
  struct side a = opened();
  to = connected(pep, a.ep, shared, cq);
  for (int i = 0; i < kReceives; ++i) OK(fi_send(a.ep, bytes, 8, NULL, FI_ADDR_UNSPEC, NULL));
  for (int i = 0; i < kReceives; ++i) completed(cq, NULL);
  OK(fi_close(&a.ep->fid));
  OK(fi_close(&to->fid));
  OK(fi_close(&shared->fid));
}

int main(int count, char **words) {
  static const struct test_case kCases[] = {
      {"refusal", refusal, FI_VERSION(1, 17), FI_MSG},
      {"old_refusal", old_refusal, FI_VERSION(1, 4), FI_MSG},
      {"multi_receive", multi_receive, FI_VERSION(1, 17), FI_MSG},
      {"shared_receives_come_back", shared_receives_come_back, FI_VERSION(1, 17), FI_MSG},
      {"sizes_beyond", sizes_beyond, FI_VERSION(1, 17), FI_MSG},
  };
  return run_cases(count, words, kCases, sizeof kCases / sizeof kCases[0], open_domain);
}
