#include "apps/train/checkpoint/commit.h"

#include <algorithm>
#include <utility>

namespace troupe::train {

namespace {

/// Who has this commit, by new rank, as old ranks; -1: has it not.
std::vector<std::int64_t> holders_of(std::span<const RankHeader> headers, const CommitName& name) {
  std::vector<std::int64_t> holders(headers.size(), -1);
  for (std::size_t r = 0; r < headers.size(); ++r)
    for (const CommitHeader& generation : headers[r].generations)
      if (generation.complete != 0 && generation.name() == name) holders[r] = generation.rank;
  return holders;
}

std::optional<CommitChoice> cover(std::span<const RankHeader> headers, const CommitHeader& commit, Zero zero) {
  const std::vector<std::int64_t> holders = holders_of(headers, commit.name());
  const auto holder_of = [&](std::int64_t old_rank) {
    const auto found = std::ranges::find(holders, old_rank);
    return found == holders.end() ? -1 : int(found - holders.begin());
  };
  CommitChoice choice{.name = commit.name(), .ranks = int(commit.ranks), .shards = {}};
  choice.parameters = int(std::ranges::find_if(holders, [](std::int64_t rank) { return rank >= 0; }) - holders.begin());
  choice.all_have_it = std::ranges::all_of(holders, [](std::int64_t rank) { return rank >= 0; });
  for (std::int64_t old_rank = 0; zero == Zero::k1 && old_rank < commit.ranks; ++old_rank) {
    const int itself = holder_of(old_rank), partner = holder_of((old_rank + 1) % commit.ranks);
    if (itself < 0 && partner < 0) return std::nullopt;
    choice.shards.push_back(itself >= 0 ? itself : partner);
  }
  return choice;
}

}  // namespace

std::optional<CommitChoice> choose_commit(std::span<const RankHeader> headers, Zero zero) {
  std::vector<CommitHeader> commits;
  for (const RankHeader& rank : headers)
    for (const CommitHeader& generation : rank.generations)
      if (generation.complete != 0) commits.push_back(generation);
  std::ranges::sort(commits, std::greater(), &CommitHeader::name);
  for (const CommitHeader& commit : commits)
    if (auto choice = cover(headers, commit, zero)) return choice;
  return std::nullopt;
}

template <class T>
RankHeader Commits<T>::header(bool trained) const {
  RankHeader header{.trained = trained ? 1 : 0};
  for (std::size_t i = 0; i < kGenerations; ++i) header.generations[i] = generations_[i].header;
  return header;
}

template <class T>
auto Commits<T>::find(const CommitName& name) const -> const Generation* {
  for (const Generation& generation : generations_)
    if (generation.header.complete != 0 && generation.header.name() == name) return &generation;
  return nullptr;
}

std::vector<int> checkpoint_readers(std::span<const RankHeader> headers) {
  std::vector<int> readers;
  for (std::size_t r = 0; r < headers.size(); ++r) {
    const bool known = std::ranges::any_of(
        readers, [&](int reader) { return headers[std::size_t(reader)].on_disk == headers[r].on_disk; });
    if (headers[r].on_disk >= 0 && !known) readers.push_back(int(r));
  }
  std::ranges::stable_sort(readers, std::ranges::greater(),
                           [&](int reader) { return headers[std::size_t(reader)].on_disk; });
  return readers;
}

template <class T>
void Commits<T>::commit(Trainer<T>& trainer) {
  collective::Group& g = trainer.group();
  const auto age = [](const Generation& generation) {
    return generation.header.complete != 0 ? generation.header.name() : CommitName{};
  };
  Generation& generation = age(generations_[0]) <= age(generations_[1]) ? generations_[0] : generations_[1];  // CO-2
  trainer.tell(Event::kCommitBegins);
  generation.header = {.complete = 0,
                       .step = trainer.steps_done(),
                       .epoch = std::int64_t(g.epoch()),
                       .ranks = g.size(),
                       .rank = g.rank()};
  generation.parameters.assign(trainer.parameters().begin(), trainer.parameters().end());
  for (std::size_t which = 0; which < Trainer<T>::kMoments; ++which)
    generation.own[which].assign(trainer.moments(which).begin(), trainer.moments(which).end());
  generation.watch = trainer.watch().state();
  trainer.tell(Event::kCommitCopied);
  if (trainer.plan().sharded() && g.size() > 1) exchange(trainer, generation);
  generation.header.complete = 1;
  trainer.tell(Event::kCommitEnds);
}

template <class T>
void Commits<T>::exchange(Trainer<T>& trainer, Generation& generation) {
  collective::Group& g = trainer.group();
  const int next = (g.rank() + 1) % g.size(), previous = (g.rank() + g.size() - 1) % g.size();
  std::vector<collective::Work> works;
  for (std::size_t which = 0; which < Trainer<T>::kMoments; ++which) {
    generation.partner[which].resize(generation.own[which].size());
    if (generation.own[which].empty()) continue;
    works.push_back(g.send_async(std::span<const T>(generation.own[which]), next, int(which)));
    works.push_back(g.recv_async(std::span<T>(generation.partner[which]), previous, int(which)));
  }
  trainer.tell(Event::kCommitSent);
  for (collective::Work& work : works) work.wait();
}

template <class T>
void Commits<T>::restore(Trainer<T>& trainer, const CommitChoice& choice) {
  collective::Group& g = trainer.group();
  const Generation* mine = find(choice.name);
  if (mine != nullptr) std::ranges::copy(mine->parameters, trainer.mutable_parameters().begin());
  if (!choice.all_have_it) g.broadcast(trainer.mutable_parameters(), choice.parameters);
  DivergenceWatch::State watch = mine != nullptr ? mine->watch : DivergenceWatch::State{};
  std::array<double, 2> averages{watch.average, watch.best};
  std::array<std::int64_t, 2> numbers{watch.seen, watch.above};
  g.broadcast(averages, choice.parameters);
  g.broadcast(numbers, choice.parameters);
  restore_moments(trainer, choice, mine);
  for (Generation& generation :
       generations_)  // what was passed over can never become whole again, and must not pass for newer
    if (generation.header.name() > choice.name) generation.header.complete = 0;
  trainer.restored(choice.name.step,
                   {.average = averages[0], .best = averages[1], .seen = numbers[0], .above = numbers[1]});
}

template <class T>
void Commits<T>::restore_moments(Trainer<T>& trainer, const CommitChoice& choice, const Generation* mine) {
  collective::Group& g = trainer.group();
  ShardSetting old = trainer.plan().setting();
  old.ranks = choice.ranks;
  std::vector<T> values;
  const auto pass = [&](std::size_t which, std::size_t flat_begin, std::size_t size, int from, const T* held) {
    values.resize(size);
    if (g.rank() == from) std::copy_n(held, size, values.begin());
    g.broadcast(values, from);
    trainer.install_moments(which, flat_begin, values);
  };
  for (std::size_t which = 0; which < Trainer<T>::kMoments; ++which) {
    if (trainer.moments(which).empty()) continue;
    if (!trainer.plan().sharded()) {
      if (mine != nullptr) std::ranges::copy(mine->own[which], trainer.moments(which).begin());
      if (!choice.all_have_it) g.broadcast(trainer.moments(which), choice.parameters);
      continue;
    }
    for (int q = 0; q < choice.ranks; ++q) {
      old.rank = q;
      const ShardPlan plan(old);  // ZP-2
      const int from = choice.shards[std::size_t(q)];
      const std::vector<T>* held = nullptr;
      if (g.rank() == from) held = mine->header.rank == q ? &mine->own[which] : &mine->partner[which];
      for (std::size_t b = 0; b < plan.buckets().buckets.size(); ++b)
        pass(which, plan.part(b).begin, plan.part(b).size(), from,
             held != nullptr ? held->data() + plan.compact_begin(b) : nullptr);
    }
  }
}

template class Commits<float>;
template class Commits<double>;

}  // namespace troupe::train
