/* SPDX-License-Identifier: BSD-3-Clause
 * What SRD (lib/wire/SRD.md) does when the receiver has no receive, for the model checker Spin: one
 * stream, over a network that loses, repeats, reorders and parks packets. Message 0 has two packets
 * and message 1 has one; both are ordered SENDs, 0 before 1. The receiver posts its two receives at
 * any time. A message that is refused ends: its packets go again as fills, an abort takes back what
 * the receiver had of it, and it begins anew under another name. Checked in every order:
 *
 *   - no message is delivered twice, nor out of order, nor of parts of different tries;
 *   - success is reported only of what was executed whole, in one try;
 *   - what holds a receive is a message in flight: none is lost;
 *   - a receive is always there for the earlier of two ordered messages.
 *
 * srd_model_test.py runs it as it is, and with one rule taken out (-DWITHOUT_...), which must fail.
 */
#define MOST 5       /* sequence numbers of the stream */
#define MOST_TRIES 2 /* of each message: then it is not posted again */
#define RECEIVES 2

mtype = { nothing, data, fill, abort, acknowledge, refusal };

typedef Packet {
  mtype kind;
  byte sequence;
  byte message; /* 0 or 1, and its number among ordered ones */
  byte try;     /* its name */
  byte part;
  byte done     /* acknowledgements: a bit for each number executed */
};

Packet net[2];
Packet in;
Packet out;

/* The receiver. */
byte r_done = 0;      /* numbers executed */
byte r_refused = 0;   /* numbers whose packet was refused */
byte r_free = 0;      /* receives */
byte r_posted = 0;
byte r_bound[2];      /* by message: 0, or the try that has a receive */
byte r_parts[2];      /* of that try */
bool r_whole[2];      /* waits for the one before it */
byte delivered[2];
byte cur = 0;         /* scratch */
byte r_turn = 0;      /* the message whose receive completes next */

/* The sender. */
byte s_next = 0;
byte s_acked = 0;
byte s_try[2];        /* 0: not begun */
byte s_cursor[2];
bool s_ending[2];     /* was refused */
bool s_aborting[2];
bool s_success[2];
byte s_message[MOST]; /* by number */
byte s_tries[MOST];
byte s_part[MOST];
mtype s_kind[MOST];

#define bit(n) (1 << (n))
#define whole(m) (r_parts[m] == 3 - 2 * (m)) /* 3, or 1 for message 1 */

inline clear(p) {
  p.kind = nothing; p.sequence = 0; p.message = 0; p.try = 0; p.part = 0; p.done = 0
}
inline copy(to, from) {
  to.kind = from.kind; to.sequence = from.sequence; to.message = from.message;
  to.try = from.try; to.part = from.part; to.done = from.done
}
inline send() {
  if
  :: copy(net[0], out)
  :: copy(net[1], out)
  fi;
  clear(out)
}

/* ---- the sender ---- */

inline transmit(n) {
  out.kind = s_kind[n];
  out.sequence = n;
  if
  :: s_kind[n] != fill ->
    out.message = s_message[n];
    out.try = s_tries[n];
    out.part = s_part[n]
  :: else
  fi;
  send()
}

inline number(m, what) {
  s_kind[s_next] = what;
  s_message[s_next] = m;
  s_tries[s_next] = s_try[m];
  s_next++
}

inline send_part(m) {
  s_part[s_next] = s_cursor[m];
  s_cursor[m]++;
  number(m, data);
  transmit(s_next - 1)
}

#define mine(n, m) (n < s_next && s_message[n] == m && s_tries[n] == s_try[m] && \
                    s_kind[n] != nothing)
#define open(n, m) (mine(n, m) && (s_acked & bit(n)) == 0)
#define flying(m) (open(0, m) || open(1, m) || open(2, m) || open(3, m) || open(4, m))

/* Nothing of a message is in flight. */
inline settle(m) {
  if
  :: s_try[m] != 0 && !s_success[m] && !flying(m) ->
    if
    :: s_aborting[m] || (s_ending[m] && s_cursor[m] == 0) -> s_aborting[m] = false;
       s_ending[m] = false; s_cursor[m] = 0;
       if
       :: s_try[m] < MOST_TRIES -> s_try[m]++
       :: else -> s_try[m] = 0; s_success[m] = true /* given up: out of this model */
       fi
    :: !s_aborting[m] && s_ending[m] && s_cursor[m] != 0 ->
#ifndef WITHOUT_ABORT
       if
       :: s_next < MOST -> s_aborting[m] = true; s_part[s_next] = 0; number(m, abort);
          transmit(s_next - 1)
       :: else
       fi
#else
       s_aborting[m] = true
#endif
    :: !s_ending[m] && s_cursor[m] == 2 - m ->
       s_success[m] = true;
       assert(r_whole[m] || delivered[m] == 1)
    :: else
    fi
  :: else
  fi
}

inline fill_if_open(n, m) {
  if
  :: open(n, m) && s_kind[n] == data -> s_kind[n] = fill
  :: else
  fi
}

inline on_refusal() {
  if
  :: in.sequence < s_next && (s_acked & bit(in.sequence)) == 0 && s_kind[in.sequence] == data ->
    cur = s_message[in.sequence];
    s_ending[cur] = true;
    fill_if_open(0, cur); fill_if_open(1, cur); fill_if_open(2, cur);
    fill_if_open(3, cur); fill_if_open(4, cur);
    cur = 0
  :: else
  fi
}

inline on_acknowledge() {
  s_acked = s_acked | in.done;
  settle(0);
  settle(1)
}

/* ---- the receiver ---- */

inline answer_refusal() {
  r_refused = r_refused | bit(in.sequence);
  out.kind = refusal;
  out.sequence = in.sequence;
  send()
}

inline executed() {
  r_done = r_done | bit(in.sequence)
}

inline answer_done() {
  out.kind = acknowledge;
  out.done = r_done;
  send()
}

/* Completes receives whose turn it is. */
inline release() {
  do
  :: r_turn < 2 && r_whole[r_turn] ->
    r_whole[r_turn] = false;
    delivered[r_turn]++;
    assert(delivered[r_turn] == 1);
    r_turn++
  :: else -> break
  od
}

/* Whether message m may take a receive: one is left for the earlier one that has none. */
#ifndef WITHOUT_RESERVE
#define may_bind(m) (r_free > (m == 1 && r_turn == 0 && r_bound[0] == 0 && !r_whole[0] -> 1 : 0))
#else
#define may_bind(m) (r_free > 0)
#endif

inline place(m) {
  r_parts[m] = r_parts[m] | bit(in.part);
  executed();
  if
  :: whole(m) ->
    r_parts[m] = 0;
    r_bound[m] = 0;
    assert(delivered[m] == 0 && !r_whole[m]);
#ifndef WITHOUT_HOLD
    r_whole[m] = true;
    release()
#else
    assert(m == r_turn); /* it completes now */
    delivered[m]++;
    r_turn++
#endif
  :: else
  fi;
  answer_done()
}

inline on_data() {
  cur = in.message;
  if
  :: (r_done & bit(in.sequence)) != 0 -> answer_done()
#ifndef WITHOUT_FINAL
  :: (r_done & bit(in.sequence)) == 0 && (r_refused & bit(in.sequence)) != 0 -> answer_refusal()
#endif
  :: else ->
    if
    :: r_bound[cur] == in.try -> place(cur)
    :: r_bound[cur] != in.try && r_bound[cur] != 0 ->
      assert(false) /* another try of it still has a receive */
    :: r_bound[cur] == 0 && may_bind(cur) ->
      r_free--;
      r_bound[cur] = in.try;
      place(cur)
    :: else -> answer_refusal()
    fi
  fi;
  cur = 0
}

inline on_abort() {
  cur = in.message;
  if
  :: (r_done & bit(in.sequence)) == 0 ->
    if
    :: r_bound[cur] == in.try ->
      r_bound[cur] = 0;
      r_parts[cur] = 0;
      r_free++
    :: else
    fi
  :: else
  fi;
  executed();
  answer_done();
  cur = 0
}

/* ---- the world ---- */

inline take(n, keep) {
  copy(in, net[n]);
  if
  :: keep
  :: !keep -> clear(net[n])
  fi;
  if
  :: in.kind == data -> on_data()
  :: in.kind == fill -> executed(); answer_done()
  :: in.kind == abort -> on_abort()
  :: in.kind == acknowledge -> on_acknowledge()
  :: in.kind == refusal -> on_refusal()
  :: else
  fi;
  clear(in);
  /* Each receive is free, bound, or has completed or waits for its turn. */
  assert(r_free + (r_bound[0] != 0 -> 1 : 0) + (r_bound[1] != 0 -> 1 : 0) + delivered[0] +
         delivered[1] + r_whole[0] + r_whole[1] == r_posted);
  /* The later one never has the last of them. */
  assert(r_turn != 0 || r_bound[0] != 0 || r_whole[0] || r_free > 0 ||
         (r_bound[1] == 0 && !r_whole[1]))
}

#define may_send(m) (s_try[m] != 0 && !s_ending[m] && !s_success[m] && s_cursor[m] < 2 - m && \
                     s_next < MOST)

active proctype world() {
  s_try[0] = 1;
  s_try[1] = 1;
  end: do
  :: atomic { may_send(0) -> send_part(0) }
  :: atomic { may_send(1) -> send_part(1) }
  :: atomic { s_next > 0 && (s_acked & bit(0)) == 0 -> transmit(0) }
  :: atomic { s_next > 1 && (s_acked & bit(1)) == 0 -> transmit(1) }
  :: atomic { s_next > 2 && (s_acked & bit(2)) == 0 -> transmit(2) }
  :: atomic { s_next > 3 && (s_acked & bit(3)) == 0 -> transmit(3) }
  :: atomic { s_next > 4 && (s_acked & bit(4)) == 0 -> transmit(4) }

  :: atomic { net[0].kind != nothing -> take(0, false) }
  :: atomic { net[0].kind != nothing -> take(0, true) }
  :: atomic { net[1].kind != nothing -> take(1, false) }
  :: atomic { net[1].kind != nothing -> take(1, true) }
  :: atomic { r_posted < RECEIVES -> r_posted++; r_free++ }
#ifdef REACH
  :: atomic { delivered[0] == 1 && delivered[1] == 1 && s_try[0] == 2 && s_success[0] &&
              s_success[1] -> assert(false) } /* not a mistake: the end can be reached */
#endif
  od
}
