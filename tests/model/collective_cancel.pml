/* SPDX-License-Identifier: BSD-3-Clause
 * How a call of a communicator is taken back (lib/collective/faults/cancellations.cpp), for the model
 * checker Spin: three ranks and two calls. In each call every rank gives a piece to the next rank
 * and takes one from the rank before it. Ranks 0 and 1 may cancel the first call while they are in
 * it. Pieces of one link come in their order; a message that the call is canceled is heard when the
 * pieces that were sent before it have come, taken or not, and maybe later than pieces that were
 * sent after it, as over SRD. Where its receiver has invited it, a
 * piece of the first call is written to the memory of that call; else it lies in a slot until it is
 * taken. Checked in every order:
 *
 *   - nobody takes a piece for one of another call;
 *   - nobody writes to the memory of a canceled call that is over;
 *   - when nothing can happen any more, the first call is done or canceled on every rank, the
 *     second is done on all, and nobody keeps what it knew of the cancellation.
 *
 * collective_cancel_model_test.py runs it as it is, and with one rule taken out (-DWITHOUT_...),
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
bool gave[RANKS];           /* its piece in the call that it is in */
bool took[RANKS];

bool knows[RANKS];          /* that the first call is canceled */
bool told[RANKS * RANKS];
bool heard[RANKS * RANKS];
bool message[RANKS * RANKS];       /* in progress */
byte message_after[RANKS * RANKS]; /* so many pieces */

/* Of the link to the next rank. */
byte posted[RANKS];
byte arrived[RANKS];
byte taken[RANKS];
byte call_of[RANKS * 2];
bool written[RANKS * 2];    /* to where it was invited */

#define told_all(r) (told[pair(r, next(r))] && told[pair(r, before(r))])
#define heard_all(r) (heard[pair(r, next(r))] && heard[pair(r, before(r))])

inline begin(r) {
  if
  :: knows[r] -> first[r] = canceled
  :: else -> first[r] = runs
  fi
}

inline put(r, call) {
  call_of[piece(r, posted[r])] = call;
  if
  :: call == 1 && first[next(r)] == runs -> written[piece(r, posted[r])] = true
  :: true
  fi;
  posted[r]++;
  gave[r] = true
}

inline arrive(r) {
  /* The memory is its owner's again when the call is over. */
  assert(!(written[piece(r, arrived[r])] && first[next(r)] == canceled));
  arrived[r]++
}

#define head(r) call_of[piece(before(r), taken[before(r)])]
#define has_head(r) (taken[before(r)] < arrived[before(r)])

inline take(r) {
  assert(head(r) == 1 && first[r] == runs || head(r) == 2 && second[r] == runs);
  taken[before(r)]++;
  took[r] = true
}

inline know(r) {
  if
  :: !knows[r] ->
    knows[r] = true;
    if
    :: first[r] == runs -> first[r] = drains
    :: else
    fi
  :: else
  fi
}

inline tell(r, q) {
  told[pair(r, q)] = true;
  message[pair(r, q)] = true;
  if
  :: q == next(r) -> message_after[pair(r, q)] = posted[r]
  :: else
  fi
}

inline hear(r, q) { /* q from r */
  message[pair(r, q)] = false;
  message_after[pair(r, q)] = 0;
  know(q);
  heard[pair(q, r)] = true
}

inline forget(r) {
  knows[r] = false;
}

#define in_call(r) (first[r] == runs || second[r] == runs)
#define over(r) (first[r] == done || first[r] == canceled)
#ifndef WITHOUT_STOP
#define may_put_first(r) (first[r] == runs && !gave[r])
#else
#define may_put_first(r) ((first[r] == runs || first[r] == drains) && !gave[r])
#endif
#ifndef WITHOUT_DROP
#define may_drop(r) (knows[r] && has_head(r) && head(r) == 1)
#else
#define may_drop(r) false
#endif
#ifndef WITHOUT_INVITED
#define may_end(r) (first[r] == drains && heard[pair(r, before(r))])
#else
#define may_end(r) (first[r] == drains)
#endif
#define no_word_under_way(r) (!message[pair(r, next(r))] && !message[pair(r, before(r))])
#ifdef WITHOUT_TOLD
#define may_begin_second(r) (over(r) && second[r] == waits && no_word_under_way(r))
#elif defined(WITHOUT_ARRIVED)
#define may_begin_second(r) (over(r) && second[r] == waits && (!knows[r] || told_all(r)))
#else
#define may_begin_second(r) (over(r) && second[r] == waits && \
                             (!knows[r] || told_all(r) && no_word_under_way(r)))
#endif
#ifndef WITHOUT_HEARD
#define may_forget(r) (knows[r] && over(r) && !may_drop(r) && told_all(r) && heard_all(r))
#else
#define may_forget(r) (knows[r] && over(r) && !may_drop(r) && told_all(r))
#endif
#ifndef WITHOUT_SPREAD
#define may_tell(r, q) (knows[r] && !told[pair(r, q)])
#else
#define may_tell(r, q) (knows[r] && !told[pair(r, q)] && !heard[pair(r, q)])
#endif

#define rank(r)                                                                             \
  :: atomic { first[r] == waits -> begin(r) }                                               \
  :: atomic { may_put_first(r) -> put(r, 1) }                                               \
  :: atomic { second[r] == runs && !gave[r] -> put(r, 2) }                                  \
  :: atomic { arrived[r] < posted[r] -> arrive(r) }                                         \
  :: atomic { in_call(r) && !took[r] && has_head(r) && !may_drop(r) -> take(r) }            \
  :: atomic { may_drop(r) -> taken[before(r)]++ }                                           \
  :: atomic { first[r] == runs && gave[r] && took[r] -> first[r] = done }                   \
  :: atomic { second[r] == runs && gave[r] && took[r] -> second[r] = done }                 \
  :: atomic { may_end(r) -> first[r] = canceled }                                           \
  :: atomic { may_begin_second(r) -> second[r] = runs; gave[r] = false; took[r] = false }   \
  :: atomic { may_tell(r, next(r)) -> tell(r, next(r)) }                                    \
  :: atomic { may_tell(r, before(r)) -> tell(r, before(r)) }                                \
  :: atomic { message[pair(r, next(r))] &&                                                  \
              message_after[pair(r, next(r))] <= arrived[r] -> hear(r, next(r)) }           \
  :: atomic { message[pair(r, before(r))] -> hear(r, before(r)) }                           \
  :: atomic { may_forget(r) -> forget(r) }

#define well(r) (over(r) && second[r] == done && !knows[r] && taken[before(r)] == posted[before(r)])

active proctype world() {
  d_step {
    first[0] = waits; first[1] = waits; first[2] = waits;
    second[0] = waits; second[1] = waits; second[2] = waits
  }
  end: do
  rank(0)
  rank(1)
  rank(2)
  :: atomic { first[0] == runs && !knows[0] -> know(0) }
  :: atomic { first[1] == runs && !knows[1] -> know(1) }
  :: else -> /* nothing can happen any more */
    assert(well(0) && well(1) && well(2));
#ifdef REACH
    assert(first[0] == done); /* not a mistake: the end can be reached, and with a cancellation */
#endif
    break
  od
}
