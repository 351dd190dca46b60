/* SPDX-License-Identifier: BSD-3-Clause
 * Cancellation of a call of a communicator (lib/collective/faults/cancellations.hpp), for the model
 * checker Spin: three ranks and two calls. In each call every rank sends a piece to the next rank
 * and receives one from the rank before it. Ranks 0 and 1 may cancel the first call while they run
 * it. Pieces of one link arrive in order; a cancellation notice is handled when the pieces sent
 * before it have arrived, consumed or not, and maybe later than pieces sent after it, as over SRD.
 * Where its receiver has advertised memory, a piece of the first call is written there; else it
 * stays in a slot until it is consumed. Checked in every order:
 *
 *   - no rank consumes a piece of another call than the one it runs;
 *   - no piece is written to the memory of a canceled call that has ended;
 *   - in the final state the first call is done or canceled on every rank, the second is done on
 *     all, and no rank keeps an entry for the cancellation.
 *
 * collective_cancel_model_test.py runs it as it is, and with one rule removed (-DWITHOUT_...),
 * which must fail.
 */
#define RANKS 3
#define next(r) (((r) + 1) % RANKS)
#define before(r) (((r) + 2) % RANKS)
#define pair(r, q) ((r) * RANKS + (q))
#define piece(r, n) ((r) * 2 + (n))

mtype = { waits, runs, done, drains, canceled };
mtype first[RANKS];         /* the calls, on each rank */
mtype second[RANKS];
bool sent_piece[RANKS];           /* in the call that it runs */
bool got_piece[RANKS];

bool canceled_here[RANKS];          /* this rank has an entry for the first call */
bool sent[RANKS * RANKS];
bool received[RANKS * RANKS];
bool notice[RANKS * RANKS];       /* in flight */
byte notice_after[RANKS * RANKS]; /* pieces sent before it */

/* Of the link to the next rank. */
byte posted[RANKS];
byte arrived[RANKS];
byte consumed[RANKS];
byte call_of[RANKS * 2];
bool placed[RANKS * 2];    /* into advertised memory */

#define sent_all(r) (sent[pair(r, next(r))] && sent[pair(r, before(r))])
#define received_all(r) (received[pair(r, next(r))] && received[pair(r, before(r))])

inline begin(r) {
  if
  :: canceled_here[r] -> first[r] = canceled
  :: else -> first[r] = runs
  fi
}

inline put(r, call) {
  call_of[piece(r, posted[r])] = call;
  if
  :: call == 1 && first[next(r)] == runs -> placed[piece(r, posted[r])] = true
  :: true
  fi;
  posted[r]++;
  sent_piece[r] = true
}

inline arrive(r) {
  /* The memory is its owner's again when the call is over. */
  assert(!(placed[piece(r, arrived[r])] && first[next(r)] == canceled));
  arrived[r]++
}

#define head(r) call_of[piece(before(r), consumed[before(r)])]
#define has_head(r) (consumed[before(r)] < arrived[before(r)])

inline consume(r) {
  assert(head(r) == 1 && first[r] == runs || head(r) == 2 && second[r] == runs);
  consumed[before(r)]++;
  got_piece[r] = true
}

inline cancel_here(r) {
  if
  :: !canceled_here[r] ->
    canceled_here[r] = true;
    if
    :: first[r] == runs -> first[r] = drains
    :: else
    fi
  :: else
  fi
}

inline send_notice(r, q) {
  sent[pair(r, q)] = true;
  notice[pair(r, q)] = true;
  if
  :: q == next(r) -> notice_after[pair(r, q)] = posted[r]
  :: else
  fi
}

inline receive_notice(r, q) { /* q from r */
  notice[pair(r, q)] = false;
  notice_after[pair(r, q)] = 0;
  cancel_here(q);
  received[pair(q, r)] = true
}

inline forget(r) {
  canceled_here[r] = false;
}

#define in_call(r) (first[r] == runs || second[r] == runs)
#define over(r) (first[r] == done || first[r] == canceled)
#ifndef WITHOUT_STOP
#define may_put_first(r) (first[r] == runs && !sent_piece[r])
#else
#define may_put_first(r) ((first[r] == runs || first[r] == drains) && !sent_piece[r])
#endif
#ifndef WITHOUT_DROP
#define may_drop(r) (canceled_here[r] && has_head(r) && head(r) == 1)
#else
#define may_drop(r) false
#endif
#ifndef WITHOUT_ADVERTISED
#define may_end(r) (first[r] == drains && received[pair(r, before(r))])
#else
#define may_end(r) (first[r] == drains)
#endif
#define no_notice_in_flight(r) (!notice[pair(r, next(r))] && !notice[pair(r, before(r))])
#ifdef WITHOUT_SENT
#define may_begin_second(r) (over(r) && second[r] == waits && no_notice_in_flight(r))
#elif defined(WITHOUT_ARRIVED)
#define may_begin_second(r) (over(r) && second[r] == waits && (!canceled_here[r] || sent_all(r)))
#else
#define may_begin_second(r) (over(r) && second[r] == waits && \
                             (!canceled_here[r] || sent_all(r) && no_notice_in_flight(r)))
#endif
#ifndef WITHOUT_RECEIVED
#define may_forget(r) (canceled_here[r] && over(r) && !may_drop(r) && sent_all(r) && \
                       received_all(r))
#else
#define may_forget(r) (canceled_here[r] && over(r) && !may_drop(r) && sent_all(r))
#endif
#ifndef WITHOUT_SPREAD
#define may_notify(r, q) (canceled_here[r] && !sent[pair(r, q)])
#else
#define may_notify(r, q) (canceled_here[r] && !sent[pair(r, q)] && !received[pair(r, q)])
#endif

#define rank(r)                                                                             \
  :: atomic { first[r] == waits -> begin(r) }                                               \
  :: atomic { may_put_first(r) -> put(r, 1) }                                               \
  :: atomic { second[r] == runs && !sent_piece[r] -> put(r, 2) }                            \
  :: atomic { arrived[r] < posted[r] -> arrive(r) }                                         \
  :: atomic { in_call(r) && !got_piece[r] && has_head(r) && !may_drop(r) -> consume(r) }    \
  :: atomic { may_drop(r) -> consumed[before(r)]++ }                                        \
  :: atomic { first[r] == runs && sent_piece[r] && got_piece[r] -> first[r] = done }        \
  :: atomic { second[r] == runs && sent_piece[r] && got_piece[r] -> second[r] = done }      \
  :: atomic { may_end(r) -> first[r] = canceled }                                           \
  :: atomic { may_begin_second(r) ->                                                        \
              second[r] = runs; sent_piece[r] = false; got_piece[r] = false }               \
  :: atomic { may_notify(r, next(r)) -> send_notice(r, next(r)) }                           \
  :: atomic { may_notify(r, before(r)) -> send_notice(r, before(r)) }                       \
  :: atomic { notice[pair(r, next(r))] && notice_after[pair(r, next(r))] <= arrived[r] ->   \
              receive_notice(r, next(r)) }                                                  \
  :: atomic { notice[pair(r, before(r))] -> receive_notice(r, before(r)) }                  \
  :: atomic { may_forget(r) -> forget(r) }

#define is_final(r) (over(r) && second[r] == done && !canceled_here[r] && \
                     consumed[before(r)] == posted[before(r)])

active proctype world() {
  d_step {
    first[0] = waits; first[1] = waits; first[2] = waits;
    second[0] = waits; second[1] = waits; second[2] = waits
  }
  end: do
  rank(0)
  rank(1)
  rank(2)
  :: atomic { first[0] == runs && !canceled_here[0] -> cancel_here(0) }
  :: atomic { first[1] == runs && !canceled_here[1] -> cancel_here(1) }
  :: else -> /* final state */
    assert(is_final(0) && is_final(1) && is_final(2));
#ifdef REACH
    assert(first[0] == done); /* expected to fail: this state is reachable after a cancellation */
#endif
    break
  od
}
