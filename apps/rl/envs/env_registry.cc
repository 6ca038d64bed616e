#include "apps/rl/envs/env_registry.h"

#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/common/nearest_name.h"
#include "apps/rl/envs/classic/classic_vector_env.h"
#include "apps/rl/envs/env.h"
#include "apps/rl/envs/gym/gym_env.h"
#include "apps/rl/envs/minatar/minatar_vector_env.h"
#include "apps/rl/envs/wrappers/fault_injector.h"

namespace rl {
namespace {

using Made = troupe::Result<std::unique_ptr<BatchEnv>>;

template <class E>
Made as_batch_env(troupe::Result<std::unique_ptr<E>> made) {
  if (!made.ok()) return made.error_ptr();
  return std::unique_ptr<BatchEnv>(std::move(*made));
}

Made make_own(std::string_view id, const BatchEnvOptions& options) {
  if (!options.kwargs.empty())
    return troupe::InvalidArgumentError(fmt::format("{} takes no arguments, and was given \"{}\"", id,
                                                    std::string_view(options.kwargs.begin()->key())));
  return as_batch_env(ClassicVectorEnv::make(id, options));
}

bool is_prefix(std::string_view name) { return name.ends_with(':'); }

class Registry {
 public:
  Registry() {
    for (std::string_view id : env_ids())
      factories_.emplace(id, [id](std::string_view, const BatchEnvOptions& options) { return make_own(id, options); });
    for (std::string_view id : minatar_env_ids())
      factories_.emplace(id, [id](std::string_view, const BatchEnvOptions& options) {
        return as_batch_env(MinAtarVectorEnv::make(id, options));
      });
    factories_.emplace("gym:", [](std::string_view rest, const BatchEnvOptions& options) {
      return as_batch_env(GymEnv::make(rest, options));
    });
    for (std::string_view prefix : kFaultPrefixes)
      factories_.emplace(prefix, [prefix](std::string_view rest, const BatchEnvOptions& options) {
        return make_faulty(prefix, rest, options);
      });
  }

  troupe::Status add(std::string name, EnvFactory factory) {
    if (name.empty() || !factory) return troupe::InvalidArgumentError("an environment has a name and a factory");
    std::lock_guard lock(mutex_);
    const auto [at, fresh] = factories_.try_emplace(std::move(name), std::move(factory));
    if (!fresh) return troupe::InvalidArgumentError("there is an environment \"" + at->first + "\" already");
    return {};
  }

  /// The factory of the name, or of its prefix, with the rest.
  troupe::Result<std::pair<EnvFactory, std::string_view>> find(std::string_view id) const {
    std::lock_guard lock(mutex_);
    if (auto exact = factories_.find(id); exact != factories_.end())
      return std::pair(exact->second, std::string_view());
    if (const std::size_t colon = id.find(':'); colon != id.npos)
      if (auto prefix = factories_.find(id.substr(0, colon + 1)); prefix != factories_.end())
        return std::pair(prefix->second, id.substr(colon + 1));
    const std::vector<std::string> all = names_locked();
    return troupe::NotFoundError(fmt::format("no environment \"{}\"; is \"{}\" meant? There are {}", id,
                                             apps::nearest_name(id, all), fmt::join(all, ", ")));
  }

  std::vector<std::string> names() const {
    std::lock_guard lock(mutex_);
    return names_locked();
  }

 private:
  std::vector<std::string> names_locked() const {
    std::vector<std::string> all;
    for (const auto& [name, factory] : factories_) all.push_back(name);
    return all;
  }

  mutable std::mutex mutex_;
  std::map<std::string, EnvFactory, std::less<>> factories_;
};

Registry& registry() {
  static Registry one;
  return one;
}

}  // namespace

troupe::Status register_env(std::string name, EnvFactory factory) {
  return registry().add(std::move(name), std::move(factory));
}

Made make_batch_env(std::string_view id, const BatchEnvOptions& options) {
  auto found = registry().find(id);
  if (!found.ok()) return found.error_ptr();
  const auto& [factory, rest] = *found;
  return factory(rest, options);
}

std::vector<std::string> registered_envs() {
  std::vector<std::string> names = registry().names();
  std::erase_if(names, is_prefix);
  return names;
}

std::vector<std::string> registered_prefixes() {
  std::vector<std::string> names = registry().names();
  std::erase_if(names, [](const std::string& name) { return !is_prefix(name); });
  return names;
}

}  // namespace rl
