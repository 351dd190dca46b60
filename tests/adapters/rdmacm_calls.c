// SPDX-License-Identifier: BSD-3-Clause
// Calls of rdma_cma.h that Debian's programs do not make, in one process that is both sides: queue
// pairs that the program moves itself (as UCX does), event channels, ports, options, refusals.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(what)                                                                           \
  do {                                                                                        \
    if (!(what)) {                                                                            \
      printf("line %d: %s fails, errno %d (%s)\n", __LINE__, #what, errno, strerror(errno)); \
      exit(1);                                                                                \
    }                                                                                         \
  } while (0)

enum { kPort = 7300 };

static struct rdma_cm_event *expect(struct rdma_event_channel *channel,
                                    enum rdma_cm_event_type type) {
  struct rdma_cm_event *event;
  CHECK(rdma_get_cm_event(channel, &event) == 0);
  if (event->event != type) {
    printf("%s, status %d, instead of %s\n", rdma_event_str(event->event), event->status,
           rdma_event_str(type));
    exit(1);
  }
  return event;
}

static void ack(struct rdma_event_channel *channel, enum rdma_cm_event_type type) {
  CHECK(rdma_ack_cm_event(expect(channel, type)) == 0);
}

static struct sockaddr_in at(const char *address, int port) {
  struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  inet_pton(AF_INET, address, &in.sin_addr);
  return in;
}

static struct rdma_cm_id *listener_at(struct rdma_event_channel *channel, int port) {
  struct rdma_cm_id *id;
  struct sockaddr_in any = at("0.0.0.0", port);
  CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
  CHECK(rdma_bind_addr(id, (struct sockaddr *)&any) == 0);
  CHECK(rdma_get_src_port(id) != 0);
  CHECK(rdma_listen(id, 4) == 0);
  return id;
}

static struct rdma_cm_id *routed_to(struct rdma_event_channel *channel, int port) {
  struct rdma_cm_id *id;
  struct sockaddr_in to = at("127.0.0.21", port);
  CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
  CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000) == 0);
  ack(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
  CHECK(id->verbs != NULL && id->port_num == 1 && rdma_get_dst_port(id) == htons((uint16_t)port));
  CHECK(rdma_resolve_route(id, 1000) == 0);
  ack(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
  CHECK(id->route.num_paths == 1 && id->route.path_rec != NULL);
  return id;
}

static struct ibv_qp *own_queue_pair(struct rdma_cm_id *id, struct ibv_cq *cq, struct ibv_pd *pd) {
  struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
                                  .cap = {8, 8, 1, 1, 0}};
  struct ibv_qp *qp = ibv_create_qp(pd, &attr);
  (void)id;
  CHECK(qp != NULL);
  return qp;
}

static void move(struct rdma_cm_id *id, struct ibv_qp *qp) {
  const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
  for (int i = 0; i < 3; ++i) {
    struct ibv_qp_attr attr = {.qp_state = states[i]};
    int mask;
    CHECK(rdma_init_qp_attr(id, &attr, &mask) == 0);
    CHECK(ibv_modify_qp(qp, &attr, mask) == 0);
  }
}

// Both sides have queue pairs of a context and domain of their own.
static void own_queue_pairs(struct rdma_event_channel *channel) {
  struct rdma_cm_id *listener = listener_at(channel, kPort), *id = routed_to(channel, kPort);
  int count = 0;
  struct ibv_device **list = ibv_get_device_list(&count);
  CHECK(count == 1);
  struct ibv_context *context = ibv_open_device(list[0]);
  CHECK(context != NULL && context != id->verbs);
  struct ibv_pd *pd = ibv_alloc_pd(context);
  struct ibv_cq *cq = ibv_create_cq(context, 32, NULL, NULL, 0);
  CHECK(pd != NULL && cq != NULL);
  struct ibv_qp *ours = own_queue_pair(id, cq, pd), *theirs = own_queue_pair(id, cq, pd);
  struct rdma_conn_param param = {.private_data = "may I", .private_data_len = 6,
                                  .responder_resources = 2, .initiator_depth = 3,
                                  .retry_count = 7, .rnr_retry_count = 7, .qp_num = ours->qp_num};
  CHECK(rdma_connect(id, &param) == 0);
  struct rdma_cm_event *asked = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
  CHECK(asked->listen_id == listener && asked->param.conn.qp_num == ours->qp_num);
  CHECK(strcmp(asked->param.conn.private_data, "may I") == 0);
  CHECK(asked->param.conn.responder_resources == 3 && asked->param.conn.initiator_depth == 2);
  struct rdma_cm_id *peer = asked->id;
  CHECK(rdma_get_dst_port(peer) == rdma_get_src_port(id));
  move(peer, theirs);
  param.qp_num = theirs->qp_num;
  CHECK(rdma_accept(peer, &param) == 0);
  CHECK(rdma_ack_cm_event(asked) == 0);
  struct rdma_cm_event *answered = expect(channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
  CHECK(answered->param.conn.qp_num == theirs->qp_num);
  CHECK(rdma_ack_cm_event(answered) == 0);
  move(id, ours);
  CHECK(rdma_establish(id) == 0);
  ack(channel, RDMA_CM_EVENT_ESTABLISHED);
  CHECK(rdma_notify(peer, IBV_EVENT_COMM_EST) == 0);
  CHECK(rdma_notify(peer, IBV_EVENT_PORT_ERR) == -1 && errno == EINVAL);

  char text[16] = "hello", in[16] = "";
  struct ibv_mr *out_mr = ibv_reg_mr(pd, text, sizeof text, 0);
  struct ibv_mr *in_mr = ibv_reg_mr(pd, in, sizeof in, IBV_ACCESS_LOCAL_WRITE);
  struct ibv_sge out_sge = {(uintptr_t)text, sizeof text, out_mr->lkey};
  struct ibv_sge in_sge = {(uintptr_t)in, sizeof in, in_mr->lkey};
  struct ibv_recv_wr recv = {.wr_id = 1, .sg_list = &in_sge, .num_sge = 1}, *bad_recv;
  struct ibv_send_wr send = {.wr_id = 2, .sg_list = &out_sge, .num_sge = 1,
                             .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad_send;
  CHECK(ibv_post_recv(theirs, &recv, &bad_recv) == 0);
  CHECK(ibv_post_send(ours, &send, &bad_send) == 0);
  for (int done = 0; done < 2;) {
    struct ibv_wc wc;
    const int n = ibv_poll_cq(cq, 1, &wc);
    CHECK(n >= 0 && (n == 0 || wc.status == IBV_WC_SUCCESS));
    done += n;
  }
  CHECK(strcmp(in, "hello") == 0);

  CHECK(rdma_disconnect(id) == 0);
  ack(channel, RDMA_CM_EVENT_DISCONNECTED);
  ack(channel, RDMA_CM_EVENT_DISCONNECTED);
  CHECK(rdma_destroy_id(peer) == 0 && rdma_destroy_id(id) == 0 && rdma_destroy_id(listener) == 0);
  CHECK(ibv_destroy_qp(ours) == 0 && ibv_destroy_qp(theirs) == 0 && ibv_destroy_cq(cq) == 0);
  CHECK(ibv_dereg_mr(out_mr) == 0 && ibv_dereg_mr(in_mr) == 0 && ibv_dealloc_pd(pd) == 0);
  CHECK(ibv_close_device(context) == 0);
  ibv_free_device_list(list);
}

static void *acknowledge_later(void *event) {
  usleep(50000);
  *(volatile int *)((struct rdma_cm_event *)event)->id->context = 1;
  CHECK(rdma_ack_cm_event(event) == 0);
  return NULL;
}

// Descriptors tell of events; destroying an id waits for acknowledgements; ids move.
static void channels(struct rdma_event_channel *channel) {
  struct rdma_event_channel *other = rdma_create_event_channel();
  struct rdma_cm_event *event;
  struct pollfd p = {.fd = other->fd, .events = POLLIN};
  CHECK(other != NULL && fcntl(other->fd, F_SETFL, O_NONBLOCK) == 0);
  CHECK(rdma_get_cm_event(other, &event) == -1 && errno == EAGAIN);
  struct rdma_cm_id *listener = listener_at(channel, kPort), *id = routed_to(channel, kPort);
  CHECK(rdma_migrate_id(id, other) == 0 && id->channel == other);
  struct rdma_conn_param param = {.qp_num = 77};
  CHECK(rdma_connect(id, &param) == 0);
  struct rdma_cm_event *asked = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
  CHECK(poll(&p, 1, 0) == 0);
  CHECK(rdma_reject(asked->id, "no", 3) == 0);
  CHECK(rdma_destroy_id(asked->id) == 0 && rdma_ack_cm_event(asked) == 0);
  CHECK(poll(&p, 1, 10000) == 1);
  event = expect(other, RDMA_CM_EVENT_REJECTED);
  CHECK(event->status == 28 && strcmp(event->param.conn.private_data, "no") == 0);
  CHECK(poll(&p, 1, 0) == 0);
  volatile int acknowledged = 0;
  id->context = (void *)&acknowledged;
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, acknowledge_later, event) == 0);
  CHECK(rdma_destroy_id(id) == 0);
  CHECK(acknowledged == 1);
  pthread_join(thread, NULL);
  CHECK(rdma_destroy_id(listener) == 0);
  rdma_destroy_event_channel(other);
}

static void refusals(struct rdma_event_channel *channel) {
  struct rdma_cm_id *listener = listener_at(channel, 0), *id;
  struct sockaddr_in taken = at("0.0.0.0", ntohs(rdma_get_src_port(listener)));
  struct sockaddr_in foreign = at("192.0.2.77", 1), nowhere = at("203.0.113.1", 1);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
  int mask, on = 1;
  uint8_t tos = 32;
  CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_IB) == -1 && errno == EOPNOTSUPP);
  CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
  CHECK(rdma_connect(id, NULL) == -1 && errno == EINVAL);
  CHECK(rdma_accept(id, NULL) == -1 && errno == EINVAL);
  CHECK(rdma_disconnect(id) == -1 && errno == EINVAL);
  CHECK(rdma_resolve_route(id, 1) == -1 && errno == EINVAL);
  CHECK(rdma_init_qp_attr(id, &attr, &mask) == -1 && errno == EINVAL);
  CHECK(rdma_bind_addr(id, (struct sockaddr *)&foreign) == -1 && errno == EADDRNOTAVAIL);
  CHECK(rdma_bind_addr(id, (struct sockaddr *)&taken) == -1 && errno == EADDRINUSE);
  CHECK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on) == 0);
  CHECK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos) == 0);
  CHECK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &on, sizeof on) == -1);
  CHECK(rdma_set_option(id, 9, 9, &on, sizeof on) == -1 && errno == ENOSYS);
  CHECK(rdma_set_local_ece(id, NULL) == -1 && errno == EOPNOTSUPP);
  CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&nowhere, 100) == 0);
  ack(channel, RDMA_CM_EVENT_ADDR_ERROR);
  CHECK(rdma_destroy_id(id) == 0);
  id = routed_to(channel, 7399);  // where there is no listener
  struct rdma_conn_param param = {.qp_num = 77, .responder_resources = 200};
  CHECK(rdma_connect(id, NULL) == -1 && errno == EINVAL);  // which queue pair?
  CHECK(rdma_connect(id, &param) == -1 && errno == EINVAL);  // max_qp_rd_atom is less
  param.responder_resources = 0;
  param.initiator_depth = 200;
  CHECK(rdma_connect(id, &param) == -1 && errno == EINVAL);
  param.initiator_depth = RDMA_MAX_INIT_DEPTH;
  CHECK(rdma_connect(id, &param) == 0);
  struct rdma_cm_event *event = expect(channel, RDMA_CM_EVENT_REJECTED);
  CHECK(event->status == 8 && rdma_ack_cm_event(event) == 0);
  CHECK(rdma_destroy_id(id) == 0 && rdma_destroy_id(listener) == 0);
}

static void on_signal(int signal) { (void)signal; }

// A call that blocks: on a channel, or on an rsocket.
struct waiting {
  int (*call)(struct waiting *);
  struct rdma_event_channel *channel;
  int socket;
  volatile int returned, error;
};

static int get_event(struct waiting *w) {
  struct rdma_cm_event *event;
  return rdma_get_cm_event(w->channel, &event);
}

static int accept_one(struct waiting *w) { return raccept(w->socket, NULL, NULL); }

static int receive_some(struct waiting *w) {
  char byte;
  return (int)rrecv(w->socket, &byte, 1, 0);
}

static int send_all(struct waiting *w) {
  static char bytes[1 << 20];
  for (;;)
    if (rsend(w->socket, bytes, sizeof bytes, 0) < 0) return -1;
}

static int poll_one(struct waiting *w) {
  struct pollfd p = {.fd = w->socket, .events = POLLIN};
  return rpoll(&p, 1, -1);
}

static void *wait_in_call(void *arg) {
  struct waiting *w = arg;
  errno = 0;
  const int result = w->call(w);
  w->error = result == -1 ? errno : -1;
  w->returned = 1;
  return NULL;
}

static void interrupt(struct waiting w) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, wait_in_call, &w) == 0);
  for (int i = 0; i < 4000 && !w.returned; ++i) {
    usleep(5000);
    pthread_kill(thread, SIGUSR1);
  }
  CHECK(w.returned);
  pthread_join(thread, NULL);
  CHECK(w.error == EINTR);
}

static void *connect_to(void *arg) {
  struct sockaddr_in to = at("127.0.0.21", *(int *)arg);
  const int fd = rsocket(AF_INET, SOCK_STREAM, 0);
  CHECK(fd >= 0 && rconnect(fd, (struct sockaddr *)&to, sizeof to) == 0);
  *(int *)arg = fd;
  return NULL;
}

// A handler without SA_RESTART ends each wait, as it ends the read(2) of a kernel's descriptor.
static void interrupted_waits(struct rdma_event_channel *channel) {
  struct sigaction action = {.sa_handler = on_signal}, before;
  struct sockaddr_in local = at("127.0.0.21", kPort);
  pthread_t thread;
  int connected = kPort;
  CHECK(sigaction(SIGUSR1, &action, &before) == 0);
  interrupt((struct waiting){.call = get_event, .channel = channel});
  const int listener = rsocket(AF_INET, SOCK_STREAM, 0);
  const int datagrams = rsocket(AF_INET, SOCK_DGRAM, 0);
  CHECK(listener >= 0 && rbind(listener, (struct sockaddr *)&local, sizeof local) == 0);
  CHECK(rlisten(listener, 1) == 0);
  interrupt((struct waiting){.call = accept_one, .socket = listener});
  interrupt((struct waiting){.call = poll_one, .socket = listener});
  CHECK(datagrams >= 0 && rbind(datagrams, (struct sockaddr *)&local, sizeof local) == 0);
  interrupt((struct waiting){.call = receive_some, .socket = datagrams});
  CHECK(pthread_create(&thread, NULL, connect_to, &connected) == 0);
  const int accepted = raccept(listener, NULL, NULL);
  CHECK(accepted >= 0 && pthread_join(thread, NULL) == 0);
  interrupt((struct waiting){.call = receive_some, .socket = accepted});
  interrupt((struct waiting){.call = send_all, .socket = accepted});
  CHECK(rclose(connected) == 0 && rclose(accepted) == 0);
  CHECK(rclose(listener) == 0 && rclose(datagrams) == 0);
  CHECK(sigaction(SIGUSR1, &before, NULL) == 0);
}

// rdma_destroy_qp() returns nothing: it detaches what rdma_join_multicast() has attached.
static void queue_pair_of_a_group(struct rdma_event_channel *channel) {
  struct rdma_cm_id *id;
  struct sockaddr_in local = at("127.0.0.21", 0), group = at("239.1.2.3", 0);
  CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP) == 0);
  CHECK(rdma_bind_addr(id, (struct sockaddr *)&local) == 0);
  struct ibv_pd *pd = ibv_alloc_pd(id->verbs);
  struct ibv_cq *cq = ibv_create_cq(id->verbs, 4, NULL, NULL, 0);
  struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
                                  .cap = {1, 1, 1, 1, 0}};
  CHECK(rdma_create_qp(id, pd, &attr) == 0);
  CHECK(rdma_join_multicast(id, (struct sockaddr *)&group, NULL) == 0);
  ack(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
  CHECK(ibv_destroy_qp(id->qp) == EBUSY);
  rdma_destroy_qp(id);
  CHECK(ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0);
  CHECK(rdma_leave_multicast(id, (struct sockaddr *)&group) == 0);
  CHECK(rdma_destroy_id(id) == 0);
}

// A peer that says it wrote more than it was granted is told apart from data.
static void peer_that_says_too_much(struct rdma_event_channel *channel) {
  const unsigned char hello[40] = {1, 0, 0, 8, [23] = 2};  // version, credits, length of its list
  struct sockaddr_in local = at("127.0.0.21", kPort);
  const int listener = rsocket(AF_INET, SOCK_STREAM, 0);
  CHECK(listener >= 0 && rbind(listener, (struct sockaddr *)&local, sizeof local) == 0);
  CHECK(rlisten(listener, 1) == 0);
  struct rdma_cm_id *id = routed_to(channel, kPort);
  struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {4, 4, 1, 1, 0}};
  struct rdma_conn_param param = {.private_data = hello, .private_data_len = sizeof hello};
  CHECK(rdma_create_qp(id, NULL, &attr) == 0 && rdma_connect(id, &param) == 0);
  const int accepted = raccept(listener, NULL, NULL);
  CHECK(accepted >= 0);
  ack(channel, RDMA_CM_EVENT_ESTABLISHED);
  struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .send_flags = IBV_SEND_SIGNALED,
                           .imm_data = htonl(1u << 28)}, *bad;
  CHECK(ibv_post_send(id->qp, &wr, &bad) == 0);
  static char bytes[1 << 20];
  CHECK(rrecv(accepted, bytes, sizeof bytes, 0) == -1 && errno == EPROTO);
  CHECK(rclose(accepted) == 0 && rclose(listener) == 0);
  rdma_destroy_qp(id);
  CHECK(rdma_destroy_id(id) == 0);
}

// A program may tell its port before it listens: a request that comes in between is not refused.
static void request_before_listening(struct rdma_event_channel *channel) {
  struct rdma_event_channel *own = rdma_create_event_channel();
  struct sockaddr_in any = at("0.0.0.0", 0);
  struct rdma_conn_param param = {.qp_num = 77};
  struct rdma_cm_id *listener;
  struct rdma_cm_event *event;
  CHECK(rdma_create_id(own, &listener, NULL, RDMA_PS_TCP) == 0);
  CHECK(rdma_bind_addr(listener, (struct sockaddr *)&any) == 0);
  struct rdma_cm_id *id = routed_to(channel, ntohs(rdma_get_src_port(listener)));
  CHECK(rdma_connect(id, &param) == 0);
  struct pollfd arrived = {.fd = own->fd, .events = POLLIN};
  CHECK(fcntl(own->fd, F_SETFL, O_NONBLOCK) == 0 && poll(&arrived, 1, 20000) == 1);
  CHECK(rdma_get_cm_event(own, &event) == -1 && errno == EAGAIN);
  CHECK(rdma_listen(listener, 1) == 0);
  event = expect(own, RDMA_CM_EVENT_CONNECT_REQUEST);
  struct rdma_cm_id *request = event->id;
  CHECK(event->listen_id == listener && event->param.conn.qp_num == 77);
  CHECK(rdma_ack_cm_event(event) == 0 && rdma_reject(request, NULL, 0) == 0);
  event = expect(channel, RDMA_CM_EVENT_REJECTED);
  CHECK(event->status == 28 && rdma_ack_cm_event(event) == 0);  // by the program
  CHECK(rdma_destroy_id(request) == 0 && rdma_destroy_id(listener) == 0 && rdma_destroy_id(id) == 0);
  rdma_destroy_event_channel(own);
}

int main(void) {
  struct rdma_event_channel *channel = rdma_create_event_channel();
  CHECK(channel != NULL);
  own_queue_pairs(channel);
  channels(channel);
  refusals(channel);
  own_queue_pairs(channel);  // the port is free again
  request_before_listening(channel);
  interrupted_waits(channel);
  queue_pair_of_a_group(channel);
  peer_that_says_too_much(channel);
  rdma_destroy_event_channel(channel);
  printf("all done\n");
  return 0;
}
