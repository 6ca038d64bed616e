// Peers: the learners that share the updates of one run. All hold the same parameters and see the same batches; each
// works on its own part of the rows of a minibatch, and what the parts give is summed.
//
//   rows of a minibatch ──▶ part(0) ─▶ gradients ─┐
//                     └───▶ part(1) ─▶ gradients ─┴─▶ sum() ─▶ clip and step, the same on all
//
// A value; who learns alone has a default one, whose sums do nothing. One thread at a time.
//
// PEER-1  All peers call sum() in the same order with equally many numbers, and get the same bits.
// PEER-2  The parts of all ranks are in the order of their ranks, cover all rows, and differ by one row at most. A part
//         may be empty.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace rl {

/// How sums come about: a collective group between actors, a barrier between the threads of a test.
class Reducer {
 public:
  virtual ~Reducer() = default;
  /// In place. Throws what went wrong, on all peers; none can be used any more then.
  virtual void sum(std::span<float> numbers) = 0;
  virtual void sum(std::span<double> numbers) = 0;
};

class Peers {
 public:
  struct Part {
    std::size_t begin = 0, size = 0;
  };

  Peers() = default;
  Peers(std::size_t rank, std::size_t size, std::shared_ptr<Reducer> reducer)
      : rank_(rank), size_(size), reducer_(std::move(reducer)) {}

  [[nodiscard]] std::size_t rank() const { return rank_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool alone() const { return size_ == 1; }
  /// PEER-2
  [[nodiscard]] Part part(std::size_t rows) const {
    const std::size_t least = rows / size_, longer = rows % size_;
    return {.begin = rank_ * least + (rank_ < longer ? rank_ : longer), .size = least + (rank_ < longer ? 1 : 0)};
  }
  void sum(std::span<float> numbers) const {
    if (!alone()) reducer_->sum(numbers);
  }
  void sum(std::span<double> numbers) const {
    if (!alone()) reducer_->sum(numbers);
  }

 private:
  std::size_t rank_ = 0, size_ = 1;
  std::shared_ptr<Reducer> reducer_;
};

}  // namespace rl
