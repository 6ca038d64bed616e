// ActorLife: where one actor lives, as its callers hear of it: from the head, from the notices of processes and nodes
// that died, from the actor's own last answers. Pure: it decides, its ActorClient acts.
//
//             created, resolved          kActorMoved(alive)
//   CREATING ----------------> LOCATING ------------------> ALIVE --kActorMoved(restarting)--> RESTARTING --> ALIVE ...
//      | arguments failed, name taken |                       |                                    |
//      +------------------------------+-----------------------+---------- kActorMoved(dead) -------+--> DEAD
//
// A process that dies leaves the calls that were sent to it as *suspects*: with what it had begun they wait for the
// head's word (restarting or dead), which decides between sending again and failing.
//
// Invariants
//   CAC-7  The head's word does not decide on calls before it is known what the old process had begun: it waits for
//          that process's death notice, of a light actor, whose process lives on, for the answers to what was sent.
// Thread rule: lock held.
#pragma once
#include <utility>

#include "core/wire/messages.h"
#include <troupe/result.h>

namespace troupe::worker {

class ActorLife {
 public:
  enum class State : std::uint8_t { kCreating, kLocating, kAlive, kRestarting, kDead };

  /// What the head's word asks of the calls that are open.
  enum class Next { kNothing, kFlush, kResend, kDie };

  /// What the client knows besides, when the head's word comes.
  struct Known {
    bool answers_due = false;  // calls are in the process that it leaves
    bool old_is_dead = false;  // its death notice has come
    bool new_is_dead = false;  // that of the process which the word names
    bool light = false;
  };

  State state() const { return state_; }
  bool dead() const { return state_ == State::kDead; }
  /// Calls can be sent to process() now.
  bool reachable() const { return state_ == State::kAlive && !process_dead_ && !awaits_death_; }
  ProcessId process() const { return process_; }
  /// process() is dead; the head's word is awaited.
  bool process_dead() const { return process_dead_; }
  /// The head's word waits for what process() had begun. (CAC-7)
  bool awaits_death() const { return awaits_death_; }
  /// Where it lives by now, with awaits_death; none: not known.
  ProcessId next_process() const { return next_process_; }
  bool ever_alive() const { return ever_alive_; }
  /// A light actor that was made in its host without the head: it has one life.
  bool direct() const { return direct_; }
  /// What calls to a dead actor fail with.
  const ErrorPtr& death() const { return death_; }
  /// Why its last incarnation died.
  const ErrorPtr& last_death() const { return last_death_; }

  // ---- its beginning
  void creating() { state_ = State::kCreating; }
  void created() {
    if (state_ == State::kCreating) state_ = State::kLocating;
  }
  void make_direct() { direct_ = true; }
  void placed(ProcessId host) {
    process_ = host;
    state_ = State::kAlive;
  }
  void constructed() { ever_alive_ = true; }

  // ---- its changes
  /// Before heard(): whether that word must wait (CAC-7). From then on awaits_death.
  bool must_wait(const wire::ActorLocation& word, const Known& now);
  Next heard(const wire::ActorLocation& word, const Known& now);
  /// process() is dead. True: the head's word was waiting for that, and is to be followed now.
  bool lost_process(ErrorPtr why);
  /// Enough is known: the head's word waits no more. False when it did not.
  bool stop_waiting() { return std::exchange(awaits_death_, false); }
  /// The client moves on to next_process(), if there is one; `is_dead`: that one's death notice has come.
  void follow(bool is_dead);
  /// Its process answers no more.
  void process_is_over() { process_dead_ = true; }
  void end(const ErrorPtr& why) {
    state_ = State::kDead;
    death_ = why;
  }

 private:
  State state_ = State::kLocating;
  bool process_dead_ = false;
  bool awaits_death_ = false;
  bool ever_alive_ = false;
  bool direct_ = false;
  ProcessId process_;
  ProcessId next_process_;
  ErrorPtr death_;
  ErrorPtr last_death_;
};

}  // namespace troupe::worker
