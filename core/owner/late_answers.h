// LateAnswers: values that were asked for, by readers that do not take what they asked for before. Pure.
//
//   answered at once --frames for the reader that wait in this process > ReplyRoom::kHigh--> late
//   late --they are < ReplyRoom::kLow--> answered, in the order of the questions, until it is late again
//
// The value stays in its entry meanwhile, of which there is one for all readers; an answer is a copy for each.
//
// Thread rule: lock held.
//
// Invariants
//   LAN-1  Of what was asked for at most kHigh and one value wait for a reader as frames.
//   LAN-2  A question is remembered once an object and reader, and keeps its object; it goes with its reader.
//   LAN-3  Nobody else waits for that.
#pragma once
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <deque>
#include <utility>

#include "core/owner/objects.h"
#include "core/runtime/reply_room.h"

namespace troupe::worker {

class LateAnswers {
 public:
  bool any() const { return room_.any() || !questions_.empty(); }
  bool is_late(ProcessId reader) const { return any() && (room_.is_held(reader) || questions_.contains(reader)); }
  /// An answer went out, and so much for the reader waits in this process now. True: it is late from now on.
  bool answered(ProcessId reader, std::size_t backlog) { return room_.waits(reader, backlog); }
  void add(ProcessId reader, ObjectEntryPtr object) {
    Questions& questions = questions_[reader];
    if (questions.known.insert(object->id).second) questions.waiting.push_back(std::move(object));
  }

  /// Answers whoever takes again. `backlog` says what waits for a reader; `answer` sends, and tells answered().
  template <class Backlog, class Answer>
  void look(const Backlog& backlog, const Answer& answer) {
    for (ProcessId reader : room_.look(backlog)) {
      auto found = questions_.find(reader);
      while (found != questions_.end() && !room_.is_held(reader)) {
        Questions& questions = found->second;
        const ObjectEntryPtr object = std::move(questions.waiting.front());
        questions.waiting.pop_front();
        questions.known.erase(object->id);
        answer(reader, *object);
        if (questions.waiting.empty()) {
          questions_.erase(found);
          break;
        }
      }
    }
  }
  template <class Pred> void drop_if(const Pred& dead) {
    boost::unordered::erase_if(questions_, [&](const auto& one) { return dead(one.first); });
  }

 private:
  struct Questions {
    std::deque<ObjectEntryPtr> waiting;
    boost::unordered_flat_set<ObjectId, IdHash> known;
  };

  ReplyRoom room_;
  boost::unordered_flat_map<ProcessId, Questions, IdHash> questions_;
};

}  // namespace troupe::worker
