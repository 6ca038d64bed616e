// The columns of a fragment: a few steps of a batch of environments as they were played, for learners that work out
// targets themselves (IMPALA), and their names as members.
//
//   obs, action      elements of the spaces
//   log_prob         what the policy that played said
//   reward           float32
//   discount         float32: gamma, or 0 after a termination
//   next             int64: the row that shows what came behind it (algorithms/linked_vtrace.h); -1: the row is no
//                    transition, it only shows what came last. Its action is an element of the space and means nothing.
//   mask             what was allowed when it acted; everything where the row only shows what came last. Only where the
//                    environment masks actions
//
// FRG-1  join_fragments() of fragments is one: each `next` points into the part that it came from.
// FRG-2  chains_of() of all parts together are the rows, each once; a row and the one that its `next` names are in one
//        part.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/rl/samples/sample_batch.h"

namespace rl {

/// Which one it is: no two fragments of a run have one runner, incarnation and sequence.
struct FragmentId {
  std::uint32_t runner = 0;
  std::uint32_t incarnation = 0;  // restarts of the runner before it
  std::int64_t sequence = 0;      // fragments that this incarnation gave before it
  std::int64_t version = 0;       // updates before the oldest parameters that it was played by
};

/// Where a runner writes.
struct FragmentOut {
  Rows obs, action;
  std::span<float> log_prob, reward, discount;
  std::span<std::int64_t> next;
  Rows mask = {};  // without rows where there is none
};

/// What an update reads.
struct FragmentView {
  ConstRows obs, action;
  std::span<const float> log_prob, reward, discount;
  std::span<const std::int64_t> next;
  ConstRows mask = {};  // without rows where there is none

  [[nodiscard]] std::size_t rows() const { return reward.size(); }
};

/// `mask_width`: bytes of a row of the mask; 0: there is none.
[[nodiscard]] std::vector<Column> fragment_columns(const Space& observation_space, const Space& action_space,
                                                   std::size_t mask_width = 0);
[[nodiscard]] FragmentOut fragment_out(const SampleLayout& layout, std::byte* memory);
[[nodiscard]] FragmentView fragment_view(const SampleView& samples);
[[nodiscard]] OwnedSamples join_fragments(std::span<const SampleView> parts);
/// Every `parts`-th chain of rows that name each other, from chain number `part` on: what one of several learners works
/// on. May have no rows.
[[nodiscard]] OwnedSamples chains_of(const SampleView& samples, std::size_t part, std::size_t parts);

}  // namespace rl
