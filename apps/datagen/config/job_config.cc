#include "apps/datagen/config/job_config.h"

#include <gnu/libc-version.h>

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "apps/common/nearest_name.h"
#include "apps/common/precise_json.h"

namespace datagen {
namespace {

namespace json = boost::json;
namespace kernels = troupe::kernels;

json::value sorted(const json::value& value) {
  if (const json::object* object = value.if_object()) {
    std::map<std::string_view, const json::value*> members;
    for (const auto& member : *object) members[member.key()] = &member.value();
    json::object out;
    for (const auto& [key, member] : members) out[key] = sorted(*member);
    return out;
  }
  if (const json::array* array = value.if_array()) {
    json::array out;
    for (const json::value& element : *array) out.push_back(sorted(element));
    return out;
  }
  // One number, one text: 7 is the same from a parser, which prefers signed numbers, as from a setting.
  if (value.is_uint64() && value.get_uint64() <= static_cast<std::uint64_t>(INT64_MAX))
    return static_cast<std::int64_t>(value.get_uint64());
  return value;
}

json::object part_json(const JobPart& part, const char* more) {
  return {{"name", part.name}, {"version", part.version}, {"settings", part.settings}, {more, part.more}};
}

JobPart part_from(const json::value& value, const char* more) {
  const json::object& object = value.as_object();
  return {.name = std::string(object.at("name").as_string()),
          .version = object.at("version").to_number<std::int64_t>(),
          .settings = object.at("settings").as_object(),
          .more = object.at(more).as_object()};
}

/// "generator.settings.rate" -> "0.5".
void flatten(const std::string& name, const json::value& value, std::map<std::string, std::string>& out) {
  const json::object* object = value.if_object();
  if (object == nullptr) {
    out[name] = canonical_text(value);
    return;
  }
  for (const auto& member : *object)
    flatten((name.empty() ? "" : name + ".") + std::string(member.key()), member.value(), out);
}

Machine& counted_as() {
  static Machine machine;
  return machine;
}

}  // namespace

std::string canonical_text(const json::value& value) { return json::serialize(sorted(value)); }

json::object JobConfig::to_json() const {
  json::object out{{"version", kJobVersion},
                   {"generator", part_json(generator, "identity")},
                   {"format", part_json(format, "libraries")},
                   {"seed", seed},
                   {"plan", {{"samples", plan.samples}, {"samples_per_shard", plan.samples_per_shard}}},
                   {"isa", std::string(kernels::isa_name(isa))},
                   {"glibc", glibc}};
  if (!libm.empty()) out["libm"] = libm;  // data sets begun before it was kept have none
  return out;
}

std::string JobConfig::canonical() const { return canonical_text(to_json()); }

Digest JobConfig::hash() const { return sha256(canonical()); }

troupe::Result<JobConfig> job_from(std::string_view canonical) {
  try {
    const json::value value = apps::parse_json(canonical);
    const json::object& object = value.as_object();
    if (const auto version = object.at("version").to_number<std::int64_t>(); version > kJobVersion)
      return troupe::InvalidArgumentError(
          fmt::format("the configuration is of a newer version, {}; this program knows version {}: use the program "
                      "that made the data set, or a newer one", version, kJobVersion));
    JobConfig out{.generator = part_from(object.at("generator"), "identity"),
                  .format = part_from(object.at("format"), "libraries"),
                  .seed = object.at("seed").to_number<std::uint64_t>(),
                  .plan = {.samples = object.at("plan").at("samples").to_number<std::uint64_t>(),
                           .samples_per_shard = object.at("plan").at("samples_per_shard").to_number<std::uint64_t>()},
                  .isa = kernels::Isa::kReference,
                  .glibc = std::string(object.at("glibc").as_string())};
    const std::string_view isa = object.at("isa").as_string();
    const auto at = std::ranges::find(kernels::kAllIsas, isa, kernels::isa_name);
    if (at == kernels::kAllIsas.end())
      return troupe::InvalidArgumentError(fmt::format("no configuration of a data set: its isa is {}", isa));
    out.isa = *at;
    if (const json::value* libm = object.if_contains("libm")) out.libm = std::string(libm->as_string());
    if (troupe::Status plan = out.plan.check(); !plan.ok()) return plan.error_ptr();
    return out;
  } catch (const std::exception& error) {
    return troupe::InvalidArgumentError(fmt::format("no configuration of a data set: {}", error.what()));
  }
}

std::vector<std::string> differences(const JobConfig& was, const JobConfig& now) {
  std::map<std::string, std::string> before, after;
  flatten("", was.to_json(), before);
  flatten("", now.to_json(), after);
  std::vector<std::string> out;
  for (const auto& [name, value] : before) {
    const auto at = after.find(name);
    if (at == after.end()) out.push_back(fmt::format("{}: was {}, now nothing", name, value));
    else if (at->second != value) out.push_back(fmt::format("{}: was {}, now {}", name, value, at->second));
  }
  for (const auto& [name, value] : after)
    if (!before.contains(name)) out.push_back(fmt::format("{}: was nothing, now {}", name, value));
  return out;
}

troupe::Result<kernels::Isa> isa_of(std::string_view word) {
  if (word == "auto") return this_machine().isa;
  if (word == "portable") return kernels::Isa::kReference;
  const auto at = std::ranges::find(kernels::kAllIsas, word, kernels::isa_name);
  if (at == kernels::kAllIsas.end()) {
    const std::vector<std::string> words{"auto", "avx512", "avx2", "portable"};
    return troupe::InvalidArgumentError(fmt::format("there is no --isa {}: did you mean {}? There are auto, avx512, "
                                                    "avx2 and portable", word, apps::nearest_name(word, words)));
  }
  if (*at > this_machine().isa)
    return troupe::InvalidArgumentError(fmt::format("this machine has no {}: use --isa auto, or --isa portable for "
                                                    "the same bytes on every machine", word));
  return *at;
}

std::string glibc_version() { return ::gnu_get_libc_version(); }

const Machine& this_machine() { return counted_as(); }

void count_as(Machine machine) { counted_as() = std::move(machine); }

troupe::Status check_machine(const JobConfig& config, const Machine& machine) {
  if (config.isa > machine.isa)
    return troupe::RuntimeEnvError(
        fmt::format("the data set is made with {}, which this machine does not have: its numbers would be others. "
                    "Leave this machine out, or begin the data set anew with --isa portable",
                    kernels::isa_name(config.isa)));
  if (config.glibc != machine.glibc)
    return troupe::RuntimeEnvError(
        fmt::format("the data set is made with glibc {}, this machine has {}: its mathematical functions may give "
                    "other numbers. Use machines with the same one, or begin the data set anew", config.glibc,
                    machine.glibc));
  if (!config.libm.empty() && config.libm != machine.libm)
    return troupe::RuntimeEnvError(
        fmt::format("the data set is made where glibc's mathematical functions give {}, on this machine they give {}: "
                    "glibc chooses them by the processor (FMA, AVX2). Use machines with the same ones, or begin the "
                    "data set anew", config.libm, machine.libm));
  return {};
}

}  // namespace datagen
