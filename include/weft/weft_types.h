/* SPDX-License-Identifier: BSD-3-Clause
 * The values and structures of weft's C API, whose functions are in weft.h. Numbers of enumerators
 * do not change while the soname is libweft.so.0.
 *
 * Structures that may grow begin with `size`, the bytes that the caller knows of: so a program runs
 * with an older and with a newer library than it was compiled for. NAME_init(&it, sizeof it) sets
 * `size` and the default of each member that the library knows; a function takes no structure whose
 * `size` is 0. A structure that the library fills needs only its `size`. A library refuses, with
 * WEFT_NOT_SUPPORTED, a structure with a value in a member that it does not know. Structures that
 * have no `size` (requests, completions, addresses) stay as they are; zero is a value of each.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a call returned. Anything but WEFT_OK has a text: weft_error_text(). */
typedef enum weft_code {
  WEFT_OK = 0,
  WEFT_INVALID_ARGUMENT,  /* a bad parameter: the text names it */
  WEFT_NOT_FOUND,         /* no such device, address or peer */
  WEFT_NO_MEMORY,         /* out of memory, descriptors, or a limit of the device */
  WEFT_NOT_SUPPORTED,     /* this provider or port cannot do it */
  WEFT_PERMISSION_DENIED, /* the operating system refused: the text says which right is needed */
  WEFT_BUSY,              /* the object is in use */
  WEFT_WOULD_BLOCK,       /* not finished yet: call again when the descriptor is ready */
  WEFT_TIMED_OUT,         /* the peer did not answer in time */
  WEFT_DISCONNECTED,      /* the peer closed the connection */
  WEFT_ADDRESS_IN_USE,    /* another process owns the address */
  WEFT_QUEUE_FULL,        /* the send or receive queue has no free entry: poll, post again */
  WEFT_BAD_STATE,         /* the queue pair is in a state that forbids the call */
  WEFT_IO_ERROR           /* a system call failed: the text carries that of errno */
} weft_code;

/* Opaque handles. Each is freed by the function named at its creation. */
typedef struct weft_device weft_device;
typedef struct weft_pd weft_pd;
typedef struct weft_mr weft_mr;
typedef struct weft_cq weft_cq;
typedef struct weft_qp weft_qp;
typedef struct weft_listener weft_listener;
typedef struct weft_connector weft_connector;

/* A 16-byte address in network byte order: IPv6, IPv4 as ::ffff:a.b.c.d, or one of port shm. */
typedef struct weft_gid {
  uint8_t bytes[16];
} weft_gid;

/* The bytes that a text of a GID takes at most, its end included. */
#define WEFT_GID_TEXT 64

/* Transport services of queue pairs; a device's attributes say which it has. */
typedef enum weft_qp_type { WEFT_QP_RC, WEFT_QP_UC, WEFT_QP_UD, WEFT_QP_SRD } weft_qp_type;

/* States of a queue pair (IBTA 10.3.1). */
typedef enum weft_qp_state {
  WEFT_QP_RESET,
  WEFT_QP_INIT,
  WEFT_QP_RTR,
  WEFT_QP_RTS,
  WEFT_QP_SQD,
  WEFT_QP_SQE,
  WEFT_QP_ERR
} weft_qp_state;

/* Access rights of a region or a queue pair, combined by |. */
enum {
  WEFT_ACCESS_LOCAL_WRITE = 1,
  WEFT_ACCESS_REMOTE_WRITE = 2, /* of a region: needs LOCAL_WRITE too */
  WEFT_ACCESS_REMOTE_READ = 4,
  WEFT_ACCESS_REMOTE_ATOMIC = 8, /* of a region: needs LOCAL_WRITE too */
  WEFT_ACCESS_ALL = 15,
  WEFT_ACCESS_ZERO_BASED = 32,
  WEFT_ACCESS_FLUSH_GLOBAL = 64,
  WEFT_ACCESS_FLUSH_PERSISTENT = 128,
  WEFT_ACCESS_ON_DEMAND = 256
};

/* What weft_device_query() fills. Texts belong to the device handle. */
typedef struct weft_device_attributes {
  size_t size;
  const char* spec;     /* the string it was opened with, defaults filled in */
  const char* provider; /* "roce" */
  const char* port;     /* "udp" */
  weft_gid gid;         /* the device's address */
  uint32_t max_mtu;     /* largest path MTU in bytes */
  uint32_t active_mtu;  /* the path MTU that weft_connect() chooses; most bytes of a datagram */
  uint32_t max_qp;
  uint32_t max_qp_wr; /* requests of a send or receive queue */
  uint32_t max_sge;   /* scatter/gather entries of a request */
  uint32_t max_inline;
  uint32_t max_cqe; /* entries of a completion queue */
  uint32_t max_rd_atomic;
  uint64_t max_message; /* bytes */
  weft_qp_type qp_type; /* the usual type of its queue pairs */
  uint32_t engines;
  bool has_uc, has_ud, has_atomics, has_immediate, has_read, has_write, has_write_add;
  bool has_ordered, has_dmabuf, has_flush;
} weft_device_attributes;

/* A device that could be opened here, or the reason why not. */
typedef struct weft_device_listing {
  const char* spec;
  const char* reason; /* why it is not usable; otherwise "" */
  bool usable;
} weft_device_listing;

/* A counter of a device: packets, bytes, and one for each reason to drop a packet. */
typedef struct weft_counter {
  const char* name;
  uint64_t value;
} weft_counter;

/* Types of asynchronous events (verbs: ibv_get_async_event). */
typedef enum weft_event_type {
  WEFT_EVENT_QP_FATAL,
  WEFT_EVENT_QP_REQUEST_ERROR,
  WEFT_EVENT_QP_ACCESS_ERROR,
  WEFT_EVENT_COMM_ESTABLISHED,
  WEFT_EVENT_SQ_DRAINED,
  WEFT_EVENT_LAST_WQE_REACHED,
  WEFT_EVENT_SRQ_LIMIT_REACHED,
  WEFT_EVENT_CQ_ERROR,
  WEFT_EVENT_PORT_ACTIVE,
  WEFT_EVENT_PORT_ERROR,
  WEFT_EVENT_DEVICE_FATAL,
  WEFT_EVENT_GID_CHANGE
} weft_event_type;

/* An asynchronous event. It needs no acknowledgement. */
typedef struct weft_event {
  weft_event_type type;
  uint32_t qp_number; /* of events of a queue pair */
  uint32_t cq_number; /* of WEFT_EVENT_CQ_ERROR */
} weft_event;

/* Options of a completion queue. */
typedef struct weft_cq_options {
  size_t size;
  uint32_t capacity; /* 256 entries; an overrun raises WEFT_EVENT_CQ_ERROR */
  uint32_t engine;   /* 0; of a device opened with engines=N */
} weft_cq_options;

/* Options of a queue pair. Nothing but the completion queues needs to be set. */
typedef struct weft_qp_options {
  size_t size;
  weft_qp_type type;      /* WEFT_QP_RC */
  weft_cq* send_cq;       /* required */
  weft_cq* recv_cq;       /* required; may be send_cq */
  uint32_t max_send_wr;   /* 128 requests outstanding in the send queue */
  uint32_t max_recv_wr;   /* 128 receives posted and not completed; 0: it takes none */
  uint32_t max_send_sge;  /* 4 scatter/gather entries of a send request */
  uint32_t max_recv_sge;  /* 4 of a receive */
  uint32_t max_inline;    /* 64 bytes of a request with WEFT_SEND_INLINE */
  bool signal_all;        /* false; true: every send request is signaled */
  const char* congestion; /* NULL: the device's controller; see device.hpp */
} weft_qp_options;

/* A path to a device: the destination of a queue pair, or of a request of UD and SRD. */
typedef struct weft_address_vector {
  weft_gid destination;
  uint32_t flow_label;   /* selects the UDP source port; 0: derived from the queue pair number */
  uint8_t hop_limit;     /* IPv4: TTL; 0: 64 */
  uint8_t traffic_class; /* DSCP << 2 | ECN */
} weft_address_vector;

/* Members of weft_qp_attributes that are set: bits of its `mask`. */
enum {
  WEFT_ATTR_STATE = 1 << 0,
  WEFT_ATTR_CURRENT_STATE = 1 << 1,
  WEFT_ATTR_PKEY_INDEX = 1 << 2,
  WEFT_ATTR_PORT = 1 << 3,
  WEFT_ATTR_ACCESS = 1 << 4,
  WEFT_ATTR_QKEY = 1 << 5,
  WEFT_ATTR_PATH = 1 << 6,
  WEFT_ATTR_PATH_MTU = 1 << 7,
  WEFT_ATTR_DEST_QPN = 1 << 8,
  WEFT_ATTR_RQ_PSN = 1 << 9,
  WEFT_ATTR_SQ_PSN = 1 << 10,
  WEFT_ATTR_MAX_DEST_RD_ATOMIC = 1 << 11,
  WEFT_ATTR_MAX_RD_ATOMIC = 1 << 12,
  WEFT_ATTR_MIN_RNR_TIMER = 1 << 13,
  WEFT_ATTR_TIMEOUT = 1 << 14,
  WEFT_ATTR_RETRY_COUNT = 1 << 15,
  WEFT_ATTR_RNR_RETRY = 1 << 16
};

/* Attributes of a queue pair (verbs: ibv_qp_attr). IBTA table 11.2.5.2 says which ones a transition
 * needs and allows; the error's text names the missing one. */
typedef struct weft_qp_attributes {
  size_t size;
  uint64_t mask; /* WEFT_ATTR_*: the members below that are set */
  weft_qp_state state;
  weft_qp_state current_state; /* the expected state; an error if it is another one */
  uint32_t access;             /* remote operations of the peer */
  uint32_t qkey;               /* UD, SRD: Q_Key that SENDs to it must carry */
  weft_address_vector path;    /* address of the peer */
  uint32_t path_mtu;           /* bytes: a power of two, 256 or more */
  uint32_t dest_qpn;           /* queue pair number of the peer */
  uint32_t rq_psn;             /* first PSN of the peer's requests */
  uint32_t sq_psn;             /* first PSN of our requests */
  uint16_t pkey_index;         /* 0 */
  uint8_t port;                /* 1 */
  uint8_t max_dest_rd_atomic;
  uint8_t max_rd_atomic;
  uint8_t min_rnr_timer; /* index of the RNR timer table */
  uint8_t timeout;       /* 4.096 us * 2^timeout; 0: never */
  uint8_t retry_count;   /* 0..7 */
  uint8_t rnr_retry;     /* 0..7; 7: without limit */
} weft_qp_attributes;

/* A piece of registered local memory. Length 0 is ignored. */
typedef struct weft_sge {
  void* address; /* in a region registered under another address: that address */
  uint32_t length;
  uint32_t lkey; /* weft_mr_lkey() */
} weft_sge;

/* Operations of send requests (IBTA 11.4.1.1). */
typedef enum weft_opcode {
  WEFT_OP_SEND,
  WEFT_OP_SEND_WITH_IMM,
  WEFT_OP_SEND_WITH_INVALIDATE,
  WEFT_OP_WRITE,
  WEFT_OP_WRITE_WITH_IMM,
  WEFT_OP_READ,
  WEFT_OP_COMPARE_SWAP,
  WEFT_OP_FETCH_ADD,
  WEFT_OP_WRITE_ADD,            /* SRD: adds the source elements to remote memory */
  WEFT_OP_ATOMIC_WRITE,         /* RC: replaces 8 bytes by `swap` */
  WEFT_OP_FLUSH,                /* RC: see flush_length */
  WEFT_OP_LOCAL_INVALIDATE = 12 /* RC, UC: ends the remote rights of the local key `invalidate` */
} weft_opcode;

/* Flags of a send request, combined by |. Without SIGNALED success makes no completion. */
enum {
  WEFT_SEND_SIGNALED = 1,
  WEFT_SEND_FENCE = 2,     /* starts after all earlier READs, atomics and FLUSHes have finished */
  WEFT_SEND_SOLICITED = 4, /* wakes a peer that armed its queue for solicited ones only */
  WEFT_SEND_INLINE = 8,    /* data is copied at the call: needs no lkey, may be reused at return */
  WEFT_SEND_ORDERED = 16,  /* SRD: in order with earlier ordered SENDs and WRITE_ADDs to the peer */
  WEFT_SEND_FLUSH_PERSISTENT = 32 /* FLUSH: data survives a power failure; otherwise: is visible */
};

/* Types of the elements of WRITE_ADD. */
typedef enum weft_element { WEFT_INT32, WEFT_INT64, WEFT_FP32 } weft_element;

/* A request for the send queue. `sges` and `to` need to live only during the call. */
typedef struct weft_send_request {
  uint64_t id; /* returned in the completion */
  weft_opcode opcode;
  uint32_t flags;       /* WEFT_SEND_* */
  const weft_sge* sges; /* the source; of READ and atomics the destination (atomics: 8 bytes) */
  uint32_t sge_count;
  uint32_t imm;                  /* *_WITH_IMM: host byte order */
  uint64_t remote_address;       /* WRITE, READ, FLUSH, atomics (a multiple of 8) */
  uint32_t rkey;                 /* the peer's key of that memory */
  uint32_t invalidate;           /* the key of *_INVALIDATE */
  uint64_t compare_add;          /* COMPARE_SWAP: expected value; FETCH_ADD: addend */
  uint64_t swap;                 /* COMPARE_SWAP, ATOMIC_WRITE: new value */
  const weft_address_vector* to; /* UD, SRD: the destination; SRD, NULL: that of weft_connect() */
  uint32_t remote_qpn;           /* UD, SRD: the queue pair there */
  uint32_t remote_qkey;          /* UD, SRD: its Q_Key */
  uint32_t imm_high;             /* SRD: upper half of 64 bits of immediate data */
  uint32_t flush_length;         /* FLUSH: bytes from remote_address on */
  weft_element element;          /* WRITE_ADD */
} weft_send_request;

/* A receive: a buffer for one SEND, or the notice of one WRITE_WITH_IMM. UD: the first 40 bytes
 * receive the network header (weft_sender_of), the payload follows. */
typedef struct weft_recv_request {
  uint64_t id;
  const weft_sge* sges;
  uint32_t sge_count;
} weft_recv_request;

/* How a request ended (IBTA 11.6.2; verbs: ibv_wc_status). */
typedef enum weft_status {
  WEFT_SUCCESS,
  WEFT_LOCAL_LENGTH_ERROR,
  WEFT_LOCAL_QP_OPERATION_ERROR,
  WEFT_LOCAL_PROTECTION_ERROR,
  WEFT_FLUSHED,
  WEFT_MW_BIND_ERROR,
  WEFT_BAD_RESPONSE,
  WEFT_LOCAL_ACCESS_ERROR,
  WEFT_REMOTE_INVALID_REQUEST,
  WEFT_REMOTE_ACCESS_ERROR,
  WEFT_REMOTE_OPERATION_ERROR,
  WEFT_RETRY_EXCEEDED,
  WEFT_RNR_RETRY_EXCEEDED,
  WEFT_REMOTE_ABORTED,
  WEFT_FATAL
} weft_status;

/* The operation that completed (verbs: ibv_wc_opcode). */
typedef enum weft_work_type {
  WEFT_WORK_SEND,
  WEFT_WORK_WRITE,
  WEFT_WORK_READ,
  WEFT_WORK_COMPARE_SWAP,
  WEFT_WORK_FETCH_ADD,
  WEFT_WORK_WRITE_ADD,
  WEFT_WORK_ATOMIC_WRITE,
  WEFT_WORK_FLUSH,
  WEFT_WORK_BIND_WINDOW,
  WEFT_WORK_LOCAL_INVALIDATE,
  WEFT_WORK_RECV,
  WEFT_WORK_RECV_WITH_IMM /* a SEND or a WRITE with immediate data arrived: see `flags` */
} weft_work_type;

/* Flags of a completion. */
enum {
  WEFT_COMPLETION_WITH_IMM = 1,
  WEFT_COMPLETION_WITH_INVALIDATE = 2,
  WEFT_COMPLETION_RDMA_WRITE = 4, /* a WRITE_WITH_IMM: data lies where the peer chose */
  WEFT_COMPLETION_GRH = 8         /* UD: the first 40 bytes of the buffer are the network header */
};

/* A completion (verbs: ibv_wc). */
typedef struct weft_completion {
  uint64_t id;
  weft_status status;
  weft_work_type type;
  uint32_t byte_count;   /* of the message, on both sides */
  uint32_t imm_or_key;   /* immediate data, or the local key that the peer invalidated */
  uint32_t imm_high;     /* SRD: upper half of the immediate data */
  uint32_t qp_number;    /* of the local queue pair */
  uint32_t source_qpn;   /* UD, SRD: the sender */
  uint32_t source_peer;  /* SRD: the sender's device, for weft_device_peer_address() */
  uint32_t flags;        /* WEFT_COMPLETION_* */
  uint32_t vendor_error; /* the syndrome of a NAK, or 0 */
} weft_completion;

/* Most bytes of private data of a side of weft_connect(). */
#define WEFT_MAX_PRIVATE_DATA 4096

/* Options of a connection. NULL in place of them: the defaults, which suit a local network. */
typedef struct weft_connect_options {
  size_t size;
  const void* private_data; /* sent to the peer: say addresses and keys of regions */
  size_t private_size;      /* 0; at most WEFT_MAX_PRIVATE_DATA bytes */
  uint32_t access;          /* all: remote operations that the peer may do by this queue pair */
  uint32_t path_mtu;        /* 0: the smaller of both devices' active_mtu */
  uint32_t qkey;            /* 0x11111111; UD: Q_Key of datagrams to our queue pair */
  uint32_t limit_ms;        /* 30000, for the whole exchange */
  uint8_t max_rd_atomic;    /* 16 READs and atomics outstanding */
  uint8_t timeout;          /* 14: retransmission after 4.096 us * 2^14 = 67 ms */
  uint8_t retry_count;      /* 7 */
  uint8_t rnr_retry;        /* 7: without limit */
  uint8_t min_rnr_timer;    /* 12: 0.64 ms */
  uint8_t traffic_class;    /* 0 */
  uint8_t insecure;         /* 0; 1: in clear text, as on the other side */
  const char* secret;       /* NULL: WEFT_SECRET; else a file with the secret of both sides */
} weft_connect_options;

/* What a side learns of its peer. */
typedef struct weft_connection {
  size_t size;
  weft_gid peer_gid;
  uint32_t peer_qpn;
  uint32_t path_mtu;
  size_t private_size;
  uint8_t private_data[4096]; /* WEFT_MAX_PRIVATE_DATA */
} weft_connection;
