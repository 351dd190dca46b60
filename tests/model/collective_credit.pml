/* SPDX-License-Identifier: BSD-3-Clause
 * The credit scheme of the collectives' links (lib/collective/run/link_rings.hpp), for the model
 * checker Spin: two ends, each with a ring of SLOTS landing slots and as many staging slots. End 0
 * sends PIECES pieces to end 1; end 1 sends one to end 0, at any time. The transport loses nothing
 * and keeps no order, as SRD; it reads a staging slot until the completion, which may be long after
 * the piece has arrived and been consumed. Credit (pieces consumed) is returned with pieces, and in
 * messages when half a ring is not returned; MESSAGES of these may be in flight, and one that finds
 * no room is dropped. Checked in every order:
 *
 *   - no piece is written over one that is not consumed;
 *   - no staging slot that the transport still reads is written;
 *   - pieces are consumed in order, each once;
 *   - in the final state everything is consumed: no end waits for credit.
 *
 * With -DORDERED the transport is RC: pieces arrive and complete in order, and only some of them
 * are signaled; a completion covers those before it. Here one of SIGNALS is signaled, as few as a
 * ring allows.
 *
 * Rendezvous is modelled by its headers only, which go through slots like pieces.
 * collective_credit_model_test.py runs it as it is, and with one rule removed (-DWITHOUT_...),
 * which must fail.
 */
#define SLOTS 2
#define PIECES 5
#define MESSAGES 2

#define SIGNALS SLOTS

#define bit(n) (1 << (n))
#define other(e) (1 - (e))
#define slot(e, n) ((e) * SLOTS + (n) % SLOTS)

byte wanted[2];             /* pieces that an end has to send; they may become ready at any time */
byte ready[2];

/* By sender. */
byte posted[2];
byte completed[2];          /* pieces before this one have completed */
byte completed_ahead[2];    /* behind a gap: a bit for each piece */
byte credit[2];             /* pieces that the other end has consumed, as known here */

/* By receiver. */
byte arrived[2];            /* bits */
byte consumed[2];
byte credit_sent[2];

/* Pieces in flight, by sender and slot. */
mtype = { nothing, sent, placed };
mtype in_flight[2 * SLOTS];
byte number[2 * SLOTS];     /* in the staging slot: piece, and credit in the header */
byte header[2 * SLOTS];

/* Landing slots, by receiver. */
byte landing[2 * SLOTS];    /* piece + 1 */
byte landing_header[2 * SLOTS];

/* Messages in flight, by sender. */
mtype message[2 * MESSAGES];
byte message_credit[2 * MESSAGES];
byte k;                     /* scratch */

#ifndef WITHOUT_COMPLETION
#define completion_allows(e) (posted[e] - completed[e] < SLOTS)
#else
#define completion_allows(e) true
#endif
#ifndef WITHOUT_CREDIT
#define credit_allows(e) (posted[e] - credit[e] < SLOTS)
#else
#define credit_allows(e) true
#endif

#ifdef ORDERED
#define arrives_next(e, s) ((arrived[other(e)] & before(number[s])) == before(number[s]))
#ifndef WITHOUT_SIGNALS
#define is_signaled(s) ((number[s] + 1) % SIGNALS == 0)
#else
#define is_signaled(s) false
#endif
#else
#define arrives_next(e, s) true
#define is_signaled(s) true
#endif
#define before(n) (bit(n) - 1)

inline update_credit(e, value) {
  if
#ifndef WITHOUT_NEWEST
  :: value > credit[e] && value <= posted[e] -> credit[e] = value
#else
  :: value <= posted[e] -> credit[e] = value
#endif
  :: else
  fi
}

/* A message is sent when half a ring is not returned. */
inline return_credit(e) {
#ifndef WITHOUT_MESSAGES
  if
  :: consumed[e] - credit_sent[e] >= SLOTS / 2 ->
    if
    :: message[e * MESSAGES] == nothing -> k = e * MESSAGES
    :: message[e * MESSAGES] != nothing && message[e * MESSAGES + 1] == nothing ->
       k = e * MESSAGES + 1
    :: else -> k = 255
    fi;
    if
    :: k != 255 -> message[k] = sent; message_credit[k] = consumed[e]; credit_sent[e] = consumed[e]
    :: else
#ifdef WITHOUT_AGAIN
       -> credit_sent[e] = consumed[e]
#endif
    fi;
    k = 0
  :: else
  fi
#else
  skip
#endif
}

inline post(e) {
  assert(in_flight[slot(e, posted[e])] == nothing); /* the transport does not read the slot */
  in_flight[slot(e, posted[e])] = sent;
  number[slot(e, posted[e])] = posted[e];
  header[slot(e, posted[e])] = consumed[e];
  credit_sent[e] = consumed[e];
  posted[e]++
}

/* The transport copies the staging slot into the landing slot. */
inline deliver(e, s) {
  in_flight[s] = placed;
  assert(number[s] < SLOTS || number[s] - SLOTS < consumed[other(e)]); /* it was free */
  landing[slot(other(e), number[s])] = number[s] + 1;
  landing_header[slot(other(e), number[s])] = header[s];
  arrived[other(e)] = arrived[other(e)] | bit(number[s]);
  update_credit(other(e), header[s])
}

inline free_slot(s) {
  in_flight[s] = nothing;
  number[s] = 0;
  header[s] = 0
}

inline complete(e, s) {
  completed_ahead[e] = completed_ahead[e] | bit(number[s]);
#ifdef ORDERED
  completed_ahead[e] = completed_ahead[e] | before(number[s]);
  k = e * SLOTS;
  do
  :: k < (e + 1) * SLOTS && in_flight[k] == placed && number[k] < number[s] -> free_slot(k); k++
  :: k < (e + 1) * SLOTS && !(in_flight[k] == placed && number[k] < number[s]) -> k++
  :: else -> break
  od;
  k = 0;
#endif
  free_slot(s);
  do
  :: (completed_ahead[e] & bit(completed[e])) != 0 -> completed[e]++
  :: else -> break
  od
}

inline consume(e) {
  assert(landing[slot(e, consumed[e])] == consumed[e] + 1);
  landing[slot(e, consumed[e])] = 0;
  landing_header[slot(e, consumed[e])] = 0;
  consumed[e]++;
  return_credit(e)
}

inline receive_message(e, m) {
  message[m] = placed;
  update_credit(other(e), message_credit[m])
}

inline complete_message(e, m) {
  message[m] = nothing;
  message_credit[m] = 0;
#ifndef WITHOUT_AGAIN
  return_credit(e)
#endif
}

#define may_post(e) (posted[e] < ready[e] && completion_allows(e) && credit_allows(e))
#define may_consume(e) ((arrived[e] & bit(consumed[e])) != 0)

active proctype world() {
  wanted[0] = PIECES;
  wanted[1] = 1;
  d_step {
    k = 0;
    do
    :: k < 2 * SLOTS -> in_flight[k] = nothing; k++
    :: else -> break
    od;
    k = 0;
    do
    :: k < 2 * MESSAGES -> message[k] = nothing; k++
    :: else -> break
    od;
    k = 0
  }
  end: do
  :: atomic { ready[0] < wanted[0] -> ready[0] = wanted[0] }
  :: atomic { ready[1] < wanted[1] -> ready[1]++ }
  :: atomic { may_post(0) -> post(0) }
  :: atomic { may_post(1) -> post(1) }
  :: atomic { may_consume(0) -> consume(0) }
  :: atomic { may_consume(1) -> consume(1) }

  :: atomic { in_flight[0] == sent && arrives_next(0, 0) -> deliver(0, 0) }
  :: atomic { in_flight[1] == sent && arrives_next(0, 1) -> deliver(0, 1) }
  :: atomic { in_flight[2] == sent && arrives_next(1, 2) -> deliver(1, 2) }
  :: atomic { in_flight[3] == sent && arrives_next(1, 3) -> deliver(1, 3) }
  :: atomic { in_flight[0] == placed && is_signaled(0) -> complete(0, 0) }
  :: atomic { in_flight[1] == placed && is_signaled(1) -> complete(0, 1) }
  :: atomic { in_flight[2] == placed && is_signaled(2) -> complete(1, 2) }
  :: atomic { in_flight[3] == placed && is_signaled(3) -> complete(1, 3) }

  :: atomic { message[0] == sent -> receive_message(0, 0) }
  :: atomic { message[1] == sent -> receive_message(0, 1) }
  :: atomic { message[2] == sent -> receive_message(1, 2) }
  :: atomic { message[3] == sent -> receive_message(1, 3) }
  :: atomic { message[0] == placed -> complete_message(0, 0) }
  :: atomic { message[1] == placed -> complete_message(0, 1) }
  :: atomic { message[2] == placed -> complete_message(1, 2) }
  :: atomic { message[3] == placed -> complete_message(1, 3) }

  :: else -> /* final state */
    assert(consumed[1] == wanted[0] && consumed[0] == wanted[1]);
#ifdef REACH
    assert(false); /* expected to fail: the final state is reachable */
#endif
    break
  od
}
