// SPDX-License-Identifier: BSD-3-Clause
// What the programs of fi_calls_test.py share: endpoints of one process that talk to each other,
// and completions with a time limit. FI_PROVIDER_PATH and WEFT_DEVICE say where.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(what)                                    \
  do {                                                 \
    if (!(what)) {                                     \
      printf("line %d: %s fails\n", __LINE__, #what); \
      exit(1);                                         \
    }                                                  \
  } while (0)

#define IS(call, wanted)                                                                      \
  do {                                                                                        \
    const long got_ = (long)(call), wanted_ = (long)(wanted);                                 \
    if (got_ != wanted_) {                                                                    \
      printf("line %d: %s is %ld (%s), not %ld\n", __LINE__, #call, got_, fi_strerror(-(int)got_), \
             wanted_);                                                                        \
      exit(1);                                                                                \
    }                                                                                         \
  } while (0)

#define OK(call) IS(call, 0)

// Repeats a call that has no room, or whose peer is not resolved yet.
#define POST(call)                                        \
  do {                                                    \
    long code_;                                           \
    const double until_ = seconds() + 20;                 \
    while ((code_ = (long)(call)) == -FI_EAGAIN) {        \
      CHECK(seconds() < until_);                          \
      nap();                                              \
    }                                                     \
    IS(code_, 0);                                         \
  } while (0)

static inline double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static inline void nap(void) {
  const struct timespec ms = {0, 1000000};
  nanosleep(&ms, NULL);
}

struct side {
  struct fid_ep *ep;
  struct fid_cq *cq;
  struct fid_av *av;
  struct sockaddr_storage name;
  size_t length;
};

static inline struct fi_info *hints_of(const char *provider, enum fi_ep_type type, uint64_t caps) {
  struct fi_info *hints = fi_allocinfo();
  CHECK(hints);
  hints->caps = caps;
  hints->mode = FI_CONTEXT | FI_RX_CQ_DATA;
  hints->ep_attr->type = type;
  hints->fabric_attr->prov_name = strdup(provider);
  hints->domain_attr->mr_mode = FI_MR_BASIC;
  return hints;
}

// A completion with success.
static inline struct fi_cq_tagged_entry completed(struct fid_cq *cq, fi_addr_t *from) {
  struct fi_cq_tagged_entry entry;
  const double until = seconds() + 20;
  for (;;) {
    fi_addr_t source;
    const ssize_t count = fi_cq_readfrom(cq, &entry, 1, &source);
    if (count == 1) {
      if (from) *from = source;
      return entry;
    }
    IS(count, -FI_EAGAIN);
    CHECK(seconds() < until);
    nap();
  }
}

// A completion with an error.
static inline struct fi_cq_err_entry failed_entry(struct fid_cq *cq) {
  struct fi_cq_err_entry entry = {0};
  struct fi_cq_tagged_entry success;
  const double until = seconds() + 20;
  for (;;) {
    const ssize_t count = fi_cq_read(cq, &success, 1);
    if (count == -FI_EAVAIL) break;
    IS(count, -FI_EAGAIN);
    CHECK(seconds() < until);
    nap();
  }
  IS(fi_cq_readerr(cq, &entry, 0), 1);
  return entry;
}

// A case of a program, by its name: a process runs one.
struct test_case {
  const char *name;
  void (*run)(void);
  uint32_t api;  // version that fi_getinfo is asked for
  uint64_t caps;
};

// The exit code of a program of cases, which are named or, without a name, listed.
static inline int run_cases(int count, char **words, const struct test_case *cases, size_t size,
                            void (*open)(uint32_t api, uint64_t caps)) {
  for (size_t i = 0; i < size; ++i)
    if (count == 2 && strcmp(words[1], cases[i].name) == 0) {
      open(cases[i].api, cases[i].caps);
      cases[i].run();
      printf("%s: done\n", words[1]);
      return 0;
    } else if (count == 1) {
      printf("%s\n", cases[i].name);
    }
  return count != 1;
}
