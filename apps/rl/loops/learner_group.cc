#include "apps/rl/loops/learner_group.h"

#include <random>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include <troupe/collective.h>

namespace rl {
namespace {

/// Several runs may share a cluster.
std::string group_name() {
  std::random_device random;
  return fmt::format("rl-learners-{:08x}{:08x}", random(), random());
}

}  // namespace

LearnerGroup::LearnerGroup(const RunConfig& config, const AnyPolicySpec& policy,
                           const std::optional<StateDict>& resumed) {
  for (std::size_t rank = 0; rank < config.num_learners; ++rank)
    learners_.push_back(troupe::actor<LearnerActor>.options(learner_options(config)).remote(config, policy, resumed));
}

void LearnerGroup::form() {
  if (formed_ || learners_.size() == 1) return;
  const std::string name = group_name();
  troupe::collective::create_group(learners_, {.name = name});
  for (auto& learner : learners_) (void)learner.call<&LearnerActor::join>(name);  // in order, before any update
  formed_ = true;
}

troupe::ObjectRef<ParamsRef> LearnerGroup::publish() {
  form();
  return learners_.front().call<&LearnerActor::publish>();
}
troupe::ObjectRef<StateDict> LearnerGroup::save() { return learners_.front().call<&LearnerActor::save>(); }

void LearnerGroup::check_formed() const {
  if (learners_.size() > 1 && !formed_) throw std::logic_error("LearnerGroup: update before publish");  // LGR-3
}

troupe::ObjectRef<UpdateReply> LearnerGroup::update(const std::vector<troupe::ObjectRef<SampleBatch>>& batches) {
  check_formed();
  for (std::size_t rank = 1; rank < learners_.size(); ++rank)
    (void)learners_[rank].call<&LearnerActor::follow>(batches);  // what goes wrong there, rank 0 hears of
  return learners_.front().call<&LearnerActor::update>(batches);
}

std::tuple<ParamsRef, troupe::ObjectRef<UpdatesReply>> LearnerGroup::update_each(
    const std::vector<troupe::ObjectRef<DrawnBatches>>& shards) {
  check_formed();
  for (std::size_t rank = 1; rank < learners_.size(); ++rank)
    (void)learners_[rank].call<&LearnerActor::follow_each>(shards);
  return learners_.front().call<&LearnerActor::update_each>(shards);
}

}  // namespace rl
