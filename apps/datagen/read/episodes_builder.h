// Puts steps of episodes together as demonstrations, with a look at their types. One thread at a time; errors are
// thrown.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/datagen/table/schema.h"
#include "apps/rl/samples/demonstrations.h"

namespace datagen {

/// An array of steps.
struct StepArray {
  Type type = Type::kFloat32;
  std::size_t steps = 0, width = 1;
  std::span<const std::byte> bytes = {};
};
struct StepArrays {
  StepArray obs, action, reward, terminated, truncated;
};

class EpisodesBuilder {
 public:
  /// The spaces are JSON, as Gymnasium's or minari's words say them. InvalidArgumentError for others, with `what`: the
  /// file that they are in.
  EpisodesBuilder(const std::string& what, std::string env, const std::string& observation_space,
                  const std::string& action_space);

  /// A file of so many bytes is read: of arrays it may give kDenseMax times as many.
  void allow(std::uint64_t file_bytes);
  /// `what`: for messages. SerializationError when an array is not of its space or has another number of steps, or when
  /// there are more bytes than allow() said, as where many names lead to one array (RDM-3).
  void add(const StepArrays& steps, const std::string& what);
  /// The last step that was added ends an episode, whatever its flags say: the recording ended there.
  void end_episode();
  /// RDM-2.
  [[nodiscard]] rl::Demonstrations finish(const std::string& what);

 private:
  static constexpr std::uint64_t kDenseMax = 1032;  // by which deflate makes bytes less, at best

  std::string env_;
  rl::Space observation_space_, action_space_;
  std::vector<std::byte> obs_, action_;
  std::vector<float> reward_;
  std::uint64_t allowed_ = 0;
  std::vector<std::uint8_t> terminated_, truncated_;
};

/// The environment's name: that in Gymnasium's EnvSpec (JSON), else `env`, which trajectories of ours have; `unknown`
/// where there is neither.
[[nodiscard]] std::string env_id_of(const std::string& env_spec, const std::string& env, const std::string& unknown);

}  // namespace datagen
