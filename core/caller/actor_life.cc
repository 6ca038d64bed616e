#include "core/caller/actor_life.h"

namespace troupe::worker {

bool ActorLife::must_wait(const wire::ActorLocation& word, const Known& now) {
  const bool stays = word.state == wire::ActorState::kAlive && word.process == process_;
  const bool answers_come = now.answers_due && !process_dead_ && !now.old_is_dead;
  const bool light_end = now.light && word.state == wire::ActorState::kDead;
  if (state_ != State::kAlive || stays || !answers_come || word.state == wire::ActorState::kAlive || light_end)
    return false;
  awaits_death_ = true;
  return true;
}

ActorLife::Next ActorLife::heard(const wire::ActorLocation& word, const Known& now) {
  if (word.error) last_death_ = Error::make(*word.error);
  switch (word.state) {
    case wire::ActorState::kPending: state_ = State::kLocating; return Next::kNothing;
    case wire::ActorState::kRestarting:
      state_ = State::kRestarting;
      return awaits_death_ ? Next::kNothing : Next::kResend;
    case wire::ActorState::kAlive: {
      state_ = State::kAlive;
      ever_alive_ = true;
      if (awaits_death_) {
        next_process_ = word.process;  // taken when the old one's death notice has come
        return Next::kFlush;
      }
      const bool elsewhere = std::exchange(process_, word.process) != word.process;
      process_dead_ = now.new_is_dead;
      return elsewhere ? Next::kResend : Next::kFlush;
    }
    case wire::ActorState::kDead: return Next::kDie;
  }
  return Next::kNothing;
}

bool ActorLife::lost_process(ErrorPtr why) {
  last_death_ = std::move(why);
  if (stop_waiting()) return true;
  process_dead_ = true;
  return false;
}

void ActorLife::follow(bool is_dead) {
  if (next_process_ == ProcessId{}) return;
  process_ = std::exchange(next_process_, ProcessId{});
  process_dead_ = is_dead;
}

}  // namespace troupe::worker
