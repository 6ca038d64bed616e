/* The consumer role of an endpoint (core/net/endpoint/role.h) between any two of its steps: a statement below is one
   access of a word that threads share, or a section under the queue's mutex; a poll and a change of the doorbell's mode
   (page and epoch) are one as well. Spin tries every order of them.

   One peer sends MESSAGES (Outbox::ring). One thread passes by ROUNDS times (try_drain, then block with a deadline that
   has passed). With BLOCKER_BLOCKS, one blocks until the first message has come. One is the service thread; its timer
   fires at any time.

   Proved: whenever nobody has a step left, who waits in block() waits with a holder (NEP-6, NRO-2); at the end all
   messages were delivered and all calls have returned (NEP-2, NRO-3). And who polls holds the role (NRO-1).

   Abstracted: an epoch is the flag `rang`, as a ringer only asks whether it rang in this one (DB-2); how often the role
   moved is the flag `moved`; there is one ring. Accesses are sequentially consistent, as they are in the code.

   role_model_test.py has it proved, and refuted with each WITHOUT_... defined. */

#define NOBODY 0
#define PASSER 1
#define BLOCKER 2
#define SERVICE 3
mtype = { AWAKE, ASLEEP, UNHELD };

byte holder = NOBODY;
bool moved, attended;
mtype page = UNHELD;  /* the doorbell's mode, written by the holder */
bool rang;            /* the peer rang in this epoch */
byte tail, head;
bool event_fd, tick;  /* readable descriptors of the service thread */
bool armed;
bool woken;           /* the doorbell's futex word moved since the holder looked at it */
bool queued[3], given[3];
byte waiters;
bool notified, on_doorbell;  /* of the blocker's parker */
byte ended;

inline set_mode(to) { atomic { if :: page == to :: else -> page = to; if :: to != AWAKE -> rang = false :: else fi fi } }
inline try_take(me, ok) {
  atomic { if :: holder == NOBODY -> holder = me; ok = true :: else -> ok = false fi };
  if :: ok -> moved = true; set_mode(AWAKE) :: else fi
}
/* Delivers what is there; whoever delivers the first message notifies the blocker. */
inline poll(me) {
  atomic {
    assert(holder == me);
    if :: head == 0 && tail > 0 -> notified = true; if :: on_doorbell -> woken = true :: else fi :: else fi;
    head = tail
  }
}
/* Does a thread wait that is not about to leave block() anyway? */
inline somebody_waits(some) {
  if
  :: waiters != 0 -> some = (queued[PASSER] || (queued[BLOCKER] && !notified))
  :: else -> some = false
  fi
}
inline give(to) { queued[to] = false; waiters--; moved = true; holder = to; given[to] = true; gone = true }
inline leave(me) {
  do
  :: gone = false;
     if  /* hand_over */
     :: waiters != 0 ->
        atomic {
          if
          :: queued[PASSER] -> give(PASSER)
          :: !queued[PASSER] && queued[BLOCKER] && !notified -> give(BLOCKER)
          :: else
          fi
        }
     :: else
     fi;
     if :: gone -> break :: else fi;
     attends = attended;  /* leave_alone */
     if
     :: attends
     :: else ->
        set_mode(UNHELD);
#ifndef WITHOUT_THE_LAST_LOOK
        if
        :: head == tail
        :: else -> attends = true; attended = true; set_mode(AWAKE); event_fd = true
        fi
#endif
     fi;
     holder = NOBODY;
#ifdef WITHOUT_A_LOOK_AT_THE_QUEUE
     some = false;
#else
     somebody_waits(some);
#endif
     if
     :: some
     :: !some && !attends -> break
     :: !some && attends ->
#ifdef WITHOUT_A_LOOK_AT_ATTENDANCE
        break
#else
        if :: attended -> break :: else fi
#endif
     fi;
     try_take(me, ok);
     if :: !ok -> break :: else fi
  od;
  atomic { gone = false; attends = false; some = false; ok = false }
}
inline queue_and_take(me) { atomic { queued[me] = true; waiters++ }; try_take(me, mine) }
inline unqueue(me) {
  atomic {
    if :: queued[me] -> queued[me] = false; waiters-- :: else fi;
    if :: given[me] -> given[me] = false; mine = true :: else fi
  }
}

active proctype Peer() {
  mtype seen;
  bool before;
  do
  :: tail < MESSAGES ->
     if  /* at any time, or when nothing else moves */
     :: true
     :: true -> timeout -> assert(!queued[BLOCKER] || holder != NOBODY)
     fi;
     tail++;
     atomic { seen = page; before = rang; if :: page != AWAKE -> rang = true :: else fi };
     if
     :: seen == AWAKE || before
     :: seen == ASLEEP && !before -> woken = true
     :: seen == UNHELD && !before -> event_fd = true
     fi;
     atomic { seen = 0; before = false }
  :: else -> break
  od;
  timeout -> assert(ended == 2 && head == MESSAGES)
}

active proctype Passer() {
  byte round;
  bool ok, mine, gone, attends, some;
  do
  :: round < ROUNDS ->
     round++;
     if  /* try_drain */
     :: holder != NOBODY
     :: else ->
        atomic { if :: holder == NOBODY -> holder = PASSER; ok = true :: else -> ok = false fi };
        if
        :: !ok
        :: else ->
           if
           :: page == UNHELD ->
              if
              :: head == tail ->
                 holder = NOBODY;
                 somebody_waits(some);
                 if :: some -> try_take(PASSER, ok); if :: ok -> leave(PASSER) :: else fi :: else fi;
                 ok = false
              :: else -> skip
              fi
           :: else
           fi;
           if
           :: ok -> moved = true; set_mode(AWAKE); poll(PASSER); leave(PASSER)
           :: else
           fi
        fi
     fi;
     try_take(PASSER, mine);  /* block */
     if :: !mine -> queue_and_take(PASSER); unqueue(PASSER) :: else fi;
     if :: mine -> poll(PASSER); leave(PASSER) :: else fi;
     ok = false; mine = false; some = false
  :: else -> break
  od;
  ended++
}

#ifdef BLOCKER_BLOCKS
active proctype Blocker() {
  bool ok, mine, gone, attends, some;
  do
  :: notified -> if :: mine -> leave(BLOCKER) :: else fi; break
  :: else ->
     if :: !mine -> try_take(BLOCKER, mine) :: else fi;
     if
     :: mine ->  /* hold */
        do
        :: poll(BLOCKER);
           if :: notified -> break :: else fi;
           woken = false;
           on_doorbell = true;
           if
           :: notified
           :: else ->
              set_mode(ASLEEP);
              if :: head == tail -> (woken) :: else fi;
              set_mode(AWAKE)
           fi;
           on_doorbell = false
        od;
        leave(BLOCKER); mine = false
     :: else ->  /* park: woken by who notifies or gives the role */
        queue_and_take(BLOCKER);
        if :: !mine -> (notified || given[BLOCKER]) :: else fi;
        unqueue(BLOCKER)
     fi
  od;
  ended++
}
#else
init { ended++ }
#endif

active proctype Service() {
  bool ticked, attending, held, ok, gone, attends, some;
end:
  do
  :: event_fd || tick ->
     atomic { ticked = tick; tick = false };
     event_fd = false;
     attended = true;
     if
     :: !attending -> attending = true; moved = false; atomic { armed = true; tick = false }
     :: attending && !ticked
     :: attending && ticked ->
        if
        :: moved -> moved = false; atomic { armed = true; tick = false }
        :: else ->
           try_take(SERVICE, ok);
           if
           :: ok -> poll(SERVICE); attending = false; attended = false; leave(SERVICE)
           :: else ->
              attended = false; attending = false;
              held = (holder != NOBODY);
#ifdef WITHOUT_A_LOOK_AT_THE_HOLDER
              held = true;
#endif
              if
              :: !held -> event_fd = true
#ifndef WITHOUT_A_LOOK_AT_THE_DOORBELL
              :: held && page == UNHELD -> event_fd = true
#endif
              :: else
              fi
           fi
        fi
     fi;
     ticked = false; held = false; ok = false
  od
}

active proctype Timer() {
end:
  do
  :: atomic { armed -> armed = false; tick = true }
  od
}
