// TransferPlan: from whom one remote buffer is drawn, and what follows when that fails. Pure: events in, actions out.
//
//    begin --> ask the origin --offered--> draw from it --ok-----------------------------------> finish(ok)
//                 |  no answer, no link, dead      | reset, damaged, stalled
//                 v                                v
//              ask all others, who may have a copy; draw from the next that offers one; the origin again, if it lives
//
// Every holder is asked to keep the buffer while it is drawn (Ask), and told when it need not any more (Release): also
// one that never answered, for its answer may be on its way.
//
// Assumptions: bytes that came damaged or half say nothing about the bytes that are still there, so a transfer that
// failed is begun again, from another holder where there is one. Only two answers are final: the origin's own "it is no
// longer there", and the origin's death when nobody else has a copy. A holder that is stopped costs the patience with
// one question or one stall, not the deadline.
//
// Invariants
//   TP-1  finish comes once, after it nothing; every Ask is followed by one Release at the latest then.
//   TP-2  At most one Draw at a time.
//   TP-3  A holder is drawn from kTriesMax times at most; the origin is asked kRoundsMax times at most.
//
// Thread rule: one thread at a time.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <variant>
#include <vector>

#include <troupe/result.h>

namespace troupe::node {

class TransferPlan {
 public:
  struct Ask { std::uint32_t node = 0; };
  struct Draw { std::uint32_t node = 0; };
  struct Release { std::uint32_t node = 0; };
  struct Finish { Status status; };
  using Action = std::variant<Ask, Draw, Release, Finish>;
  using Actions = std::vector<Action>;

  static constexpr int kTriesMax = 3, kRoundsMax = 30;

  explicit TransferPlan(std::uint32_t origin) : origin_(origin) {}

  Actions begin();
  /// The answer to Ask: that node keeps the buffer for us, or why not. `others`: who may be asked besides.
  Actions answered(std::uint32_t node, const Status& status, const std::vector<std::uint32_t>& others);
  /// The end of Draw.
  Actions drawn(const Status& status, const std::vector<std::uint32_t>& others);
  /// No more time.
  Actions late();

 private:
  void ask(std::uint32_t node, Actions& out);
  void draw(std::uint32_t node, Actions& out);
  void release(std::uint32_t node, Actions& out);
  void ask_others(const std::vector<std::uint32_t>& others, Actions& out);
  void go_on(Actions& out);
  void finish(Status status, Actions& out);

  const std::uint32_t origin_;
  bool finished_ = false, origin_gone_ = false, others_asked_ = false;
  int rounds_ = 0;
  std::uint32_t drawing_from_ = 0;         ///< 0: from nobody
  std::set<std::uint32_t> asked_, held_;   ///< without an answer yet; keeps the buffer for us
  std::map<std::uint32_t, int> failures_;  ///< of drawing, by holder
  ErrorPtr last_error_;
};

}  // namespace troupe::node
