// TransferPlan: from whom one remote buffer is drawn, and what follows when that fails. Pure: events in, actions out.
//
//    begin --> ask the origin --offered--> draw from it --ok-----------------------------------> finish(ok)
//                 ^  |  no answer, no link, dead   | reset, damaged, stalled
//                 |  v                             v
//                 |  ask all others, who may have a copy; draw from each that offers one
//                 |  |  none of them gave it
//                 `--pause              the origin is dead, and nobody offers a copy any more --> finish(its death)
//
// One way through this is a round. Once the origin is known to be dead, a round begins with the others.
//
// Every holder is asked to keep the buffer while it is drawn (Ask), and told when it need not any more (Release): also
// one that never answered, for its answer may be on its way.
//
// Assumptions: bytes that came damaged or half say nothing about the bytes that are still there, and a data port that
// is not reached says nothing about the node behind it: the port may be full, or we out of descriptors, for a moment.
// So a transfer that failed is begun again, from another holder where there is one. Only two answers are final: the
// origin's own "it is no longer there", and the origin's death when nobody else has a copy. A holder that is stopped
// costs the patience with one question or one stall, not the deadline.
//
// Invariants
//   TP-1  finish comes once, after it nothing; every Ask is followed by one Release at the latest then.
//   TP-2  At most one Draw at a time.
//   TP-3  A holder is asked, and drawn from, once a round at most. Between two rounds nobody is asked for kPauseMin,
//         then for twice as long each time, up to kPauseMax; the deadline (late) alone ends a row of rounds that fail.
//   TP-4  The error of a draw never ends a transfer: it fails by one of the two final answers, or by the deadline, as
//         DeadlineExceededError. For readers take NodeDiedError as the loss of the buffer (core/owner/buffers.h, OB-3).
//   TP-5  Once the origin is known to be dead, who keeps a copy for us keeps it until the end, or until it dies itself:
//         it may be the last one, and would go with its last pin (store_service.h, SV-4).
//
// Thread rule: one thread at a time.
#pragma once
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <troupe/duration.h>
#include <troupe/result.h>

namespace troupe::node {

class TransferPlan {
 public:
  struct Ask { std::uint32_t node = 0; };
  struct Draw { std::uint32_t node = 0; };
  struct Release { std::uint32_t node = 0; };
  struct Pause { Duration span{}; };
  struct Finish { Status status; };
  using Action = std::variant<Ask, Draw, Release, Pause, Finish>;
  using Actions = std::vector<Action>;

  /// The shortest gives a port time to take what had come at once; the longest is little beside the deadline of any
  /// transfer, and lets nodes that wait for one port ask it no more than once a second each.
  static constexpr Duration kPauseMin = std::chrono::milliseconds(50), kPauseMax = std::chrono::seconds(1);

  explicit TransferPlan(std::uint32_t origin) : origin_(origin) {}

  Actions begin();
  /// The answer to Ask: that node keeps the buffer for us, or why not; GetTimeoutError: it did not say. `others`: who
  /// may be asked besides.
  Actions answered(std::uint32_t node, const Status& status, const std::vector<std::uint32_t>& others);
  /// The end of Draw. `others` here and below: those who live, and so all who were ever asked and are not dead.
  Actions drawn(const Status& status, const std::vector<std::uint32_t>& others);
  /// The end of Pause.
  Actions resumed(const std::vector<std::uint32_t>& others);
  /// No more time.
  Actions late();

 private:
  void ask(std::uint32_t node, Actions& out);
  void draw(std::uint32_t node, Actions& out);
  void release(std::uint32_t node, Actions& out);
  void drop_dead(const std::vector<std::uint32_t>& others, Actions& out);
  void ask_others(const std::vector<std::uint32_t>& others, Actions& out);
  void go_on(Actions& out);
  void finish(Status status, Actions& out);

  const std::uint32_t origin_;
  bool finished_ = false, others_asked_ = false, pausing_ = false;
  Duration pause_ = kPauseMin;             ///< the next one
  std::uint32_t drawing_from_ = 0;         ///< 0: from nobody
  std::set<std::uint32_t> asked_, held_;   ///< without an answer yet; keeps the buffer for us
  std::set<std::uint32_t> offered_;        ///< kept it for us once, and has not said since that it has it no more
  std::set<std::uint32_t> failed_;         ///< of held_: was drawn from in this round, in vain (TP-5)
  ErrorPtr origin_death_;
  int vain_draws_ = 0;
  std::string last_failure_;               ///< what came last of an attempt, for the error at the deadline
};

}  // namespace troupe::node
