/* SPDX-License-Identifier: BSD-3-Clause
 * The simulator of congestion control (weft_sim) in C, for bindings: weft.sim of Python is one. A
 * simulation is a scenario in the TOML of scenarios/README.md, a run of it has a controller, which
 * is a built-in one, that of a shared object, or a function of the caller's, and its results are
 * named columns. The rules of weft.h hold; in addition:
 * - A run takes place inside weft_sim_run(), in the calling thread. The same scenario, seed and
 *   controller give the same results on every machine. Runs of several threads share nothing.
 * - libweft.so has these functions, the static library has not.
 * - Experimental: until 1.0 this header may change with any minor version.
 */
#pragma once

#include "weft/weft.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_sim weft_sim;               /* a scenario */
typedef struct weft_sim_result weft_sim_result; /* of one run */

/* What happened to a flow at its sender. */
typedef enum weft_sim_event_type {
  WEFT_SIM_START, /* it may send its first packet */
  WEFT_SIM_ACK,   /* an acknowledgement came */
  WEFT_SIM_CNP,   /* a congestion notification came */
  WEFT_SIM_LOSS,  /* a packet was lost */
  WEFT_SIM_TIMER  /* the deadline that the controller set has passed */
} weft_sim_event_type;

/* Telemetry of one switch on the path (HPCC). The counters wrap. */
typedef struct weft_sim_hop {
  uint32_t rate_mbps;   /* of the egress port */
  uint32_t time_ns;     /* when transmission of the packet began */
  uint32_t sent_bytes;  /* by the port before */
  uint32_t queue_bytes; /* left in its queues */
} weft_sim_hop;

/* An event with what is known at it; the rest is 0. Valid during the call. */
typedef struct weft_sim_event {
  weft_sim_event_type type;
  uint32_t flow; /* row of the table "flows", in the order of starts */
  int64_t now_ns;
  int64_t rtt_ns;        /* of the acknowledged packet; 0: unknown */
  uint64_t acked;        /* payload bytes acknowledged since the start of the flow */
  uint64_t sent;         /* payload bytes sent since the start of the flow */
  uint32_t newly_acked;  /* what this acknowledgement adds to `acked` */
  uint32_t packet_bytes; /* payload of a full packet */
  uint32_t marked;       /* of the packets acknowledged, those with an ECN mark */
  uint32_t hop_count;    /* records at `hops`, from the sender on */
  const weft_sim_hop* hops;
  double line_rate_bps; /* of the sender's NIC */
  int64_t base_rtt_ns;  /* slightly above the largest unloaded RTT of the network */
} weft_sim_event;

/* What the flow may do from now on; the call changes it. */
typedef struct weft_sim_decision {
  double rate_bps;       /* clamped to [1 Mb/s, line rate] */
  uint64_t window_bytes; /* payload in flight; UINT64_MAX: no window */
  int64_t deadline_ns;   /* when WEFT_SIM_TIMER is wanted; INT64_MAX: never */
} weft_sim_decision;

/* Handles an event. false: an error; the function is not called again, and weft_sim_run() returns
 * WEFT_INVALID_ARGUMENT soon. */
typedef bool (*weft_sim_callback)(void* context, const weft_sim_event* event,
                                  weft_sim_decision* decision);

/* A run. */
typedef struct weft_sim_run_options {
  size_t size;
  /* "hpcc", "dcqcn-nic+win", "./mine.so"; NULL: the first one of the scenario. With `callback`, the
   * name of that in messages. */
  const char* controller;
  uint64_t seed;              /* of ECMP and ECN marking; default 1 */
  weft_sim_callback callback; /* NULL: none */
  void* context;              /* of `callback` */
  const char* signal;         /* what packets carry for `callback`: "none", "ecn", "delay" or
                               * "telemetry"; NULL: "delay" */
  bool windowed; /* `callback`: flows have a window of a BDP in proportion to their rate,
                  * as with the suffix +win */
} weft_sim_run_options;
/* Sets `size` and the defaults. */
void weft_sim_run_options_init(weft_sim_run_options* options, size_t size);

/* Type of the values of a column. */
typedef enum weft_sim_type { WEFT_SIM_INT64, WEFT_SIM_DOUBLE } weft_sim_type;

/* One column of a table of results: `count` values of `type` at `values`. Names are TABLE.COLUMN, a
 * unit is the end of the name: "flows.fct_ns". Lives as long as the result. */
typedef struct weft_sim_column {
  const char* name;
  weft_sim_type type;
  size_t count;
  const void* values;
} weft_sim_column;

/* Reads a scenario: the text of a TOML file if it has a line break, else a file, or the name of one
 * that comes with weft ("incast-16"). Random flows are drawn with `seed`. Free: weft_sim_close().
 * Errors: NOT_FOUND, NOT_SUPPORTED. */
weft_code weft_sim_open(const char* scenario, uint64_t seed, weft_sim** sim);
void weft_sim_close(weft_sim* sim);
/* Sets a parameter, "switch.buffer_mb" to "2", for all runs that follow; `weft_sim keys` lists
 * them. */
weft_code weft_sim_set(weft_sim* sim, const char* key, const char* value);
/* Runs it until all flows are done or the scenario ends. Free: weft_sim_result_free(). Errors:
 * NOT_FOUND, NOT_SUPPORTED, PERMISSION_DENIED. */
weft_code weft_sim_run(weft_sim* sim, const weft_sim_run_options* options,
                       weft_sim_result** result);
/* All columns, `count` of them: tables "run" (one row), "flows", "queue" (the longest queue over
 * time) and "ports" (each direction of a link). They belong to the result. */
weft_code weft_sim_columns(const weft_sim_result* result, const weft_sim_column** columns,
                           size_t* count);
void weft_sim_result_free(weft_sim_result* result);

#ifdef __cplusplus
}
#endif
