// SPDX-License-Identifier: BSD-3-Clause
// In C: writes into a peer's memory, whose address and key come with the connection. Two processes
// of this program are the two sides. cc hello_write.c $(pkg-config --cflags --libs weft)
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/weft.h>

struct target {
  uint64_t address;
  uint32_t rkey;
};

// What every program needs: a device, a domain, a completion queue, a queue pair.
struct side {
  weft_device* device;
  weft_pd* pd;
  weft_cq* cq;
  weft_qp* qp;
};

// Ends the program with the error's text.
static void need(weft_code code) {
  if (code == WEFT_OK) return;
  fprintf(stderr, "%s: %s\n", weft_code_name(code), weft_error_text());
  exit(1);
}

static struct side open_side(void) {
  struct side it;
  need(weft_device_open(NULL, &it.device));  // WEFT_DEVICE, or roce+udp:lo
  need(weft_pd_create(it.device, &it.pd));
  need(weft_cq_create(it.device, NULL, &it.cq));
  weft_qp_options options;
  weft_qp_options_init(&options, sizeof options);
  options.send_cq = it.cq;
  options.recv_cq = it.cq;
  need(weft_qp_create(it.pd, &options, &it.qp));
  return it;
}

static void close_side(struct side* it) {
  weft_qp_destroy(it->qp);
  weft_cq_destroy(it->cq);
  weft_pd_destroy(it->pd);
  weft_device_close(it->device);
}

static int serve(weft_listener* listener) {
  struct side side = open_side();
  char text[64] = {0};
  weft_mr* region;
  need(weft_mr_register(side.pd, text, sizeof text, WEFT_ACCESS_ALL, &region));
  const struct target target = {weft_mr_iova(region), weft_mr_rkey(region)};
  weft_connect_options options;
  weft_connect_options_init(&options, sizeof options);
  options.private_data = &target;
  options.private_size = sizeof target;
  need(weft_listener_accept(listener, side.qp, &options, NULL));
  const volatile char* last = text + 14;  // data arrive in order, so this byte is the last
  while (*last != '!') weft_device_progress(side.device);
  printf("server: in my memory: %s\n", text);
  weft_mr_deregister(region);
  close_side(&side);
  return 0;
}

static int write_to(const char* address) {
  struct side side = open_side();
  char text[] = "written from C!";
  weft_mr* region;
  need(weft_mr_register(side.pd, text, sizeof text, WEFT_ACCESS_LOCAL_WRITE, &region));
  weft_connection peer = {.size = sizeof peer};
  need(weft_connect(address, side.qp, NULL, &peer));
  struct target target;
  memcpy(&target, peer.private_data, sizeof target);
  const weft_sge source = weft_mr_sge(region, 0, sizeof text - 1);
  const weft_send_request request = {.opcode = WEFT_OP_WRITE,
                                     .flags = WEFT_SEND_SIGNALED,
                                     .sges = &source,
                                     .sge_count = 1,
                                     .remote_address = target.address,
                                     .rkey = target.rkey};
  need(weft_post_send(side.qp, &request, 1, NULL));
  weft_completion done;
  if (weft_cq_wait(side.cq, &done, 1, 10000) == 0) return 1;
  printf("client: %s\n", weft_status_name(done.status));
  weft_mr_deregister(region);
  close_side(&side);
  return done.status == WEFT_SUCCESS ? 0 : 1;
}

int main(void) {
  weft_listener* listener;
  need(weft_listener_create("127.0.0.1:0", &listener));
  char address[32];
  snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)weft_listener_port(listener));
  if (fork() == 0) return write_to(address);
  const int failed = serve(listener);
  int client = 1;
  wait(&client);
  weft_listener_destroy(listener);
  return failed != 0 || client != 0;
}
