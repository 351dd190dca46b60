/* SPDX-License-Identifier: BSD-3-Clause
 * The credit scheme of the collectives' links (lib/collective/run/link.cpp), for the model checker
 * Spin: two ends, each with a ring of SLOTS landing slots and as many that it sends from. End 0 has
 * PIECES pieces for end 1, end 1 has one for end 0 and may wait with it. The transport loses
 * nothing and keeps no order, as SRD; it reads a sending slot until it reports the piece as done,
 * which may be long after the piece has come and been consumed. How much an end has consumed goes
 * with its pieces, and in messages of their own when half a ring is not told; of these MESSAGES may
 * be in progress, and one that finds no room is dropped. Checked in every order:
 *
 *   - no piece is written over one that is not consumed;
 *   - no slot that the transport still reads is written;
 *   - pieces are consumed in their order, each once;
 *   - when nothing can happen any more, everything has been consumed: nobody waits for credit.
 *
 * With -DORDERED the transport is RC: pieces come and are done in their order, and only some of
 * them have a completion, which speaks for those before it; here one of WORDS, as few as a ring
 * allows.
 *
 * Pieces that are put to where their receiver invited them are not in this model, but for their
 * headers, which go the same way. collective_credit_model_test.py runs it as it is, and with one
 * rule taken out (-DWITHOUT_...), which must fail.
 */
#define SLOTS 2
#define PIECES 5
#define MESSAGES 2

#define WORDS SLOTS

#define bit(n) (1 << (n))
#define other(e) (1 - (e))
#define slot(e, n) ((e) * SLOTS + (n) % SLOTS)

byte wanted[2];             /* pieces that an end has to send; they may become ready at any time */
byte ready[2];

/* By sender. */
byte posted[2];
byte done[2];               /* those before it are done ... */
byte done_later[2];         /* ... and these too: a bit for each piece */
byte credit[2];             /* that the other end is known to have consumed */

/* By receiver. */
byte arrived[2];            /* bits */
byte consumed[2];
byte told[2];

/* Pieces in progress, by sender and slot. */
mtype = { nothing, sent, placed };
mtype flying[2 * SLOTS];
byte number[2 * SLOTS];     /* in the sending slot: piece, and consumed as its header says */
byte header[2 * SLOTS];

/* Landing slots, by receiver. */
byte landed[2 * SLOTS];     /* piece + 1 */
byte landed_header[2 * SLOTS];

/* Messages in progress, by sender. */
mtype message[2 * MESSAGES];
byte message_says[2 * MESSAGES];
byte k;                     /* scratch */

#ifndef WITHOUT_DONE
#define done_allows(e) (posted[e] - done[e] < SLOTS)
#else
#define done_allows(e) true
#endif
#ifndef WITHOUT_CREDIT
#define credit_allows(e) (posted[e] - credit[e] < SLOTS)
#else
#define credit_allows(e) true
#endif

#ifdef ORDERED
#define comes_next(e, s) ((arrived[other(e)] & before(number[s])) == before(number[s]))
#ifndef WITHOUT_WORDS
#define speaks(s) ((number[s] + 1) % WORDS == 0)
#else
#define speaks(s) false
#endif
#else
#define comes_next(e, s) true
#define speaks(s) true
#endif
#define before(n) (bit(n) - 1)

inline note_credit(e, says) {
  if
#ifndef WITHOUT_NEWEST
  :: says > credit[e] && says <= posted[e] -> credit[e] = says
#else
  :: says <= posted[e] -> credit[e] = says
#endif
  :: else
  fi
}

/* Half a ring that the other end does not know of is worth a message. */
inline return_credit(e) {
#ifndef WITHOUT_MESSAGES
  if
  :: consumed[e] - told[e] >= SLOTS / 2 ->
    if
    :: message[e * MESSAGES] == nothing -> k = e * MESSAGES
    :: message[e * MESSAGES] != nothing && message[e * MESSAGES + 1] == nothing ->
       k = e * MESSAGES + 1
    :: else -> k = 255
    fi;
    if
    :: k != 255 -> message[k] = sent; message_says[k] = consumed[e]; told[e] = consumed[e]
    :: else
#ifdef WITHOUT_AGAIN
       -> told[e] = consumed[e]
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
  assert(flying[slot(e, posted[e])] == nothing); /* nobody reads the slot */
  flying[slot(e, posted[e])] = sent;
  number[slot(e, posted[e])] = posted[e];
  header[slot(e, posted[e])] = consumed[e];
  told[e] = consumed[e];
  posted[e]++
}

/* The transport writes what the sending slot says into the landing slot. */
inline place(e, s) {
  flying[s] = placed;
  assert(number[s] < SLOTS || number[s] - SLOTS < consumed[other(e)]); /* it was free */
  landed[slot(other(e), number[s])] = number[s] + 1;
  landed_header[slot(other(e), number[s])] = header[s];
  arrived[other(e)] = arrived[other(e)] | bit(number[s]);
  note_credit(other(e), header[s])
}

inline vacate(s) {
  flying[s] = nothing;
  number[s] = 0;
  header[s] = 0
}

inline finish(e, s) {
  done_later[e] = done_later[e] | bit(number[s]);
#ifdef ORDERED
  done_later[e] = done_later[e] | before(number[s]);
  k = e * SLOTS;
  do
  :: k < (e + 1) * SLOTS && flying[k] == placed && number[k] < number[s] -> vacate(k); k++
  :: k < (e + 1) * SLOTS && !(flying[k] == placed && number[k] < number[s]) -> k++
  :: else -> break
  od;
  k = 0;
#endif
  vacate(s);
  do
  :: (done_later[e] & bit(done[e])) != 0 -> done[e]++
  :: else -> break
  od
}

inline consume(e) {
  assert(landed[slot(e, consumed[e])] == consumed[e] + 1);
  landed[slot(e, consumed[e])] = 0;
  landed_header[slot(e, consumed[e])] = 0;
  consumed[e]++;
  return_credit(e)
}

inline hear(e, m) {
  message[m] = placed;
  note_credit(other(e), message_says[m])
}

inline forget(e, m) {
  message[m] = nothing;
  message_says[m] = 0;
#ifndef WITHOUT_AGAIN
  return_credit(e)
#endif
}

#define may_post(e) (posted[e] < ready[e] && done_allows(e) && credit_allows(e))
#define may_consume(e) ((arrived[e] & bit(consumed[e])) != 0)

active proctype world() {
  wanted[0] = PIECES;
  wanted[1] = 1;
  d_step {
    k = 0;
    do
    :: k < 2 * SLOTS -> flying[k] = nothing; k++
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

  :: atomic { flying[0] == sent && comes_next(0, 0) -> place(0, 0) }
  :: atomic { flying[1] == sent && comes_next(0, 1) -> place(0, 1) }
  :: atomic { flying[2] == sent && comes_next(1, 2) -> place(1, 2) }
  :: atomic { flying[3] == sent && comes_next(1, 3) -> place(1, 3) }
  :: atomic { flying[0] == placed && speaks(0) -> finish(0, 0) }
  :: atomic { flying[1] == placed && speaks(1) -> finish(0, 1) }
  :: atomic { flying[2] == placed && speaks(2) -> finish(1, 2) }
  :: atomic { flying[3] == placed && speaks(3) -> finish(1, 3) }

  :: atomic { message[0] == sent -> hear(0, 0) }
  :: atomic { message[1] == sent -> hear(0, 1) }
  :: atomic { message[2] == sent -> hear(1, 2) }
  :: atomic { message[3] == sent -> hear(1, 3) }
  :: atomic { message[0] == placed -> forget(0, 0) }
  :: atomic { message[1] == placed -> forget(0, 1) }
  :: atomic { message[2] == placed -> forget(1, 2) }
  :: atomic { message[3] == placed -> forget(1, 3) }

  :: else -> /* nothing can happen any more */
    assert(consumed[1] == wanted[0] && consumed[0] == wanted[1]);
#ifdef REACH
    assert(false); /* not a mistake: the end can be reached */
#endif
    break
  od
}
