// SPDX-License-Identifier: BSD-3-Clause
// Calls of libfabric on the provider weft that its programs do not make, between endpoints of one
// process. fi_calls CASE; fi_calls_test.py runs each.
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fi_calls.h"

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;

static void open_domain(uint32_t api, uint64_t caps) {
  struct fi_info *hints = hints_of("weft", FI_EP_RDM, caps);
  OK(fi_getinfo(api, NULL, NULL, 0, hints, &info));
  OK(fi_fabric(info->fabric_attr, &fabric, NULL));
  OK(fi_domain(fabric, info, &domain, NULL));
  fi_freeinfo(hints);
}

// An endpoint that is not enabled.
static struct side opened(void) {
  struct side side = {.length = sizeof side.name};
  struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
  struct fi_av_attr av = {.type = FI_AV_TABLE};
  OK(fi_cq_open(domain, &cq, &side.cq, NULL));
  OK(fi_av_open(domain, &av, &side.av, NULL));
  OK(fi_endpoint(domain, info, &side.ep, NULL));
  OK(fi_ep_bind(side.ep, &side.cq->fid, FI_TRANSMIT | FI_RECV));
  OK(fi_ep_bind(side.ep, &side.av->fid, 0));
  return side;
}

static struct side enabled(void) {
  struct side side = opened();
  OK(fi_enable(side.ep));
  OK(fi_getname(&side.ep->fid, &side.name, &side.length));
  return side;
}

static fi_addr_t insert(struct side *into, const struct sockaddr_storage *name) {
  fi_addr_t number;
  IS(fi_av_insert(into->av, name, 1, &number, 0, NULL), 1);
  return number;
}

// The name as host and port, as a program has it that was not told the other's name.
static struct sockaddr_storage by_port(const struct side *side) {
  struct sockaddr_storage name = side->name;
  memset(((struct sockaddr_in *)&name)->sin_zero, 0, 8);
  return name;
}

static void close_side(struct side *side) {
  OK(fi_close(&side->ep->fid));
  OK(fi_close(&side->av->fid));
  OK(fi_close(&side->cq->fid));
}

// A peer that was inserted as host and port stays the same peer when others are inserted.
static void insert_keeps_peers(void) {
  enum { kBefore = 10, kAll = 60 };
  struct side a = enabled(), b = enabled(), c = enabled();
  const struct sockaddr_storage name = by_port(&b);
  const fi_addr_t to = insert(&a, &name);
  static int numbers[kAll];
  for (int i = 0; i < kAll; ++i) {
    if (i == kBefore) insert(&a, &c.name);
    numbers[i] = i;
    POST(fi_inject(a.ep, &numbers[i], sizeof numbers[i], to));
  }
  for (int i = 0; i < kAll; ++i) {
    int got = -1;
    OK(fi_recv(b.ep, &got, sizeof got, NULL, FI_ADDR_UNSPEC, NULL));
    completed(b.cq, NULL);
    IS(got, i);
  }
}

// Such a peer is known as the source of its messages, and receives may name it.
static void port_names_have_sources(void) {
  struct side a = enabled(), b = enabled(), c = enabled();
  const struct sockaddr_storage name = by_port(&b);
  int sent = 7, got = 0;
  fi_addr_t from;
  const fi_addr_t to_a = insert(&b, &a.name), of_b = insert(&a, &name);
  POST(fi_recv(a.ep, &got, sizeof got, NULL, of_b, NULL));
  OK(fi_inject(b.ep, &sent, sizeof sent, to_a));
  completed(a.cq, &from);
  IS(from, of_b);
  IS(got, 7);
  insert(&a, &c.name);
  OK(fi_recv(a.ep, &got, sizeof got, NULL, FI_ADDR_UNSPEC, NULL));
  OK(fi_inject(b.ep, &sent, sizeof sent, to_a));
  completed(a.cq, &from);
  IS(from, of_b);
}

// What waits for an endpoint that is closed ends with an error.
static void closed_peer(void) {
  enum { kSize = 100000 };
  struct side a = enabled(), b = enabled();
  const fi_addr_t to = insert(&a, &b.name);
  char *bytes = calloc(1, kSize);
  OK(fi_send(a.ep, bytes, kSize, NULL, to, bytes));
  for (int i = 0; i < 100; ++i) nap();
  close_side(&b);
  const struct fi_cq_err_entry entry = failed_entry(a.cq);
  CHECK(entry.op_context == bytes);
  CHECK(entry.err != 0 && entry.prov_errno != 0);
}

// The completion of a message that was claimed and dropped names it.
static void discarded_has_tag(void) {
  struct side a = enabled(), b = enabled();
  const fi_addr_t to = insert(&a, &b.name);
  struct fi_msg_tagged msg = {.addr = FI_ADDR_UNSPEC, .tag = 0x9011, .context = &a};
  struct fi_cq_err_entry none;
  OK(fi_tinject(a.ep, "1234", 4, to, msg.tag));
  do {
    OK(fi_trecvmsg(b.ep, &msg, FI_PEEK | FI_CLAIM));
    nap();
  } while (fi_cq_readerr(b.cq, &none, 0) == 1);
  IS(completed(b.cq, NULL).tag, msg.tag);
  OK(fi_trecvmsg(b.ep, &msg, FI_CLAIM | FI_DISCARD));
  IS(completed(b.cq, NULL).tag, msg.tag);
}

// A receive that names a peer ends with an error when the peer's process was killed, although
// nothing is sent to it.
static void killed_peer(void) {
  int to_child[2], to_parent[2];
  OK(pipe(to_child));
  OK(pipe(to_parent));
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    open_domain(FI_VERSION(1, 17), FI_MSG | FI_DIRECTED_RECV);
    struct side b = enabled();
    struct sockaddr_storage name;
    IS(write(to_parent[1], &b.name, sizeof b.name), sizeof b.name);
    IS(read(to_child[0], &name, sizeof name), sizeof name);
    POST(fi_inject(b.ep, "b", 1, insert(&b, &name)));
    for (;;) fi_cq_read(b.cq, &name, 0), nap();
  }
  struct side a = enabled();
  struct sockaddr_storage name;
  char got[3] = {0};
  IS(read(to_parent[0], &name, sizeof name), sizeof name);
  const fi_addr_t from = insert(&a, &name);
  for (int i = 0; i < 3; ++i) OK(fi_recv(a.ep, &got[i], 1, NULL, from, &got[i]));
  IS(write(to_child[1], &a.name, sizeof a.name), sizeof a.name);
  CHECK(completed(a.cq, NULL).op_context == &got[0] && got[0] == 'b');
  for (int i = 0; i < 300; ++i) nap();  // nothing is on its way to it any more
  OK(kill(child, SIGKILL));
  IS(waitpid(child, NULL, 0), child);
  const double begin = seconds();
  for (int i = 1; i < 3; ++i) {
    const struct fi_cq_err_entry entry = failed_entry(a.cq);
    CHECK(entry.op_context == &got[i]);
    IS(entry.err, FI_EHOSTUNREACH);
  }
  printf("its end was seen after %.0f ms\n", 1000 * (seconds() - begin));
}

static void *close_endpoint(void *ep) {
  OK(fi_close(&((struct fid_ep *)ep)->fid));
  return NULL;
}

// What was injected arrives, though its endpoint is closed before there are receives for it.
static void injected_before_close(void) {
  enum { kAll = 100 };
  struct side a = enabled(), b = enabled();
  const fi_addr_t to = insert(&a, &b.name);
  pthread_t closer;
  for (int i = 0; i < kAll; ++i) POST(fi_inject(a.ep, &i, sizeof i, to));
  IS(pthread_create(&closer, NULL, close_endpoint, a.ep), 0);
  for (int i = 0; i < 300; ++i) nap();
  for (int i = 0; i < kAll; ++i) {
    int got = -1;
    OK(fi_recv(b.ep, &got, sizeof got, NULL, FI_ADDR_UNSPEC, NULL));
    completed(b.cq, NULL);
    IS(got, i);
  }
  IS(pthread_join(closer, NULL), 0);
}

static void errors_have_texts(void) {
  struct side a = enabled(), b = enabled();
  const fi_addr_t to = insert(&a, &b.name);
  char room[4], text[80];
  OK(fi_recv(b.ep, room, sizeof room, NULL, FI_ADDR_UNSPEC, room));
  OK(fi_inject(a.ep, "12345678", 8, to));
  struct fi_cq_err_entry entry = failed_entry(b.cq);
  IS(entry.err, FI_ETRUNC);
  IS(entry.len, 4);
  IS(entry.olen, 4);
  CHECK(memcmp(room, "1234", 4) == 0);
  CHECK(strcmp(fi_cq_strerror(b.cq, entry.prov_errno, NULL, text, sizeof text),
               "local_length_error") == 0);
  OK(fi_trecv(b.ep, room, sizeof room, NULL, FI_ADDR_UNSPEC, 5, 0, room));
  OK(fi_cancel(&b.ep->fid, room));
  entry = failed_entry(b.cq);
  IS(entry.err, FI_ECANCELED);
  IS(entry.tag, 5);
  CHECK(strcmp(fi_cq_strerror(b.cq, entry.prov_errno, NULL, text, sizeof text), "flushed") == 0);
}

// Structures of a program of 1.4 end before err_data_size.
static void old_error_entry(void) {
  struct side a = opened();
  OK(fi_enable(a.ep));
  char room[4];
  OK(fi_recv(a.ep, room, sizeof room, NULL, FI_ADDR_UNSPEC, room));
  OK(fi_cancel(&a.ep->fid, room));
  struct fi_cq_err_entry entry;
  memset(&entry, 0x5A, sizeof entry);
  IS(fi_cq_readerr(a.cq, &entry, 0), 1);
  IS(entry.err, FI_ECANCELED);
  CHECK(entry.err_data_size == 0x5A5A5A5A5A5A5A5A);
}

static void wrong_calls(void) {
  struct side a = opened();
  char byte = 0;
  struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_NONE};
  struct fid_cntr *cntr, *other;
  OK(fi_cntr_open(domain, &attr, &cntr, NULL));
  OK(fi_cntr_open(domain, &attr, &other, NULL));
  OK(fi_ep_bind(a.ep, &cntr->fid, FI_SEND));
  IS(fi_ep_bind(a.ep, &other->fid, FI_SEND), -FI_EINVAL);
  IS(fi_recv(a.ep, &byte, 1, NULL, FI_ADDR_UNSPEC, NULL), -FI_EOPBADSTATE);
  IS(fi_send(a.ep, &byte, 1, NULL, 0, NULL), -FI_EOPBADSTATE);
  fi_addr_t numbers[4];
  CHECK(fi_av_insertsym(a.av, "host99999999999999999999999", 1, "1", 1, numbers, 0, NULL) < 0);
  IS(fi_av_insertsym(a.av, "127.0.0.1", 1, NULL, 1, numbers, 0, NULL), -FI_EINVAL);
  IS(fi_av_insertsym(a.av, "127.0.0.9", 2, "7000", 2, numbers, 0, NULL), 4);
  char text[80];
  size_t length = sizeof text;
  struct sockaddr_storage name;
  size_t size = sizeof name;
  OK(fi_av_lookup(a.av, numbers[3], &name, &size));
  fi_av_straddr(a.av, &name, text, &length);
  CHECK(strcmp(text, "fi_sockaddr_in://127.0.0.10:7001") == 0);
}

// Capabilities of one direction have their modifiers, as those of both.
static void modifiers(void) {
  struct fi_info *hints = hints_of("weft", FI_EP_RDM, FI_MSG | FI_TAGGED), *found;
  hints->tx_attr->caps = FI_MSG;
  hints->rx_attr->caps = FI_TAGGED;
  OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &found));
  IS(found->tx_attr->caps, FI_MSG | FI_SEND);
  IS(found->rx_attr->caps, FI_TAGGED | FI_RECV);
  fi_freeinfo(hints);
  fi_freeinfo(found);
}

// What was found has all that was asked for, in both directions where none was named, and no mode
// of registration beyond what the caller knows.
static void check_found(const struct fi_info *hints, const struct fi_info *found) {
  const uint64_t messages = FI_MSG | FI_TAGGED, memory = FI_RMA | FI_ATOMIC;
  const uint64_t ways = FI_SEND | FI_RECV, targets = FI_REMOTE_READ | FI_REMOTE_WRITE;
  const uint64_t accesses = FI_READ | FI_WRITE | targets, caps = hints->caps;
  const int mode = found->domain_attr->mr_mode, known = hints->domain_attr->mr_mode;
  IS(found->ep_attr->type, FI_EP_RDM);
  IS(found->caps & caps, caps);
  if ((caps & messages) && !(caps & ways)) IS(found->caps & ways, ways);
  if ((caps & memory) && !(caps & accesses)) IS(found->caps & accesses, accesses);
  IS(found->caps & FI_RMA_EVENT, caps & FI_RMA_EVENT);
  IS(found->tx_attr->caps & ~found->caps, 0);
  IS(found->rx_attr->caps & ~found->caps, 0);
  IS(found->tx_attr->caps & (FI_RECV | targets), 0);
  IS(found->rx_attr->caps & (FI_SEND | FI_READ | FI_WRITE), 0);
  if (known == FI_MR_BASIC || known == FI_MR_SCALABLE)
    IS(mode, known);
  else
    IS(mode & ~known, 0);
  const int has_long_keys = (mode & FI_MR_PROV_KEY) == 0 && mode != FI_MR_BASIC;
  if ((caps & memory) && (has_long_keys || (caps & FI_RMA_EVENT)))
    IS(found->domain_attr->mr_key_size, 8);
}

// Every combination of capabilities and modes of registration; some of them are used.
static void every_hint(void) {
  static const uint64_t kCaps[] = {FI_MSG,  FI_TAGGED, FI_RMA,         FI_ATOMIC,       FI_SEND,
                                   FI_RECV, FI_READ,   FI_REMOTE_READ, FI_REMOTE_WRITE, FI_RMA_EVENT};
  static const int kModes[] = {0,
                               FI_MR_BASIC,
                               FI_MR_SCALABLE,
                               FI_MR_VIRT_ADDR,
                               FI_MR_PROV_KEY,
                               FI_MR_VIRT_ADDR | FI_MR_PROV_KEY,
                               FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |
                                   FI_MR_RMA_EVENT | FI_MR_ENDPOINT};
  enum { kBits = sizeof kCaps / sizeof kCaps[0], kAll = sizeof kModes / sizeof kModes[0] };
  struct fi_info *hints = hints_of("weft", FI_EP_RDM, 0), *found;
  for (unsigned i = 0; i < kAll << kBits; ++i) {
    hints->caps = 0;
    for (unsigned bit = 0; bit < kBits; ++bit)
      if (i & 1u << bit) hints->caps |= kCaps[bit];
    hints->domain_attr->mr_mode = kModes[i >> kBits];
    OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &found));
    check_found(hints, found);
    if (i % 101 == 0) {
      OK(fi_close(&domain->fid));
      fi_freeinfo(info);
      info = fi_dupinfo(found);
      OK(fi_domain(fabric, info, &domain, NULL));
      struct side a = enabled();
      close_side(&a);
    }
    fi_freeinfo(found);
  }
  OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, NULL, &found));
  fi_freeinfo(found);
}

static struct fid_mr *exposed(void *bytes, size_t length) {
  struct fid_mr *mr;
  OK(fi_mr_reg(domain, bytes, length, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL));
  return mr;
}

static void atomic_errors(void) {
  struct side a = enabled(), b = enabled();
  const fi_addr_t to = insert(&a, &b.name);
  uint64_t word = 1, other = 1, result = 0;
  struct fid_mr *const mr = exposed(&word, sizeof word);
  const uint64_t at = (uintptr_t)&word;
  OK(fi_fetch_atomic(a.ep, &other, 1, NULL, &result, NULL, to, at + 8, fi_mr_key(mr), FI_UINT64,
                     FI_SUM, &word));
  const struct fi_cq_err_entry entry = failed_entry(a.cq);
  char text[80];
  CHECK(entry.op_context == &word);
  IS(entry.err, FI_EACCES);
  CHECK(strcmp(fi_cq_strerror(a.cq, entry.prov_errno, NULL, text, sizeof text),
               "remote_access_error") == 0);
  OK(fi_fetch_atomic(a.ep, &other, 1, NULL, &result, NULL, to, at, fi_mr_key(mr), FI_UINT64, FI_SUM,
                     &word));
  completed(a.cq, NULL);
  CHECK(word == 2 && result == 1);
}

// Opens the domain again for keys of the program's choice, and offsets for addresses.
static void open_with_keys(int mr_mode, uint64_t more_caps) {
  struct fi_info *hints = hints_of("weft", FI_EP_RDM, FI_MSG | FI_RMA | FI_ATOMIC | more_caps);
  hints->domain_attr->mr_mode = mr_mode;
  OK(fi_close(&domain->fid));
  fi_freeinfo(info);
  OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
  IS(info->domain_attr->mr_mode, mr_mode);
  IS(info->domain_attr->mr_key_size, 8);
  OK(fi_domain(fabric, info, &domain, NULL));
  fi_freeinfo(hints);
}

static struct fid_mr *keyed(void *bytes, size_t length, uint64_t key) {
  struct fid_mr *mr;
  OK(fi_mr_reg(domain, bytes, length, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, key, 0, &mr, NULL));
  IS(fi_mr_key(mr), key);
  return mr;
}

// A region of a word: with this key and addressed by offset, where the domain wants that.
static struct fid_mr *keyed_as_domain(uint64_t *word, uint64_t key) {
  const int is_basic = info->domain_attr->mr_mode == FI_MR_BASIC;
  return is_basic ? exposed(word, sizeof *word) : keyed(word, sizeof *word, key);
}

static uint64_t at_in(const uint64_t *word) {
  return info->domain_attr->mr_mode == FI_MR_BASIC ? (uintptr_t)word : 0;
}

// WRITEs, READs and atomics by a key that the peer knows from nowhere; addresses count from the
// beginning of the region.
static void user_keys(void) {
  enum { kLarge = 100000 };
  const uint64_t key = 0xFEDCBA9876543210;
  open_with_keys(0, 0);
  struct side a = enabled(), b = enabled();
  const fi_addr_t to = insert(&a, &b.name);
  static char first[kLarge], second[kLarge], from[kLarge], into[kLarge];
  struct fid_mr *mr = keyed(first, kLarge, key), *same;
  IS(fi_mr_reg(domain, second, kLarge, FI_REMOTE_READ, 0, key, 0, &same, NULL), -FI_ENOKEY);
  for (int i = 0; i < kLarge; ++i) from[i] = (char)(i * 7);
  OK(fi_write(a.ep, from, kLarge - 8, NULL, to, 8, key, NULL));
  completed(a.cq, NULL);
  CHECK(memcmp(first + 8, from, kLarge - 8) == 0);
  OK(fi_read(a.ep, into, 100, NULL, to, 8, key, NULL));
  completed(a.cq, NULL);
  CHECK(memcmp(into, from, 100) == 0);
  for (int i = 0; i < 50; ++i) POST(fi_inject_write(a.ep, from, 1000, to, 500, key));
  uint64_t one = 1, old = 9;
  memset(first, 0, 8);
  OK(fi_fetch_atomic(a.ep, &one, 1, NULL, &old, NULL, to, 0, key, FI_UINT64, FI_SUM, NULL));
  completed(a.cq, NULL);
  IS(old, 0);
  memcpy(&old, first, sizeof old);
  IS(old, 1);
  // Another region has the key now: the peer asks again, and never writes to the first.
  OK(fi_close(&mr->fid));
  mr = keyed(second, kLarge, key);
  memset(first, 0, kLarge);
  OK(fi_write(a.ep, from, kLarge, NULL, to, 0, key, NULL));
  completed(a.cq, NULL);
  CHECK(memcmp(second, from, kLarge) == 0);
  CHECK(first[0] == 0 && memcmp(first, first + 1, kLarge - 1) == 0);
  OK(fi_close(&mr->fid));
  OK(fi_write(a.ep, from, 8, NULL, to, 0, key, from));
  struct fi_cq_err_entry entry = failed_entry(a.cq);
  CHECK(entry.op_context == from);
  IS(entry.err, FI_EACCES);
  OK(fi_read(a.ep, into, 8, NULL, to, 0, 4711, into));
  entry = failed_entry(a.cq);
  CHECK(entry.op_context == into);
  IS(entry.err, FI_EACCES);
  close_side(&a);
  close_side(&b);
}

// The same with virtual addresses; and a region without remote access needs no key of its own.
static void user_keys_at_addresses(void) {
  open_with_keys(FI_MR_VIRT_ADDR, 0);
  struct side a = enabled(), b = enabled();
  const fi_addr_t to = insert(&a, &b.name);
  uint64_t word = 0, value = 77;
  struct fid_mr *const mr = keyed(&word, sizeof word, 1), *local;
  OK(fi_mr_reg(domain, &value, sizeof value, FI_SEND, 0, 1, 0, &local, NULL));
  OK(fi_write(a.ep, &value, sizeof value, NULL, to, (uintptr_t)&word, 1, NULL));
  completed(a.cq, NULL);
  IS(word, 77);
  OK(fi_write(a.ep, &value, sizeof value, NULL, to, (uintptr_t)&word + 1, 1, &value));
  IS(failed_entry(a.cq).err, FI_EACCES);
  OK(fi_close(&mr->fid));
  OK(fi_close(&local->fid));
}

// What is no key of the provider is refused, and not cut.
static void long_keys(void) {
  struct side a = enabled(), b = enabled();
  const fi_addr_t to = insert(&a, &b.name);
  uint64_t word = 0, value = 77;
  struct fid_mr *const mr = exposed(&word, sizeof word);
  const uint64_t key = fi_mr_key(mr) | 1ull << 32;
  IS(fi_write(a.ep, &value, sizeof value, NULL, to, (uintptr_t)&word, key, NULL),
     -FI_EKEYREJECTED);
  OK(fi_atomic(a.ep, &value, 1, NULL, to, (uintptr_t)&word, key, FI_UINT64, FI_SUM, NULL));
  IS(failed_entry(a.cq).err, FI_EACCES);
  IS(word, 0);
}

static uint64_t counted(struct fid_cntr *cntr, uint64_t least) {
  IS(fi_cntr_wait(cntr, least, 20000), 0);
  return fi_cntr_read(cntr);
}

// What peers do is counted at the endpoint and at the region that it is done to; a region without
// counters, and one of a domain without FI_RMA_EVENT, count nothing.
static void count_remote_operations(void) {
  struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
  struct fid_cntr *writes, *reads, *to_region;
  struct side a = enabled(), b = opened();
  uint64_t words[2] = {1, 1}, one = 1, old = 0;
  OK(fi_cntr_open(domain, &attr, &writes, NULL));
  OK(fi_cntr_open(domain, &attr, &reads, NULL));
  OK(fi_cntr_open(domain, &attr, &to_region, NULL));
  OK(fi_ep_bind(b.ep, &writes->fid, FI_REMOTE_WRITE));
  OK(fi_ep_bind(b.ep, &reads->fid, FI_REMOTE_READ));
  IS(fi_ep_bind(b.ep, &writes->fid, FI_REMOTE_READ), -FI_EINVAL);
  OK(fi_enable(b.ep));
  OK(fi_getname(&b.ep->fid, &b.name, &b.length));
  const fi_addr_t to = insert(&a, &b.name);
  struct fid_mr *const mr = keyed_as_domain(&words[0], 17);
  struct fid_mr *const plain = keyed_as_domain(&words[1], 18);
  IS(fi_mr_bind(mr, &to_region->fid, FI_SEND), -FI_EBADFLAGS);
  OK(fi_mr_bind(mr, &to_region->fid, FI_REMOTE_WRITE));
  const uint64_t first = at_in(&words[0]), second = at_in(&words[1]);
  OK(fi_write(a.ep, &one, sizeof one, NULL, to, first, fi_mr_key(mr), NULL));
  OK(fi_writedata(a.ep, &one, sizeof one, NULL, 5, to, first, fi_mr_key(mr), NULL));
  OK(fi_inject_write(a.ep, &one, sizeof one, to, second, fi_mr_key(plain)));
  OK(fi_atomic(a.ep, &one, 1, NULL, to, first, fi_mr_key(mr), FI_UINT64, FI_SUM, NULL));
  IS(counted(writes, 4), 4);
  IS(counted(to_region, 3), 3);
  IS(fi_cntr_read(reads), 0);
  OK(fi_read(a.ep, &old, sizeof old, NULL, to, first, fi_mr_key(mr), NULL));
  OK(fi_fetch_atomic(a.ep, &one, 1, NULL, &old, NULL, to, second, fi_mr_key(plain), FI_UINT64,
                     FI_SUM, NULL));
  IS(counted(reads, 2), 2);
  for (int i = 0; i < 5; ++i) completed(a.cq, NULL);
  // What was refused is not counted.
  OK(fi_write(a.ep, &one, sizeof one, NULL, to, first + 8, fi_mr_key(mr), NULL));
  failed_entry(a.cq);
  OK(fi_write(a.ep, &one, sizeof one, NULL, to, first, fi_mr_key(mr), NULL));
  IS(counted(writes, 5), 5);
  IS(counted(to_region, 4), 4);
  IS(fi_close(&to_region->fid), -FI_EBUSY);
  OK(fi_close(&mr->fid));
  OK(fi_close(&plain->fid));
  OK(fi_close(&to_region->fid));
  close_side(&a);
  close_side(&b);
  OK(fi_close(&writes->fid));
  OK(fi_close(&reads->fid));
}

// The same with keys of the program's choice; and without FI_RMA_EVENT there are no such counters.
static void count_with_user_keys(void) {
  struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_NONE};
  struct fid_cntr *cntr;
  open_with_keys(0, FI_RMA_EVENT);
  count_remote_operations();
  open_with_keys(0, 0);
  struct side a = opened();
  uint64_t word;
  struct fid_mr *const mr = keyed(&word, sizeof word, 1);
  OK(fi_cntr_open(domain, &attr, &cntr, NULL));
  IS(fi_ep_bind(a.ep, &cntr->fid, FI_REMOTE_WRITE), -FI_EOPNOTSUPP);
  IS(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE), -FI_EOPNOTSUPP);
}

// A fenced operation waits for those to its peer, and for no others.
static void fence(void) {
  enum { kSize = 100000 };
  struct side a = enabled(), b = enabled(), c = enabled();
  const fi_addr_t to_b = insert(&a, &b.name), to_c = insert(&a, &c.name);
  static char bytes[kSize], into[kSize];
  struct iovec iov = {bytes, 1};
  struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = to_b};
  OK(fi_send(a.ep, bytes, kSize, NULL, to_b, bytes));
  IS(fi_sendmsg(a.ep, &msg, FI_FENCE), -FI_EAGAIN);
  msg.addr = to_c;
  OK(fi_sendmsg(a.ep, &msg, FI_FENCE));
  OK(fi_recv(b.ep, into, kSize, NULL, FI_ADDR_UNSPEC, NULL));
  msg.addr = to_b;
  POST(fi_sendmsg(a.ep, &msg, FI_FENCE));
  completed(b.cq, NULL);
}

int main(int count, char **words) {
  static const struct test_case kCases[] = {
      {"insert_keeps_peers", insert_keeps_peers, FI_VERSION(1, 17), FI_MSG},
      {"port_names_have_sources", port_names_have_sources, FI_VERSION(1, 17),
       FI_MSG | FI_SOURCE | FI_DIRECTED_RECV},
      {"closed_peer", closed_peer, FI_VERSION(1, 17), FI_MSG},
      {"killed_peer", killed_peer, FI_VERSION(1, 17), FI_MSG | FI_DIRECTED_RECV},
      {"injected_before_close", injected_before_close, FI_VERSION(1, 17), FI_MSG},
      {"discarded_has_tag", discarded_has_tag, FI_VERSION(1, 17), FI_TAGGED},
      {"errors_have_texts", errors_have_texts, FI_VERSION(1, 17), FI_MSG | FI_TAGGED},
      {"old_error_entry", old_error_entry, FI_VERSION(1, 4), FI_MSG},
      {"wrong_calls", wrong_calls, FI_VERSION(1, 17), FI_MSG},
      {"modifiers", modifiers, FI_VERSION(1, 17), FI_MSG},
      {"every_hint", every_hint, FI_VERSION(1, 17), FI_MSG},
      {"atomic_errors", atomic_errors, FI_VERSION(1, 17), FI_MSG | FI_ATOMIC},
      {"user_keys", user_keys, FI_VERSION(1, 17), FI_MSG},
      {"user_keys_at_addresses", user_keys_at_addresses, FI_VERSION(1, 17), FI_MSG},
      {"long_keys", long_keys, FI_VERSION(1, 17), FI_MSG | FI_RMA | FI_ATOMIC},
      {"count_remote_operations", count_remote_operations, FI_VERSION(1, 17),
       FI_MSG | FI_RMA | FI_ATOMIC | FI_RMA_EVENT},
      {"count_with_user_keys", count_with_user_keys, FI_VERSION(1, 17), FI_MSG},
      {"fence", fence, FI_VERSION(1, 17), FI_MSG | FI_FENCE},
  };
  return run_cases(count, words, kCases, sizeof kCases / sizeof kCases[0], open_domain);
}
