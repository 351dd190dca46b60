/* SPDX-License-Identifier: BSD-3-Clause
 * weft in C: devices, memory regions, queue pairs (RC, UC, UD, SRD), completions, connections. The
 * functions of libweft.so for programs that are not C++ and for bindings of other languages. Not
 * here: shared receive queues, XRC, memory windows, the connection manager and collectives; those
 * are in the C++ headers beside this one. docs/c.md is the tutorial. Values, structures and what
 * their member `size` is for: weft_types.h.
 *
 * Rules of all functions:
 * - Errors. A function that can fail returns weft_code; what it makes is stored through its last
 *   argument, and only on WEFT_OK. weft_error_text() is the sentence that goes with the code. A
 *   null pointer where an object is needed is WEFT_INVALID_ARGUMENT; functions that return a value
 *   return 0 for it. Codes that are listed at a function come in addition to WEFT_INVALID_ARGUMENT
 *   and WEFT_NO_MEMORY. No C++ exception leaves a function and none ends the process.
 * - Ownership. What a function creates belongs to the caller, who frees it by the function named at
 *   its creation; freeing NULL does nothing. An object keeps what it was made from alive: any order
 *   of freeing is right. Texts and arrays of the library say how long they live.
 * - Memory of the caller that is registered or named in a request belongs to the device until the
 *   request completes, and must outlive its region.
 * - Threads. Any function may be called from any thread at any time, unless the device was opened
 *   with single_thread=1. Only freeing an object must not overlap a call that uses it. A child
 *   after fork() opens its own device.
 */
#pragma once

#include "weft/weft_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- texts ----------------------------------------------------------------------------------- */

/* Why the last function that failed in this thread did: names the object, the values and the
 * remedy. "" if none failed. Valid until the next failure in this thread. */
const char* weft_error_text(void);
/* The name of a code or a status as in C++: "not_found", "remote_access_error". Static. */
const char* weft_code_name(weft_code code);
const char* weft_status_name(weft_status status);
/* The usual cause of a status and what to do: one sentence, as in the log. Static. */
const char* weft_status_reason(weft_status status);
/* The version of the library: "0.1.0". Static. */
const char* weft_version(void);

/* Reads "127.0.0.2" or "fd77::1". */
weft_code weft_gid_parse(const char* text, weft_gid* gid);
/* Writes such a text into `text` of `size` bytes (WEFT_GID_TEXT is enough); a short one ends early.
 * Returns `text`. */
const char* weft_gid_text(const weft_gid* gid, char* text, size_t size);

/* ---- devices --------------------------------------------------------------------------------- */

/* Opens a device by its string, PROVIDER[+PORT[:WHERE]][,key=value...]: "roce+udp:lo",
 * "roce+shm:job7", "srd+udp:eth0", "ibverbs:mlx5_0" (docs/device-strings.md). NULL or "": that of
 * the environment variable WEFT_DEVICE, or roce+udp:lo. Free: weft_device_close(). Errors:
 * NOT_FOUND, NOT_SUPPORTED, PERMISSION_DENIED, ADDRESS_IN_USE, IO_ERROR. */
weft_code weft_device_open(const char* spec, weft_device** device);
/* Frees the handle; the device closes when the last object made from it is freed too. */
void weft_device_close(weft_device* device);
/* Fills `attributes`, of which `size` is set. Its texts live as long as the handle. */
weft_code weft_device_query(const weft_device* device, weft_device_attributes* attributes);
/* Makes progress: receives, sends, runs timers; never blocks. weft_cq_poll() does so too: this is
 * for programs that wait until a peer has written into memory. */
void weft_device_progress(const weft_device* device);
/* A descriptor that is readable while there is an asynchronous event. Belongs to the device. */
int weft_device_event_fd(const weft_device* device);
/* Takes the oldest asynchronous event; false: there is none. Never blocks. */
bool weft_device_next_event(const weft_device* device, weft_event* event);
/* SRD: the address of the device with number weft_completion.source_peer. Error: NOT_FOUND. */
weft_code weft_device_peer_address(const weft_device* device, uint32_t source_peer, weft_gid* gid);
/* All counters now, `count` of them, in one block. Free: weft_free(). */
weft_code weft_device_counters(const weft_device* device, weft_counter** counters, size_t* count);
/* What this machine can open, and why not the rest, in one block. `load_modules`: also what is in
 * modules that no device was opened of yet (milliseconds). Free: weft_free(). */
weft_code weft_list_devices(bool load_modules, weft_device_listing** listings, size_t* count);
/* Frees a block of the two functions above. */
void weft_free(void* block);

/* ---- protection domains and memory regions --------------------------------------------------- */

/* Creates a protection domain: queue pairs use regions of their own domain only. Free:
 * weft_pd_destroy(). */
weft_code weft_pd_create(const weft_device* device, weft_pd** pd);
void weft_pd_destroy(weft_pd* pd);

/* Registers `size` bytes at `address`; `access` is WEFT_ACCESS_* combined. Free:
 * weft_mr_deregister(). Errors: PERMISSION_DENIED (a page is not mapped, or not writable: the text
 * has its address), NOT_SUPPORTED. */
weft_code weft_mr_register(const weft_pd* pd, void* address, size_t size, uint32_t access,
                           weft_mr** mr);
/* The same, with requests and peers naming the first byte by `iova`. Errors: as above. */
weft_code weft_mr_register_iova(const weft_pd* pd, void* address, size_t size, uint64_t iova,
                                uint32_t access, weft_mr** mr);
/* Registers `size` bytes of a dma-buf from `offset` on; the descriptor may be closed afterwards.
 * Requests and peers name the first byte by weft_mr_iova(). Errors: as above. */
weft_code weft_mr_register_dmabuf(const weft_pd* pd, int fd, uint64_t offset, size_t size,
                                  uint32_t access, weft_mr** mr);
/* Returns when no packet in flight can touch the memory any more. */
void weft_mr_deregister(weft_mr* mr);
/* The first byte in memory; the size in bytes; the first byte's address for requests and peers. */
void* weft_mr_address(const weft_mr* mr);
size_t weft_mr_size(const weft_mr* mr);
uint64_t weft_mr_iova(const weft_mr* mr);
/* The key for weft_sge, and that which a peer needs. */
uint32_t weft_mr_lkey(const weft_mr* mr);
uint32_t weft_mr_rkey(const weft_mr* mr);
/* A scatter/gather entry of a part of the region, which is not checked here. */
weft_sge weft_mr_sge(const weft_mr* mr, size_t offset, uint32_t length);

/* ---- completion queues ----------------------------------------------------------------------- */

/* The defaults. */
void weft_cq_options_init(weft_cq_options* options, size_t size);
/* Creates a completion queue. `options` may be NULL. Free: weft_cq_destroy(). */
weft_code weft_cq_create(const weft_device* device, const weft_cq_options* options, weft_cq** cq);
void weft_cq_destroy(weft_cq* cq);
/* Takes up to `count` completions, oldest first, and returns how many. Never blocks. */
size_t weft_cq_poll(const weft_cq* cq, weft_completion* completions, size_t count);
/* The same, but waits until there is one; 0: there was none for `limit_ms`. */
size_t weft_cq_wait(const weft_cq* cq, weft_completion* completions, size_t count,
                    uint32_t limit_ms);
/* To sleep in a loop of one's own: arm; poll once more; if that finds none, wait until the
 * descriptor is readable, acknowledge, poll. The descriptor belongs to the queue. `solicited_only`:
 * wake only for messages sent with WEFT_SEND_SOLICITED and for errors. */
void weft_cq_arm(const weft_cq* cq, bool solicited_only);
int weft_cq_fd(const weft_cq* cq);
void weft_cq_acknowledge(const weft_cq* cq);
/* The number in weft_event.cq_number; the entries that it can hold. */
uint32_t weft_cq_number(const weft_cq* cq);
uint32_t weft_cq_capacity(const weft_cq* cq);
/* Changes the capacity. Error: BUSY (it holds more completions than that: poll first). */
weft_code weft_cq_resize(const weft_cq* cq, uint32_t capacity);

/* ---- queue pairs ----------------------------------------------------------------------------- */

/* The defaults. */
void weft_qp_options_init(weft_qp_options* options, size_t size);
/* Creates a queue pair in RESET. The queue pair keeps its completion queues alive. Free:
 * weft_qp_destroy(). Error: NOT_SUPPORTED (the device has no such type). */
weft_code weft_qp_create(const weft_pd* pd, const weft_qp_options* options, weft_qp** qp);
void weft_qp_destroy(weft_qp* qp);
uint32_t weft_qp_number(const weft_qp* qp);
weft_qp_type weft_qp_type_of(const weft_qp* qp);
/* The state now; the device may change it to SQE or ERR at any time. */
weft_qp_state weft_qp_state_of(const weft_qp* qp);
/* No attributes: sets `size`, and `mask` to 0. */
void weft_qp_attributes_init(weft_qp_attributes* attributes, size_t size);
/* Makes a transition, as ibv_modify_qp(); weft_connect() makes all of them. Error: BAD_STATE. */
weft_code weft_qp_modify(const weft_qp* qp, const weft_qp_attributes* attributes);
/* Fills `attributes`, of which `size` is set: what was set since RESET. */
weft_code weft_qp_query(const weft_qp* qp, weft_qp_attributes* attributes);
/* UD: joins or leaves a multicast group. Errors: NOT_SUPPORTED, NOT_FOUND, IO_ERROR. */
weft_code weft_qp_attach_multicast(const weft_qp* qp, const weft_gid* group);
weft_code weft_qp_detach_multicast(const weft_qp* qp, const weft_gid* group);

/* Posts `count` requests in order and stops at the first that is refused: `accepted`, which may be
 * NULL, is how many were taken before it. In ERR requests are taken and flushed. Errors:
 * QUEUE_FULL, BAD_STATE. */
weft_code weft_post_send(const weft_qp* qp, const weft_send_request* requests, size_t count,
                         size_t* accepted);
/* Posts `count` receives, likewise. Legal in all states but RESET. */
weft_code weft_post_recv(const weft_qp* qp, const weft_recv_request* requests, size_t count,
                         size_t* accepted);
/* UD: the path back to the sender of a datagram, from the first 40 bytes of its receive. The
 * remote_qpn of the reply is weft_completion.source_qpn. */
weft_address_vector weft_sender_of(const void* network_header);

/* ---- connections ----------------------------------------------------------------------------- */

/* Two programs connect their queue pairs over TCP: one listens, the other calls weft_connect() with
 * its address. Each side sends private data and learns that of the peer. The queue pairs are of one
 * type, and in RESET, or in INIT with receives posted; they are in RTS afterwards. A UD queue pair
 * is moved only: its requests name peer_gid and peer_qpn. */

/* The defaults. */
void weft_connect_options_init(weft_connect_options* options, size_t size);
/* Connects to "host:port" and blocks until both sides are in RTS. `options` may be NULL, and so may
 * `connection`, of which otherwise `size` is set. Errors: BAD_STATE, NOT_FOUND (no listener),
 * TIMED_OUT, DISCONNECTED (also: the peer refused), NOT_SUPPORTED, IO_ERROR. */
weft_code weft_connect(const char* address, const weft_qp* qp, const weft_connect_options* options,
                       weft_connection* connection);
/* Listens at "host:port"; port 0 picks one, NULL and "" are all addresses with port 18515. Free:
 * weft_listener_destroy(). Errors: NOT_FOUND, ADDRESS_IN_USE, PERMISSION_DENIED, IO_ERROR. */
weft_code weft_listener_create(const char* address, weft_listener** listener);
void weft_listener_destroy(weft_listener* listener);
/* The TCP port; a descriptor that is readable when a peer waits. */
uint16_t weft_listener_port(const weft_listener* listener);
int weft_listener_fd(const weft_listener* listener);
/* Blocks until a peer comes, and connects `qp` to it. Errors: those of weft_connect(). */
weft_code weft_listener_accept(weft_listener* listener, const weft_qp* qp,
                               const weft_connect_options* options, weft_connection* connection);

/* The same without blocking: start or try_accept, then advance until it is not WOULD_BLOCK, each
 * time when the descriptor is ready for the events (POLLIN or POLLOUT). One thread at a time. The
 * descriptor may change at each advance. Destroying an unfinished one tells the peer. Free:
 * weft_connector_destroy(). */
weft_code weft_connector_start(const char* address, const weft_qp* qp,
                               const weft_connect_options* options, weft_connector** connector);
/* Error: WOULD_BLOCK (no peer waits). */
weft_code weft_listener_try_accept(weft_listener* listener, const weft_qp* qp,
                                   const weft_connect_options* options, weft_connector** connector);
int weft_connector_fd(const weft_connector* connector);
short weft_connector_poll_events(const weft_connector* connector);
weft_code weft_connector_advance(weft_connector* connector, weft_connection* connection);
void weft_connector_destroy(weft_connector* connector);

#ifdef __cplusplus
}
#endif
