#include "apps/rl/ppo/actors.h"

#include <algorithm>
#include <utility>

namespace rl {

namespace {

RolloutOptions in_this_life(RolloutOptions options) {
  options.life = static_cast<std::uint32_t>(troupe::runtime_context().attempt);
  return options;
}

}  // namespace

RolloutActor::RolloutActor(const RolloutOptions& options) : worker_(in_this_life(options)) {}

std::tuple<BatchMessage, std::vector<EpisodeEnd>> RolloutActor::collect(troupe::Array<float> params) {
  const std::size_t n = worker_.samples();
  troupe::ArrayBuilder<float> obs({n, worker_.obs_size()});
  troupe::ArrayBuilder<std::int32_t> action(n);
  troupe::ArrayBuilder<float> log_prob(n), value(n), advantage(n), returns(n);
  std::vector<EpisodeEnd> episodes = worker_.collect(params.span(), {.obs = obs.span(),
                                                                     .action = action.span(),
                                                                     .log_prob = log_prob.span(),
                                                                     .value = value.span(),
                                                                     .advantage = advantage.span(),
                                                                     .returns = returns.span()});
  return {BatchMessage{.obs = std::move(obs).seal(),
                       .action = std::move(action).seal(),
                       .log_prob = std::move(log_prob).seal(),
                       .value = std::move(value).seal(),
                       .advantage = std::move(advantage).seal(),
                       .returns = std::move(returns).seal()},
          std::move(episodes)};
}

LearnerActor::LearnerActor(LearnerOptions options, std::optional<LearnerState> resumed) : learner_(options) {
  if (resumed) learner_.restore(std::move(*resumed));
}

ParamsRef LearnerActor::publish() const {
  const std::span<const float> params = learner_.params();
  troupe::ArrayBuilder<float> builder(params.size());
  std::copy(params.begin(), params.end(), builder.begin());
  return troupe::put(std::move(builder).seal());
}

UpdateReply LearnerActor::update(std::vector<troupe::ObjectRef<BatchMessage>> batches) {
  const std::vector<BatchMessage> messages = troupe::get(batches);
  std::vector<BatchView> views;
  for (const BatchMessage& message : messages) views.push_back(message.view());
  const UpdateStats stats = learner_.update(views);
  return {.params = publish(), .stats = stats};
}

}  // namespace rl
