#include "core/head/state/actors/actor_names.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace troupe::head {
namespace {

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

}  // namespace

std::string ActorNames::default_name_space(JobId job) const {
  const Job* known = jobs_.find(job);
  return known ? known->name_space : "default";
}

std::optional<ActorId> ActorNames::holder(const ActorName& name) const {
  auto at = holders_.find(name);
  return at == holders_.end() ? std::nullopt : std::optional(at->second);
}

bool ActorNames::take(const ActorName& name, ActorId actor) { return holders_.emplace(name, actor).second; }

ActorNames::Waiting ActorNames::release(const ActorName& name, ActorId actor) {
  auto at = holders_.find(name);
  if (at == holders_.end() || at->second != actor) return {};
  holders_.erase(at);
  auto waiting = waiting_.extract(name);
  return waiting ? std::move(waiting.mapped()) : Waiting{};
}

void ActorNames::await(Caller caller, wire::ActorSpec creation) {
  const ActorName name{creation.name_space, creation.name};
  waiting_[name].creations.emplace_back(caller, std::move(creation));
}

void ActorNames::await(Caller caller, wire::NamedActor look_up) {
  const ActorName name{look_up.name_space, look_up.name};
  waiting_.at(name).look_ups.emplace_back(caller, std::move(look_up));
}

bool ActorNames::waits(ActorId actor) const {
  auto is_its = [actor](const Creation& creation) { return creation.second.id == actor; };
  return std::any_of(waiting_.begin(), waiting_.end(), [&](const auto& entry) {
    const std::vector<Creation>& creations = entry.second.creations;
    return std::any_of(creations.begin(), creations.end(), is_its);
  });
}

ActorNames::Waiting ActorNames::withdraw(ActorId actor) {
  Waiting withdrawn;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    std::vector<Creation>& creations = at->second.creations;
    auto own = std::stable_partition(creations.begin(), creations.end(),
                                     [actor](const Creation& creation) { return creation.second.id != actor; });
    std::move(own, creations.end(), std::back_inserter(withdrawn.creations));
    creations.erase(own, creations.end());
    if (!creations.empty()) {
      ++at;
      continue;
    }
    std::move(at->second.look_ups.begin(), at->second.look_ups.end(), std::back_inserter(withdrawn.look_ups));
    at = waiting_.erase(at);  // AN-3
  }
  return withdrawn;
}

void ActorNames::forget_look_ups(const std::function<bool(ProcessId)>& of) {
  for (auto& [name, waiting] : waiting_)
    std::erase_if(waiting.look_ups, [&](const LookUp& asked) { return of(asked.first.process); });
}

std::size_t ActorNames::waiting_look_ups() const {
  std::size_t count = 0;
  for (const auto& [name, waiting] : waiting_) count += waiting.look_ups.size();
  return count;
}

std::optional<ErrorRecord> ActorNames::refusal(const wire::ActorSpec& creation, const wire::ActorSpec& holder) const {
  if (!creation.get_if_exists) {
    return error_record(ErrorCode::kInvalidArgument,
                        "an actor named " + quoted(creation.name) + " exists already in namespace " +
                            quoted(creation.name_space) + " (class " + holder.class_name + ", job " +
                            std::to_string(holder.job) + "); set get_if_exists to use it");
  }
  if (holder.class_name != creation.class_name) {
    return error_record(ErrorCode::kInvalidArgument, "the actor named " + quoted(creation.name) + " is a " +
                                                         holder.class_name + ", not a " + creation.class_name);
  }
  return other_build(jobs_.find(creation.job), holder);
}

std::optional<ErrorRecord> ActorNames::other_build(const Job* asker, const wire::ActorSpec& holder) const {
  const Job* made = jobs_.find(holder.job);
  if (!asker || !made || asker->registry_digest == made->registry_digest) return std::nullopt;
  return error_record(
      ErrorCode::kUnauthenticated,
      "the actor named " + quoted(holder.name) + " (" + holder.class_name + ") belongs to job " +
          std::to_string(made->id) + ", whose program has other registered functions (digest " +
          made->registry_digest.substr(0, 16) + ") than this one (digest " + asker->registry_digest.substr(0, 16) +
          "): run the same build of the program, or use a namespace of your own");
}

}  // namespace troupe::head
