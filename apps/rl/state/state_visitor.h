// StateVisitor: saves and restores a part by one function of that part, which names its members one after the other, so
// that the two cannot differ.
//
//   bool visit(StateVisitor& v) { v.one("steps", steps_), v.numbers("returns", returns_); return true; }
//
// A part that cannot be saved (an environment in another process) returns false, and so does what holds it.
//
// One thread at a time.
//
// STV-1  restore_state changes nothing unless each name is there, of its type, size and range: else SerializationError,
//        thrown. A state comes from a file, which may be anybody's: what is a place in memory, or what a loop counts
//        to, is visited with its range.
// STV-2  restore_state(save_state(part)) changes nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <troupe/error.h>

#include "apps/rl/algorithms/rng.h"
#include "apps/rl/spaces/rows.h"
#include "apps/rl/state/state_dict.h"

namespace rl {

class StateVisitor {
 public:
  enum class Mode { kSave, kCheck, kRestore };

  /// Of kSave.
  explicit StateVisitor(StateDict& to) : mode_(Mode::kSave), to_(&to) {}
  StateVisitor(Mode mode, const StateDict& from) : mode_(mode), from_(&from) {}

  /// Names behind "prefix/".
  [[nodiscard]] StateVisitor inside(const std::string& prefix) const {
    StateVisitor out = *this;
    out.prefix_ += prefix + "/";
    return out;
  }

  /// Its size stays.
  template <class T>
  void numbers(const std::string& name, std::span<T> values) {
    using Kept = KeptAs<T>;
    if (mode_ == Mode::kSave) return to_->put(prefix_ + name, std::vector<Kept>(values.begin(), values.end()));
    const std::vector<Kept>& read = from_->get<Kept>(prefix_ + name, values.size());
    if (mode_ != Mode::kRestore) return;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(read[i]);
  }
  template <class T>
  void numbers(const std::string& name, std::vector<T>& values) {
    numbers(name, std::span<T>(values));
  }
  /// Each from `least` to `most`.
  template <class T>
  void numbers_within(const std::string& name, std::span<T> values, T least, T most) {
    using Kept = KeptAs<T>;
    if (mode_ != Mode::kSave)
      for (const Kept one : from_->get<Kept>(prefix_ + name, values.size()))
        if (!(one >= static_cast<Kept>(least) && one <= static_cast<Kept>(most)))
          troupe::SerializationError(fmt::format("{}{} of the state is {}: from {} to {} is possible", prefix_, name,
                                                 one, static_cast<Kept>(least), static_cast<Kept>(most)))
              .raise();
    numbers(name, values);
  }
  template <class T>
  void one_within(const std::string& name, T& value, T least, T most) {
    numbers_within(name, std::span(&value, 1), least, most);
  }
  /// A number, a truth value, or one of an enumeration.
  template <class T>
  void one(const std::string& name, T& value) {
    if constexpr (std::is_enum_v<T>) {
      auto number = static_cast<std::underlying_type_t<T>>(value);
      numbers(name, std::span(&number, 1));
      value = static_cast<T>(number);
    } else {
      numbers(name, std::span(&value, 1));
    }
  }
  void bytes(const std::string& name, Rows rows) {
    numbers(name, std::span(reinterpret_cast<std::uint8_t*>(rows.data()), rows.bytes()));
  }
  void generator(const std::string& name, Generator& generator) {
    Generator::Saved saved = generator.save();
    numbers(name, std::span<std::uint64_t>(saved));
    if (mode_ == Mode::kRestore) generator.restore(saved);
  }
  /// Whose state it is: SerializationError for another one's.
  void is(const std::string& name, std::string_view whose) {
    if (mode_ == Mode::kSave) return to_->put(prefix_ + name, std::vector<std::uint8_t>(whose.begin(), whose.end()));
    const std::vector<std::uint8_t>& read = from_->get<std::uint8_t>(prefix_ + name);
    if (!std::equal(read.begin(), read.end(), whose.begin(), whose.end()))
      troupe::SerializationError("the state of " + std::string(read.begin(), read.end()) + " is not one of " +
                                 std::string(whose))
          .raise();
  }
  /// A part that has save() and restore() of its own, and can be copied.
  template <class Part>
  void part(const std::string& name, Part& part) {
    if (mode_ == Mode::kSave) return to_->put_all(prefix_ + name, part.save());
    Part tried = part;  // STV-1
    tried.restore(from_->get_all(prefix_ + name));
    if (mode_ == Mode::kRestore) part = std::move(tried);
  }
  [[nodiscard]] Mode mode() const { return mode_; }
  /// Whether there is such a name in what is read, for what states of old do not have; where one is made: yes.
  [[nodiscard]] bool has(const std::string& name) const {
    return mode_ == Mode::kSave || from_->has(prefix_ + name);
  }

 private:
  template <class T>
  using KeptAs = std::conditional_t<
      std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, std::uint8_t> ||
          std::is_same_v<T, std::uint64_t>,
      T, std::int64_t>;

  Mode mode_;
  StateDict* to_ = nullptr;
  const StateDict* from_ = nullptr;
  std::string prefix_;
};

/// None: it cannot be saved.
template <class Part>
[[nodiscard]] std::optional<StateDict> save_state(Part& part) {
  StateDict out;
  StateVisitor visitor(out);
  if (!part.visit(visitor)) return std::nullopt;
  return out;
}
/// STV-1. False: it cannot be restored.
template <class Part>
bool restore_state(Part& part, const StateDict& state) {
  StateVisitor check(StateVisitor::Mode::kCheck, state);
  if (!part.visit(check)) return false;
  StateVisitor restore(StateVisitor::Mode::kRestore, state);
  return part.visit(restore);
}

}  // namespace rl
