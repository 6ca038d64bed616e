// The bytes between a GymEnv and the Python process that steps its environments (gym_host.py, which has the same
// numbers): version 2.
//
//   descriptor   in the child
//   0, 1, 2      /dev/null; a pipe whose end is kept for messages
//   3            the shared memory, a memfd; it has its size before the layout is sent, and never another one
//   4, 5         pipes: to the child, from the child
//   6            a pipe that nobody writes to: its end is that of the parent
//   7            the text of the program
//
// First frames, each four bytes of length (little-endian) and as much JSON in UTF-8:
//
//   parent  setup   {"version": 2, "env": ..., "num_envs": k, "auto_reset": "same_step", "env_kwargs": {...},
//                    "max_episode_steps": n or null, "import": "...", "working_folder": true or false,
//                    "faults": {"threw": p, ..., "stall_ms": n}}
//   child   hello   {"protocol": "troupe-gym", "version": 2, "observation_space": {...}, "action_space": {...},
//                    "spec": {"id": ..., "max_episode_steps": n or null, "reward_threshold": x or null},
//                    "env_spec": what Gymnasium's EnvSpec.to_json gives, a text; or null, or absent,
//                    "versions": {"python": ..., "gymnasium": ..., "numpy": ...}, "lives": true or false,
//                    "fires": true or false, or absent}
//           or      {"protocol": "troupe-gym", "version": 2, "error": {"kind": "...", "message": "..."}}
//   parent  layout  {"bytes": n, "offsets": {"seeds": n, ...}}
//
// then a command each: the parent writes header and arrays and rings (one byte), the child carries it out, writes its
// results, sets `answered` to `asked` and rings back. Only one side writes at a time.
//
//   array           type             written by  what
//   seeds           uint64[k]        parent      of kResetAll
//   spare_seeds     uint64[k]        parent      of an environment that has to be made anew
//   actions         [k][...]         parent      the action space's rows
//   reward          float64[k]       child
//   terminated,     uint8[k] each    child       is_reset: as BE-3; threw: it threw, was made anew and reset; its
//   truncated,                                   reason is in `reasons`
//   is_reset, threw
//   ended           uint32[k]        child       the first num_ended: who ended in this step, ascending
//   obs             [k][...]         child       the observation space's rows, as they are now
//   final_obs       [k][...]         child       kSameStep: the last observations of those in `ended`, in its order
//   lives           int32[k]          child       how many are left; 0 where hello says that there are none
//   reasons         uint8[k][256]    child       UTF-8, ends with a zero
//
// Each array begins at a multiple of 64. Plain functions and a mapping; one thread at a time.
//
//   HMM-1  A layout that would be larger than kBytesMost is an InvalidArgumentError that says how large.
//   HMM-2  The memory cannot be made smaller or larger by anybody (seals): reading it never ends this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <boost/json.hpp>

#include <troupe/result.h>

#include "apps/rl/envs/gym/owned_fd.h"
#include "apps/rl/spaces/rows.h"
#include "apps/rl/spaces/space.h"

namespace rl {

inline constexpr std::uint32_t kHostProtocolVersion = 2;
inline constexpr std::string_view kHostProtocolName = "troupe-gym";
inline constexpr std::size_t kReasonBytes = 256;

enum class HostCommand : std::uint32_t { kNone = 0, kResetAll = 1, kResetOne = 2, kStep = 3 };

struct HostHeader {
  static constexpr std::uint32_t kMagic = 0x4d594754;  // "TGYM"

  std::uint32_t magic, version;
  HostCommand command;
  std::uint32_t env;               // of kResetOne
  std::uint64_t asked, answered;   // the command's number
  std::uint32_t num_ended;
  std::uint32_t reserved[7];
};
static_assert(sizeof(HostHeader) == 64 && offsetof(HostHeader, asked) == 16 && offsetof(HostHeader, num_ended) == 32);

/// Where each array begins.
struct HostLayout {
  static constexpr std::size_t kBytesMost = std::size_t{1} << 32;

  std::size_t num_envs = 0;
  std::size_t seeds, spare_seeds, actions, reward, terminated, truncated, is_reset, threw, ended, obs, final_obs,
      lives, reasons, bytes;

  static troupe::Result<HostLayout> of(const Space& observation, const Space& action, std::size_t num_envs);
  [[nodiscard]] boost::json::object to_json() const;
};

/// A mapped memfd of a layout.
class HostMemory {
 public:
  HostMemory() = default;
  /// One without bytes: for the start of the process, which tells how many.
  static troupe::Result<HostMemory> create();
  /// Once.
  troupe::Status grow(const HostLayout& layout, const Space& observation, const Space& action);

  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&& other) noexcept;
  ~HostMemory();

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] HostHeader& header() { return *reinterpret_cast<HostHeader*>(base_); }
  [[nodiscard]] const HostLayout& layout() const { return layout_; }
  template <class T>
  [[nodiscard]] std::span<T> array(std::size_t offset) const {
    return {reinterpret_cast<T*>(base_ + offset), layout_.num_envs};
  }
  [[nodiscard]] Rows actions() const { return rows(layout_.actions, action_type_, action_width_); }
  [[nodiscard]] Rows obs() const { return rows(layout_.obs, obs_type_, obs_width_); }
  [[nodiscard]] Rows final_obs() const { return rows(layout_.final_obs, obs_type_, obs_width_); }
  [[nodiscard]] std::string_view reason(std::size_t env) const;

 private:
  explicit HostMemory(OwnedFd fd) : fd_(std::move(fd)) {}
  [[nodiscard]] Rows rows(std::size_t offset, DType type, std::size_t width) const {
    return {type, layout_.num_envs, width, base_ + offset};
  }

  OwnedFd fd_;
  std::byte* base_ = nullptr;
  HostLayout layout_{};
  DType obs_type_ = DType::kFloat32, action_type_ = DType::kInt64;
  std::size_t obs_width_ = 0, action_width_ = 0;
};

}  // namespace rl
