// StateDict: all that changes in a part of a training run, as named arrays: what a checkpoint keeps, and nothing that a
// configuration says.
//
// A plain value. Names are paths with slashes ("critic/adam/first_moment").
//
// STD-1  Reading a name that is not there, or is of another type or size than wanted, throws a SerializationError that
//        names it: the checkpoint of another network does not half fit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace rl {

class StateDict {
 public:
  using Values = std::variant<std::vector<float>, std::vector<double>, std::vector<std::int64_t>,
                              std::vector<std::uint64_t>, std::vector<std::uint8_t>>;

  template <class T>
  void put(std::string name, std::vector<T> values) {
    entries_.insert_or_assign(std::move(name), Values(std::move(values)));
  }
  template <class T>
  void put_one(std::string name, T value) {
    put(std::move(name), std::vector<T>{value});
  }
  /// Of any size.
  template <class T>
  [[nodiscard]] const std::vector<T>& get(const std::string& name) const {
    const auto at = entries_.find(name);
    const std::vector<T>* values = at == entries_.end() ? nullptr : std::get_if<std::vector<T>>(&at->second);
    if (values == nullptr) raise_missing(name, at != entries_.end());
    return *values;
  }
  /// Of that size.
  template <class T>
  [[nodiscard]] const std::vector<T>& get(const std::string& name, std::size_t size) const {
    const std::vector<T>& values = get<T>(name);
    if (values.size() != size) raise_size(name, values.size(), size);
    return values;
  }
  template <class T>
  [[nodiscard]] T get_one(const std::string& name) const {
    return get<T>(name, 1).front();
  }
  [[nodiscard]] bool has(const std::string& name) const { return entries_.contains(name); }

  /// All of `other`, each name behind "prefix/".
  void put_all(const std::string& prefix, const StateDict& other);
  /// Those whose names begin with "prefix/", without that.
  [[nodiscard]] StateDict get_all(const std::string& prefix) const;

  [[nodiscard]] const std::map<std::string, Values>& entries() const { return entries_; }
  friend bool operator==(const StateDict&, const StateDict&) = default;

  template <class Archive>
  void serialize(Archive& ar) {
    ar(entries_);
  }

 private:
  [[noreturn]] static void raise_missing(const std::string& name, bool other_type);
  [[noreturn]] static void raise_size(const std::string& name, std::size_t there, std::size_t wanted);

  std::map<std::string, Values> entries_;
};

}  // namespace rl
