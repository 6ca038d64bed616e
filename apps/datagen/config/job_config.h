// JobConfig: everything that decides the bytes of a data set, and nothing else.
//
//   {"format":{"libraries":{},"name":"jsonl","settings":{...},"version":1},"generator":{"identity":{},"name":...,
//    "settings":{...},"version":1},"glibc":"2.36","isa":"avx2","plan":{"samples":10000,"samples_per_shard":1000},
//    "seed":7,"version":1}      and "libm":"0123456789abcdef" where isa is "reference"
//
// Plain value; any thread.
//
// JBC-1  canonical() is the same text for the same configuration, whoever made it: keys are sorted, nothing is between
//        them. hash() is its SHA-256.
// JBC-2  job_from(canonical()) gives the same configuration; other text is an InvalidArgumentError.
// JBC-3  differences() names every place where two configurations are not the same: "seed: was 7, now 8".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json.hpp>

#include <troupe/result.h>

#include "apps/datagen/config/libm_numbers.h"
#include "apps/datagen/config/plan.h"
#include "apps/datagen/files/sha256.h"
#include "kernels/cpu/isa/isa.h"

namespace datagen {

/// Goes up when the engine itself makes other bytes of the same configuration.
inline constexpr std::int64_t kJobVersion = 1;

struct JobPart {
  std::string name = {};
  std::int64_t version = 1;
  boost::json::object settings = {};
  boost::json::object more = {};  ///< identity of a generator, libraries of a format
  friend bool operator==(const JobPart&, const JobPart&) = default;
};

struct JobConfig {
  JobPart generator = {}, format = {};
  std::uint64_t seed = 0;
  Plan plan = {};
  troupe::kernels::Isa isa = troupe::kernels::Isa::kReference;
  std::string glibc = {};  ///< its mathematical functions are in what is generated
  std::string libm = {};   ///< what they give: where the ISA, as the portable one, does not say which are chosen
  friend bool operator==(const JobConfig&, const JobConfig&) = default;

  [[nodiscard]] boost::json::object to_json() const;
  [[nodiscard]] std::string canonical() const;
  [[nodiscard]] Digest hash() const;
};

[[nodiscard]] troupe::Result<JobConfig> job_from(std::string_view canonical);
[[nodiscard]] std::vector<std::string> differences(const JobConfig& was, const JobConfig& now);

/// Keys sorted, all the way down.
[[nodiscard]] std::string canonical_text(const boost::json::value& value);

/// Of the C library that this process has.
[[nodiscard]] std::string glibc_version();
/// What of a machine decides bytes.
struct Machine {
  troupe::kernels::Isa isa = troupe::kernels::best_isa();  ///< it has this one and all before it
  std::string glibc = glibc_version();
  std::string libm = libm_numbers();
};
/// This machine, or what count_as() said.
[[nodiscard]] const Machine& this_machine();
/// This process counts as that machine, which has no more than the real one: how tests have clusters of unlike ones. In
/// main, which worker processes run too, before there is another thread.
void count_as(Machine machine);

/// "auto", "avx512", "avx2", "portable" (and "reference", its other name). InvalidArgumentError: another word, or one
/// that this machine cannot run.
[[nodiscard]] troupe::Result<troupe::kernels::Isa> isa_of(std::string_view word);
/// RuntimeEnvError, with what to do: the machine cannot make what `config` asks for (its ISA, its glibc and what that
/// gives).
[[nodiscard]] troupe::Status check_machine(const JobConfig& config, const Machine& machine = this_machine());

}  // namespace datagen
