// Keeper: the one request for which a node keeps what becomes free, because no single lease's end would do. Pure.
//
//   nobody --keep_for--> kept for it --its window is over: vacant--> nobody, it rests for as long as that was
//                          `--stop, progressed, forget--> nobody
//
// A window is `first` long, then twice the one before, up to `most`; `first` again once the request had a place. So one
// that tasks keep out for good costs them half of the time at most.
//
// Thread rule: one thread at a time. Time is given with each call.
//
// Invariants
//   KEP-1  It keeps for one request at a time.
//   KEP-2  A request whose window ended without a place rests for as long as the window was.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include "core/base/clock.h"

namespace troupe::sched {

class Keeper {
 public:
  using Request = std::uint64_t;
  struct Options {
    Duration first{}, most{};
  };
  explicit Keeper(Options options) : options_(options) {}

  std::optional<Request> request() const { return kept_ ? std::optional(kept_->request) : std::nullopt; }
  bool keeps_for(Request request) const { return kept_ && kept_->request == request; }

  /// Whether another's turn may begin; the window that is over ends.
  bool vacant(TimePoint now) {
    if (!kept_) return true;
    if (now < kept_->until) return false;
    Windows& turns = turns_[kept_->request];
    turns.rests_until = now + turns.window;
    kept_.reset();
    return true;
  }
  bool rests(Request request, TimePoint now) const {
    const auto it = turns_.find(request);
    return it != turns_.end() && now < it->second.rests_until;
  }
  /// Only when vacant.
  void keep_for(Request request, TimePoint now) {
    Windows& turns = turns_[request];
    turns.window = turns.window == Duration::zero() ? options_.first : std::min(2 * turns.window, options_.most);
    kept_ = Kept{request, now + turns.window};
  }

  /// It needs nothing here any more, for now.
  void stop(Request request) {
    if (keeps_for(request)) kept_.reset();
  }
  /// It had a place.
  void progressed(Request request) {
    stop(request);
    if (const auto it = turns_.find(request); it != turns_.end()) it->second.window = {};
  }
  void forget(Request request) {
    stop(request);
    turns_.erase(request);
  }

 private:
  struct Kept { Request request = 0; TimePoint until{}; };
  struct Windows { Duration window{}; TimePoint rests_until{}; };

  Options options_;
  std::optional<Kept> kept_;
  std::map<Request, Windows> turns_;
};

}  // namespace troupe::sched
