// SPDX-License-Identifier: BSD-3-Clause
// Calls of libfabric on the provider weft_msg that its programs do not make, in one process.
// fi_msg_calls CASE; fi_calls_test.py runs each.
#include <netinet/in.h>
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

int main(int count, char **words) {
  static const struct test_case kCases[] = {
      {"refusal", refusal, FI_VERSION(1, 17), FI_MSG},
      {"old_refusal", old_refusal, FI_VERSION(1, 4), FI_MSG},
      {"multi_receive", multi_receive, FI_VERSION(1, 17), FI_MSG},
      {"sizes_beyond", sizes_beyond, FI_VERSION(1, 17), FI_MSG},
  };
  return run_cases(count, words, kCases, sizeof kCases / sizeof kCases[0], open_domain);
}
