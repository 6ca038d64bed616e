#include "apps/datagen/config/job.h"

#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/common/named_program.h"
#include "apps/common/settings/setting.h"
#include "apps/datagen/formats/format_registry.h"
#include "apps/datagen/generators/generator_registry.h"

namespace datagen {
namespace {

namespace json = boost::json;

/// A generator or a format, with settings.
template <class Options> struct Chosen {
  std::unique_ptr<Options> options;
  JobPart part;
};

template <class Options, class Kind>
troupe::Result<Chosen<Options>> choose(const Kind& kind, const json::object& settings) {
  Chosen<Options> out{.options = kind.options(), .part = {.name = kind.name, .version = kind.version}};
  const std::vector<apps::Setting> list = out.options->settings();
  if (troupe::Status status = apps::assign_all(list, settings); !status.ok())
    return troupe::InvalidArgumentError(fmt::format("{}: {}", kind.name, status.error().message()));
  out.part.settings = apps::to_json(list);
  return out;
}

troupe::Result<Chosen<GeneratorOptions>> choose_generator(const std::string& name, const json::object& settings) {
  const auto kind = find_generator(name);
  if (!kind.ok()) return kind.error_ptr();
  auto out = choose<GeneratorOptions>(*kind, settings);
  if (!out.ok()) return out.error_ptr();
  auto identity = out->options->identity();
  if (!identity.ok()) return identity.error_ptr();
  out->part.more = *std::move(identity);
  return out;
}

troupe::Result<Chosen<FormatOptions>> choose_format(const std::string& name, const json::object& settings) {
  const auto kind = find_format(name);
  if (!kind.ok()) return kind.error_ptr();
  auto out = choose<FormatOptions>(*kind, settings);
  if (!out.ok()) return out.error_ptr();
  const auto libraries = out->options->libraries();
  if (!libraries.ok()) return libraries.error_ptr();
  for (const auto& [library, version] : *libraries) out->part.more[library] = version;
  return out;
}

/// JSON, which the configuration is kept as, has no place for other text: nobody could read it again.
troupe::Status check_text(const JobConfig& config) {
  for (const JobPart* part : {&config.generator, &config.format})
    for (const auto& setting : part->settings) {
      boost::system::error_code failed;
      (void)json::parse(json::serialize(setting.value()), failed);
      if (!failed) continue;
      return troupe::InvalidArgumentError(fmt::format("{}: the setting {} is no UTF-8 text", part->name,
                                                      std::string_view(setting.key())));
    }
  return {};
}

}  // namespace

troupe::Result<JobConfig> configure(const JobChoices& choices) {
  const auto generator = choose_generator(choices.generator, choices.generator_settings);
  if (!generator.ok()) return generator.error_ptr();
  const auto format = choose_format(choices.format, choices.format_settings);
  if (!format.ok()) return format.error_ptr();
  const auto isa = isa_of(choices.isa);
  if (!isa.ok()) return isa.error_ptr();
  JobConfig out{.generator = generator->part,
                .format = format->part,
                .seed = choices.seed,
                .plan = {.samples = choices.samples, .samples_per_shard = choices.samples_per_shard},
                .isa = *isa,
                .glibc = this_machine().glibc,
                .libm = *isa == troupe::kernels::Isa::kReference ? this_machine().libm : ""};
  if (out.plan.samples_per_shard == 0)
    out.plan.samples_per_shard = find_generator(choices.generator)->samples_per_shard;
  if (troupe::Status plan = out.plan.check(); !plan.ok()) return plan.error_ptr();
  if (troupe::Status text = check_text(out); !text.ok()) return text.error_ptr();
  return out;
}

troupe::Result<JobConfig> configure_again(const JobConfig& config) {
  const auto generator = choose_generator(config.generator.name, config.generator.settings);
  if (!generator.ok()) return generator.error_ptr();
  const auto format = choose_format(config.format.name, config.format.settings);
  if (!format.ok()) return format.error_ptr();
  JobConfig out = config;
  out.generator = generator->part;
  out.format = format->part;
  return out;
}

troupe::Status check_programs(const JobConfig& config) {
  const auto kind = find_generator(config.generator.name);
  if (!kind.ok()) return kind.error_ptr();
  const auto chosen = choose<GeneratorOptions>(*kind, config.generator.settings);
  if (!chosen.ok()) return chosen.error_ptr();
  for (const apps::Setting& setting : chosen->options->settings()) {
    if (!setting.program) continue;
    const std::string remedy = fmt::format("It is the setting {} of the data set: if it is trusted, let it and its "
                                           "folders be your own", setting.name);
    if (troupe::Status trusted = apps::check_named_program(apps::text_of(setting), remedy); !trusted.ok())
      return trusted;
  }
  return {};
}

troupe::Result<Job> Job::make(const JobConfig& config) {
  Job out;
  const auto generator_kind = find_generator(config.generator.name);
  if (!generator_kind.ok()) return generator_kind.error_ptr();
  auto generator = choose<GeneratorOptions>(*generator_kind, config.generator.settings);
  if (!generator.ok()) return generator.error_ptr();
  auto format = choose_format(config.format.name, config.format.settings);
  if (!format.ok()) return format.error_ptr();
  out.config_ = config;
  // The identity of the generator is the driver's to find out, once: a file of a policy may be large.
  out.config_.generator = generator->part;
  out.config_.generator.more = config.generator.more;
  out.config_.format = format->part;
  if (const auto changed = differences(config, out.config_); !changed.empty())
    return troupe::InvalidArgumentError(
        fmt::format("this program would make other bytes than the data set has: {}", fmt::join(changed, "; ")));
  out.generator_ = std::move(generator->options);
  out.format_ = std::move(format->options);
  return out;
}

}  // namespace datagen
