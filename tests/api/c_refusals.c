// SPDX-License-Identifier: BSD-3-Clause
// What the C API refuses: each with its code and words for people.
#include "c_side.h"

static void refusals_of_structures(struct side* a) {
  // What a newer program would give: unset is right, set is not.
  struct {
    weft_cq_options known;
    uint64_t newer;
  } longer;
  weft_cq* cq = NULL;
  weft_cq_options_init(&longer.known, sizeof longer);
  CHECK(longer.newer == 0 && longer.known.capacity == 256);
  GOOD(weft_cq_create(a->device, &longer.known, &cq));
  weft_cq_destroy(cq);
  longer.newer = 1;
  REFUSED(weft_cq_create(a->device, &longer.known, &cq), WEFT_NOT_SUPPORTED, "newer library");
  // And an older one, which knows of `capacity` only.
  weft_cq_options_init(&longer.known, offsetof(weft_cq_options, engine));
  longer.known.engine = 99;
  GOOD(weft_cq_create(a->device, &longer.known, &cq));
  weft_cq_destroy(cq);
  weft_cq_options forgotten = {0};
  REFUSED(weft_cq_create(a->device, &forgotten, &cq), WEFT_INVALID_ARGUMENT,
          "weft_cq_options_init()");
  weft_connection none = {0};
  REFUSED(weft_connect("127.0.0.1:1", a->qp, NULL, &none), WEFT_INVALID_ARGUMENT,
          "sizeof(weft_connection)");
  // A short structure is filled as far as it goes.
  weft_device_attributes is;
  memset(&is, 0xEE, sizeof is);
  is.size = offsetof(weft_device_attributes, gid);
  GOOD(weft_device_query(a->device, &is));
  CHECK(strcmp(is.provider, "") != 0 && is.gid.bytes[0] == 0xEE);
}

void refusals(struct side* a, struct side* b) {
  (void)b;
  weft_device* device = NULL;
  REFUSED(weft_device_open("roce+carrier_pigeon", &device), WEFT_NOT_FOUND, "carrier_pigeon");
  REFUSED(weft_device_open("roce+udp:lo,no_such_key=1", &device), WEFT_INVALID_ARGUMENT,
          "no_such_key");
  CHECK(device == NULL);
  weft_mr* mr = NULL;
  REFUSED(weft_mr_register(a->pd, a->memory, 8, WEFT_ACCESS_REMOTE_WRITE, &mr),
          WEFT_INVALID_ARGUMENT, "local_write");
  REFUSED(weft_pd_create(NULL, NULL), WEFT_INVALID_ARGUMENT, "weft_pd_create: device is NULL");
  weft_qp_options options;
  weft_qp_options_init(&options, sizeof options);
  weft_qp* qp = NULL;
  REFUSED(weft_qp_create(a->pd, &options, &qp), WEFT_INVALID_ARGUMENT, "send_cq");
  options.send_cq = options.recv_cq = a->cq;
  options.type = (weft_qp_type)17;
  REFUSED(weft_qp_create(a->pd, &options, &qp), WEFT_INVALID_ARGUMENT, "17");
  weft_send_request request = {.opcode = (weft_opcode)11};
  size_t accepted = 9;
  REFUSED(weft_post_send(a->qp, &request, 1, &accepted), WEFT_INVALID_ARGUMENT, "opcode");
  CHECK(accepted == 0);
  request = (weft_send_request){.sge_count = 1};
  REFUSED(weft_post_send(a->qp, &request, 1, NULL), WEFT_INVALID_ARGUMENT, "sges");
  request = (weft_send_request){.flags = 1u << 20};
  REFUSED(weft_post_send(a->qp, &request, 1, NULL), WEFT_INVALID_ARGUMENT, "flags");
  request = (weft_send_request){0};
  REFUSED(weft_post_send(a->qp, &request, 1, NULL), WEFT_BAD_STATE, "");
  REFUSED(weft_connect("127.0.0.1:1", a->qp, NULL, NULL), WEFT_NOT_FOUND, "127.0.0.1:1");
  weft_gid gid;
  REFUSED(weft_gid_parse("1.2.3.999", &gid), WEFT_INVALID_ARGUMENT, "1.2.3.999");
  GOOD(weft_gid_parse("10.1.2.3", &gid));
  char text[WEFT_GID_TEXT];
  CHECK(strcmp(weft_gid_text(&gid, text, sizeof text), "10.1.2.3") == 0);
  CHECK(strcmp(weft_code_name(WEFT_NOT_FOUND), "not_found") == 0);
  CHECK(strcmp(weft_code_name((weft_code)99), "unknown") == 0);
  CHECK(weft_qp_number(NULL) == 0 && weft_cq_poll(NULL, NULL, 1) == 0);
  weft_device_close(NULL);
  weft_mr_deregister(NULL);
  weft_free(NULL);
  refusals_of_structures(a);
}
