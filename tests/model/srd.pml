/* SPDX-License-Identifier: BSD-3-Clause
 * The core of SRD (lib/wire/SRD.md) for the model checker Spin: hello and welcome, incarnations,
 * epochs, sequence numbers and reassembly over a network that loses, repeats, reorders and parks
 * packets, while either process may die once and be followed by another, and the receiver may
 * forget a peer that is at rest. Refusals and order have a model of their own (srd_refusal.pml).
 * Checked in every order:
 *
 *   - no packet is executed twice by one receiving process;
 *   - a message is delivered only whole, and once;
 *   - a message is reported as a success only if the process that said so executed all of it.
 *
 * srd_model_test.py runs it as it is, and with one rule taken out (-DWITHOUT_), which must fail.
 */
#define SLOTS 2      /* packets in the network at once; a new one may push out one, a loss */
#define PARTS 3      /* of one sender's life: message 0 is parts 0 and 1, message 1 is part 2 */
#define MOST_STAMP 2 /* incarnations that one receiving process issues */
#define MOST_EPOCH 2 /* streams of one sending process */

mtype = { nothing, hello, welcome, part, acknowledge, reset };

typedef Packet {
  mtype kind;
  byte epoch;
  byte incarnation; /* the life of the receiver that issued it, and its stamp: 0 = not known */
  byte sequence;    /* acknowledgements: a bit for each number that was executed */
  byte what;        /* which part of which life of the sender: 0..5; hello, welcome: which life */
  byte born         /* for checking only: the receiver's life that acknowledged */
};

#define incarnation_of(life, stamp) (4 * (life) + (stamp))
#define stamp_of(incarnation) ((incarnation) % 4)

Packet net[SLOTS];
Packet in;  /* the packet that is looked at */
Packet out; /* the packet that is being sent */

/* The receiver. */
byte r_life = 0;
byte r_stamp = 0;      /* the newest one that it has issued */
byte r_old = 0;        /* the newest one that is not fresh any more */
byte r_known = 0;      /* the incarnation whose streams are accepted; 0 = none */
byte r_epoch = 0;
byte r_done = 0;       /* the window: a bit for each number executed */
byte r_parts = 0;      /* of the message that arrives: a bit for each part of it */
byte executed[12];     /* [6 * r_life + what] */
byte delivered[8];     /* [4 * r_life + 2 * life of the sender + message] */

/* The sender. */
byte s_life = 0;
byte s_epoch = 0;      /* 0: no stream has begun */
byte s_incarnation = 0;
byte s_next = 0;       /* next sequence number */
byte s_acked = 0;      /* bits */
byte s_cursor = 0;     /* next part */
byte first = 0;        /* scratch */
byte s_content[PARTS]; /* the part that a number carries */
byte s_state[2];       /* of the messages: 0 waits or on its way, 1 success, 2 failed */

#define message_of(p) ((p) / 2)
#define bit(n) (1 << (n))

inline clear(p) {
  p.kind = nothing; p.epoch = 0; p.incarnation = 0; p.sequence = 0; p.what = 0; p.born = 0
}
inline copy(to, from) {
  to.kind = from.kind; to.epoch = from.epoch; to.incarnation = from.incarnation;
  to.sequence = from.sequence; to.what = from.what; to.born = from.born
}

/* Puts `out` into the network, perhaps in place of another packet. */
inline send() {
  if
  :: copy(net[0], out)
  :: copy(net[1], out)
  fi;
  clear(out)
}

/* ---- the sender ---- */

inline say_hello() {
  out.kind = hello;
  out.what = s_life;
  send()
}

inline on_welcome() {
  if
#ifndef WITHOUT_NONCE
  :: s_incarnation == 0 && in.what == s_life ->
#else
  :: s_incarnation == 0 ->
#endif
    s_incarnation = in.incarnation
  :: else
  fi
}

inline begin_stream() {
  s_epoch++;
  s_next = 0; s_acked = 0; s_cursor = 0
}

/* Only what has not been sent goes on. */
inline renew() {
  first = s_cursor;
  begin_stream();
  s_cursor = first;
  first = 0
}

inline transmit(n) {
  out.kind = part;
  out.epoch = s_epoch;
  out.incarnation = s_incarnation;
  out.sequence = n;
  out.what = PARTS * s_life + s_content[n];
  send()
}

inline send_new() {
  do
  :: s_cursor < PARTS && s_state[message_of(s_cursor)] != 0 -> s_cursor++
  :: else -> break
  od;
  if
  :: s_cursor < PARTS ->
    if
    :: s_epoch == 0 -> begin_stream()
    :: else
    fi;
    s_content[s_next] = s_cursor;
    s_cursor++;
    s_next++;
    transmit(s_next - 1)
  :: else
  fi
}

/* Whether a part of message m was sent in this stream. */
#define sent(m) ((m == 0 && s_next > 0 && s_content[0] == 0) || \
                 (m == 1 && ((s_next > 0 && s_content[0] == 2) || (s_next > 2))))
#define all_acked(m) ((m == 0 && s_content[0] == 0 && (s_acked & 3) == 3) || \
                      (m == 1 && ((s_content[0] == 2 && (s_acked & 1) != 0) || (s_acked & 4) != 0)))

inline report(m) {
  if
  :: s_state[m] == 0 && sent(m) && all_acked(m) ->
    s_state[m] = 1;
    if
    :: m == 0 ->
      assert(executed[6 * in.born + PARTS * s_life] == 1);
      assert(executed[6 * in.born + PARTS * s_life + 1] == 1)
    :: else -> assert(executed[6 * in.born + PARTS * s_life + 2] == 1)
    fi;
    assert(delivered[4 * in.born + 2 * s_life + m] == 1)
  :: else
  fi
}

inline on_acknowledge() {
  if
#ifndef WITHOUT_NAMED_ANSWERS
  :: in.incarnation == s_incarnation && in.epoch == s_epoch && s_epoch != 0 ->
#else
  :: in.epoch == s_epoch && s_epoch != 0 ->
#endif
    s_acked = s_acked | in.sequence;
    report(0);
    report(1)
  :: else
  fi
}

/* What was sent and perhaps executed fails, unless no acknowledgement ever arrived. */
inline on_reset() {
  if
  :: in.incarnation == s_incarnation && in.epoch == s_epoch && s_epoch < MOST_EPOCH ->
    if
    :: s_acked != 0 ->
      if
      :: s_state[0] == 0 && sent(0) -> s_state[0] = 2
      :: else
      fi;
      if
      :: s_state[1] == 0 && sent(1) -> s_state[1] = 2
      :: else
      fi
    :: else
    fi;
    begin_stream();
    s_incarnation = 0
  :: else
  fi
}

/* ---- the receiver ---- */

/* Without state: anyone gets one. */
inline on_hello() {
  if
  :: r_stamp < MOST_STAMP ->
    r_stamp++;
    out.kind = welcome;
    out.what = in.what;
    out.incarnation = incarnation_of(r_life, r_stamp);
    send()
  :: else
  fi
}

inline answer_reset() {
  out.kind = reset;
  out.epoch = in.epoch;
  out.incarnation = in.incarnation;
  send()
}

inline execute() {
  assert(executed[6 * r_life + in.what] == 0);
  executed[6 * r_life + in.what]++;
  r_done = r_done | bit(in.sequence);
  if
  :: in.what % PARTS == 2 -> delivered[4 * r_life + 2 * (in.what / PARTS) + 1]++
  :: else ->
    r_parts = r_parts | bit(in.what % PARTS);
    if
    :: r_parts == 3 ->
      r_parts = 0;
      delivered[4 * r_life + 2 * (in.what / PARTS)]++;
      assert(delivered[4 * r_life + 2 * (in.what / PARTS)] == 1);
      assert(executed[6 * r_life + PARTS * (in.what / PARTS)] == 1);
      assert(executed[6 * r_life + PARTS * (in.what / PARTS) + 1] == 1)
    :: else
    fi
  fi
}

inline accept() {
  if
#ifndef WITHOUT_WINDOW
  :: (r_done & bit(in.sequence)) != 0 -> skip /* a duplicate */
#endif
  :: else -> execute()
  fi;
  out.kind = acknowledge;
  out.epoch = r_epoch;
  out.incarnation = in.incarnation;
  out.sequence = r_done;
  out.born = r_life;
  send()
}

inline adopt() {
  r_epoch = in.epoch;
  r_done = 0;
#ifndef WITHOUT_DISCARDING
  r_parts = 0;
#endif
  accept()
}

inline on_part() {
  if
  :: in.incarnation == r_known ->
    if
    :: in.epoch == r_epoch -> accept()
#ifndef WITHOUT_EPOCHS
    :: in.epoch < r_epoch -> skip /* delayed */
    :: in.epoch > r_epoch -> adopt()
#else
    :: in.epoch != r_epoch -> adopt()
#endif
    fi
  :: else ->
    if
#ifndef WITHOUT_INCARNATION
    :: in.incarnation > incarnation_of(r_life, r_stamp) ||
       in.incarnation < incarnation_of(r_life, 1) -> answer_reset()
#endif
#ifndef WITHOUT_FRESHNESS
    :: stamp_of(in.incarnation) <= r_old -> answer_reset()
#endif
#ifndef WITHOUT_STAMPS
    :: r_known != 0 && stamp_of(in.incarnation) < stamp_of(r_known) -> answer_reset()
#endif
    :: else ->
      r_known = in.incarnation;
      adopt()
    fi
  fi
}

/* ---- the world ---- */

inline take(n, keep) {
  copy(in, net[n]);
  if
  :: keep
  :: !keep -> clear(net[n])
  fi;
  if
  :: in.kind == hello -> on_hello()
  :: in.kind == welcome -> on_welcome()
  :: in.kind == part -> on_part()
  :: in.kind == acknowledge -> on_acknowledge()
  :: in.kind == reset -> on_reset()
  :: else
  fi;
  clear(in)
}

#define all_sent_acked (s_next > 0 && s_acked == bit(s_next) - 1)

active proctype world() {
  end: do
  :: atomic { s_incarnation == 0 && s_epoch <= MOST_EPOCH -> say_hello() }
  :: atomic { s_incarnation != 0 && s_next < PARTS -> send_new() }
  /* A sender that rests begins a new stream. */
  :: atomic { s_incarnation != 0 && all_sent_acked && s_epoch < MOST_EPOCH -> renew() }
  :: atomic { s_next > 0 && (s_acked & 1) == 0 && s_incarnation != 0 -> transmit(0) }
  :: atomic { s_next > 1 && (s_acked & 2) == 0 && s_incarnation != 0 -> transmit(1) }
  :: atomic { s_next > 2 && (s_acked & 4) == 0 && s_incarnation != 0 -> transmit(2) }
  :: atomic { net[0].kind != nothing -> take(0, false) }
  :: atomic { net[0].kind != nothing -> take(0, true) }
  :: atomic { net[1].kind != nothing -> take(1, false) }
  :: atomic { net[1].kind != nothing -> take(1, true) }
  :: atomic { r_life == 0 ->
       r_life = 1;
       r_stamp = 0; r_old = 0; r_known = 0; r_epoch = 0; r_done = 0; r_parts = 0 }
  /* A peer is forgotten when it has rested for longer than any incarnation is fresh, and its sender
     waits for nothing that was executed. */
  :: atomic { r_known != 0 && r_parts == 0 &&
              (s_incarnation != r_known || s_next == 0 || all_sent_acked) ->
       r_old = r_stamp;
       r_known = 0; r_epoch = 0; r_done = 0 }
  :: atomic { s_life == 0 ->
       s_life = 1;
       s_epoch = 0; s_incarnation = 0; s_next = 0; s_acked = 0; s_cursor = 0;
       s_content[0] = 0; s_content[1] = 0; s_content[2] = 0;
       s_state[0] = 0; s_state[1] = 0 }
#ifdef REACH
  :: atomic { r_life == 1 && s_life == 1 && s_state[0] == 1 && s_state[1] == 1 ->
       assert(false) } /* not a mistake: shows that the end can be reached */
#endif
  od
}
