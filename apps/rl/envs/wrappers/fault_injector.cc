#include "apps/rl/envs/wrappers/fault_injector.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "apps/rl/envs/sync_vector_env.h"

namespace rl {
namespace {

namespace json = boost::json;

constexpr int kExitCode = 70;
constexpr std::uint32_t kStream = 0xFA17;  // of an environment's seed: draws that it does not make itself

/// A number of the arguments, which is taken out of them.
troupe::Result<double> take_number(json::object& kwargs, std::string_view name, double otherwise) {
  const json::value* found = kwargs.if_contains(name);
  if (!found) return otherwise;
  boost::system::error_code wrong;
  const double number = found->to_number<double>(wrong);
  if (wrong) return troupe::InvalidArgumentError(fmt::format("\"{}\" is a number, not {}", name,
                                                             json::serialize(*found)));
  kwargs.erase(name);
  return number;
}

double* rate_of(FaultRates& rates, std::string_view prefix) {
  if (prefix == "throw:") return &rates.threw;
  if (prefix == "exit:") return &rates.exited;
  return &rates.stalled;
}

bool is_ours(std::string_view id) {
  const std::vector<std::string_view> ids = env_ids();
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

troupe::Result<std::unique_ptr<BatchEnv>> make_inner(std::string_view id, const BatchEnvOptions& options) {
  if (!is_ours(id) || !options.kwargs.empty()) return make_batch_env(id, options);
  auto made = SyncVectorEnv::make(id, options);
  if (!made.ok()) return made.error_ptr();
  return std::unique_ptr<BatchEnv>(std::move(*made));
}

troupe::Status check_rates(const FaultRates& rates) {
  for (double rate : {rates.threw, rates.exited, rates.stalled, rates.threw + rates.exited + rates.stalled})
    if (!(rate >= 0 && rate <= 1))
      return troupe::InvalidArgumentError(fmt::format("a step faults with probability {}: of 0 to 1 in all", rate));
  if (rates.stall < std::chrono::milliseconds(0))
    return troupe::InvalidArgumentError("a stall takes no negative time");
  return {};
}

}  // namespace

std::string_view name_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::kThrew: return "threw";
    case FaultKind::kExited: return "exited";
    case FaultKind::kStalled: return "stalled";
  }
  return "";
}

FaultDeeds real_faults() {
  return {.exit = [] { ::_exit(kExitCode); },
          .stall = [](std::chrono::milliseconds time) { ::poll(nullptr, 0, static_cast<int>(time.count())); }};
}

troupe::Result<std::unique_ptr<FaultInjector>> FaultInjector::make(std::unique_ptr<BatchEnv> inner,
                                                                   const FaultRates& rates, FaultDeeds deeds) {
  if (troupe::Status sound = check_rates(rates); !sound.ok()) return sound.error_ptr();
  return std::unique_ptr<FaultInjector>(new FaultInjector(std::move(inner), rates, std::move(deeds)));
}

FaultInjector::FaultInjector(std::unique_ptr<BatchEnv> inner, const FaultRates& rates, FaultDeeds deeds)
    : EnvWrapper(std::move(inner)),
      rates_(rates),
      deeds_(std::move(deeds)),
      draws_(size(), Generator(0)),
      episodes_(size()),
      obs_(specs().observation_space, size()),
      final_obs_(specs().observation_space, size()) {}

void FaultInjector::reset(std::span<const std::uint64_t> seeds) {
  inner().reset(seeds);
  for (std::size_t i = 0; i < size(); ++i) draws_[i] = Generator(SeedSequence(seeds[i]).child(kStream));  // FIN-1
  std::fill(episodes_.begin(), episodes_.end(), Sum{});
  faults_.clear(), ended_.clear(), returns_.clear(), lengths_.clear();
}

void FaultInjector::step(ConstRows actions, const StepOut& out) {
  std::vector<std::uint32_t> threw;
  for (std::size_t i = 0; i < size(); ++i) {
    const double draw = draws_[i].random();
    if (draw < rates_.threw) threw.push_back(static_cast<std::uint32_t>(i));
    else if (draw < rates_.threw + rates_.exited) deeds_.exit();
    else if (draw < rates_.threw + rates_.exited + rates_.stalled) deeds_.stall(rates_.stall);
  }
  inner().step(actions, out);
  faults_.assign(inner().faults().begin(), inner().faults().end());
  const EpisodeEnds ends = inner().ends();
  ended_.assign(ends.env.begin(), ends.env.end());
  returns_.assign(ends.returns.begin(), ends.returns.end());
  lengths_.assign(ends.lengths.begin(), ends.lengths.end());
  if (ends.final_obs.rows() > 0)
    std::memcpy(final_obs_.view().data(), ends.final_obs.data(), ends.final_obs.bytes());
  final_mask_.assign(ends.final_mask.begin(), ends.final_mask.end());
  for (std::uint32_t env : threw)
    if (out.is_reset[env] == 0) take_back(env, out);
  for (std::size_t i = 0; i < size(); ++i) {
    episodes_[i].rewards += out.reward[i];
    ++episodes_[i].steps;
    if (out.is_reset[i] != 0) episodes_[i] = {};
  }
  for (std::uint32_t env : ended_) episodes_[env] = {};
  std::sort(faults_.begin(), faults_.end(), [](const Fault& a, const Fault& b) { return a.env < b.env; });
}

/// FIN-2
void FaultInjector::take_back(std::size_t env, const StepOut& out) {
  faults_.push_back({.env = static_cast<std::uint32_t>(env),
                     .kind = FaultKind::kThrew,
                     .partial_return = episodes_[env].rewards,
                     .length = episodes_[env].steps,
                     .what = "a fault on purpose"});
  drop_end(env);
  inner().reset_one(env);
  inner().observe(obs_.view());
  const std::size_t bytes = obs_.view().row_bytes();
  std::memcpy(out.obs.row(env).data(), obs_.view().row(env).data(), bytes);
  out.reward[env] = 0;
  out.terminated[env] = out.truncated[env] = 0;
  out.is_reset[env] = 1;
}

void FaultInjector::drop_end(std::size_t env) {
  const auto at = std::find(ended_.begin(), ended_.end(), env);
  if (at == ended_.end()) return;
  const std::ptrdiff_t index = at - ended_.begin();
  const auto row = static_cast<std::size_t>(index);
  const std::size_t bytes = final_obs_.view().row_bytes();
  std::byte* rows = final_obs_.view().data();
  std::memmove(rows + row * bytes, rows + (row + 1) * bytes, (ended_.size() - row - 1) * bytes);
  const auto width = static_cast<std::ptrdiff_t>(final_mask_.size() / ended_.size());
  const auto mask = final_mask_.begin() + index * width;
  final_mask_.erase(mask, mask + width);
  ended_.erase(at);
  returns_.erase(returns_.begin() + index);
  lengths_.erase(lengths_.begin() + index);
}

EpisodeEnds FaultInjector::ends() const {
  const std::size_t kept = inner().ends().final_obs.rows() > 0 ? ended_.size() : 0;
  return {ended_, returns_, lengths_, final_obs_.view().slice(0, kept), final_mask_};
}

troupe::Result<std::unique_ptr<BatchEnv>> make_faulty(std::string_view prefix, std::string_view rest,
                                                      const BatchEnvOptions& options) {
  BatchEnvOptions inside = options;
  auto p = take_number(inside.kwargs, "p", 0.001);
  if (!p.ok()) return p.error_ptr();
  auto seconds = take_number(inside.kwargs, "seconds", 1);
  if (!seconds.ok()) return seconds.error_ptr();
  if (!(*seconds >= 0 && *seconds <= 86'400))
    return troupe::InvalidArgumentError(fmt::format("a stall of {} seconds: 0 to 86,400 are possible", *seconds));
  FaultRates rates{.stall = std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000))};
  *rate_of(rates, prefix) = *p;
  for (bool more = true; std::exchange(more, false);)
    for (std::string_view next : kFaultPrefixes)
      if (rest.starts_with(next)) {
        rest.remove_prefix(next.size());
        *rate_of(rates, next) = *p;
        more = true;
      }
  if (troupe::Status sound = check_rates(rates); !sound.ok()) return sound.error_ptr();
  if (options.leave_out_faults) return make_batch_env(rest, inside);
  if (rest.starts_with("gym:")) {
    inside.faults = rates;
    return make_batch_env(rest, inside);
  }
  auto inner = make_inner(rest, inside);
  if (!inner.ok()) return inner.error_ptr();
  auto made = FaultInjector::make(std::move(*inner), rates);
  if (!made.ok()) return made.error_ptr();
  return std::unique_ptr<BatchEnv>(std::move(*made));
}

}  // namespace rl
