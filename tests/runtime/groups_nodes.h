// What the programs about groups on several nodes share: actors that are ranks, on nodes of choice, and what they say.
//
// Thread rule: the driver's thread; methods of Rank on the actor's.
#pragma once
#include <dirent.h>

#include <numeric>

#include <troupe/collective.h>
#include <troupe/testing.h>

#include "check.h"

namespace rt {

namespace tc = troupe::collective;
using troupe::ActorHandle, troupe::ObjectRef, troupe::get;
using namespace std::chrono_literals;

/// What an operation threw, as plain data.
struct Said {
  std::string reason, text;
  std::vector<int> missing;
  std::uint64_t epoch = 0;
  bool ok() const { return reason.empty(); }
};
template <class Code> Said what_it_says(Code&& code) {
  try {
    code();
  } catch (const troupe::CollectiveError& e) {
    return {tc::reason_name(e.reason()), e.what(), e.missing_ranks(), e.epoch()};
  } catch (const troupe::Error& e) {
    return {troupe::error_name(e.code()), e.what(), {}, 0};
  }
  return {};
}

struct Facts {
  int rank = -1, size = 0, backend = -1;
  std::uint64_t epoch = 0;
  bool operator==(const Facts&) const = default;
};

template <class T> T element(int rank, std::size_t i) { return T(1 + (rank * 7 + int(i) * 3) % 5); }
template <class T> std::vector<T> input(int rank, std::size_t n) {
  std::vector<T> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = element<T>(rank, i);
  return v;
}

class Rank {
 public:
  Facts facts(std::string name) {
    const tc::Group g = tc::group(name);
    return {g.rank(), g.size(), int(g.backend()), g.epoch()};
  }
  std::string operations(std::string name, std::size_t n);
  std::string parts(std::string name);

  double sum(std::string name, int n, std::uint64_t after = 0) {
    tc::Group g = tc::group(name, {.after_epoch = after});
    std::vector<float> v(std::size_t(n), float(g.rank() + 1));
    g.all_reduce(std::span(v));
    return std::accumulate(v.begin(), v.end(), 0.0) / n;
  }
  /// Comes to an operation, and says what it threw. `started` counts those that are about to enter it.
  Said waits(std::string name, std::string started) {
    return what_it_says([&] {
      tc::Group g = tc::group(name);
      bump(started);
      std::vector<float> v(1000, 1.f);
      g.all_reduce(std::span(v));
    });
  }
  /// Reduces until something is thrown. `started` counts those that have all come, `started`.member those that have
  /// taken the group of that moment.
  Said works(std::string name, std::string started) {
    return what_it_says([&] {
      tc::Group g = tc::group(name);
      bump(started + ".member");
      g.barrier();
      bump(started);
      // the daemons want a core, too
      for (std::vector<float> v(1 << 16, 1.f);; troupe::sleep_for(1ms)) g.all_reduce(std::span(v), tc::Op::kMax);
    });
  }
  Said mismatch(std::string name) {
    return what_it_says([&] {
      tc::Group g = tc::group(name);
      std::vector<float> v(g.rank() == 0 ? 100 : 200);
      g.all_reduce(std::span(v));
    });
  }
  /// Rank 2 comes to something else than the others: another type, operation or root, or another count.
  Said disagrees(std::string name, int how) {
    return what_it_says([&] {
      tc::Group g = tc::group(name);
      const bool odd = g.rank() == 2;
      std::vector<float> v(60), out(20);
      std::vector<double> wide(60);
      if (how == 0) odd ? g.all_reduce(std::span(wide)) : g.all_reduce(std::span(v));
      if (how == 1) odd ? g.barrier() : g.reduce_scatter(std::span(v), std::span(out));
      if (how == 2) g.broadcast(std::span(v), odd ? 1 : 0);
      if (how == 3)
        g.scatter_v(std::span(v), std::span(out),
                    odd ? std::vector<std::size_t>{20, 30, 20} : std::vector<std::size_t>{20, 20, 20}, 0);
    });
  }
  Said split_waits(std::string name, std::string started) {
    return what_it_says([&] {
      tc::Group half = tc::group(name).split(0, 0);
      bump(started);
      if (half.rank() != 0) half.barrier();
      else troupe::sleep_for(1h);
    });
  }
  void hold(std::string name) { held_ = tc::group(name); }
  /// Takes its place, however long the others take; the epoch. `started` counts those that are about to.
  std::uint64_t hold_for_ever(std::string name, std::string started) {
    bump(started);
    held_ = tc::group(name, {.timeout = troupe::kForever});
    return held_.epoch();
  }
  Said use_held() {
    return what_it_says([&] { held_.barrier(); });
  }
  void let_go() { held_ = {}; }
  void abort(std::string name, std::string why) { tc::group(name).abort(why); }
  void reform(std::string name, std::vector<ActorHandle<Rank>> ranks) { tc::reform(name, ranks); }
  void create(std::string name, std::vector<ActorHandle<Rank>> ranks) {
    tc::create_group(ranks, {.name = name, .timeout = 30s});
  }
  void create_as(std::string name, std::vector<ActorHandle<Rank>> ranks, int backend) {
    tc::create_group(ranks, {.name = name, .backend = tc::Backend(backend)});
  }
  int pid() { return ::getpid(); }
  int descriptors() {
    int count = 0;
    DIR* all = ::opendir("/proc/self/fd");
    while (::readdir(all)) ++count;
    ::closedir(all);
    return count;
  }
  void crash() { rt::crash(); }

 private:
  tc::Group held_;
};

using Ranks = std::vector<ActorHandle<Rank>>;

/// The cluster that runs, and its nodes.
inline troupe::testing::Cluster* cluster = nullptr;
inline std::vector<std::string>& node_ids() {
  static std::vector<std::string> ids;
  return ids;
}
/// One actor on each of these nodes.
inline Ranks ranks_on(const std::vector<int>& nodes, int restarts = 0) {
  Ranks ranks;
  for (int node : nodes)
    ranks.push_back(troupe::actor<Rank>.options({.max_restarts = restarts, .max_concurrency = 2,
        .scheduling = troupe::NodeAffinity{node_ids()[std::size_t(node)], false}}).remote());
  return ranks;
}
template <auto Method, class... Args> auto all(const Ranks& ranks, const Args&... args) {
  std::vector<decltype(ranks[0].template call<Method>(args...))> refs;
  for (const auto& rank : ranks) refs.push_back(rank.template call<Method>(args...));
  return refs;
}
inline double triangle(std::size_t n) { return double(n * (n + 1) / 2); }
inline void check_sums(const Ranks& ranks, const std::string& name, int n = 5000) {
  CHECK(get(all<&Rank::sum>(ranks, name, n, std::uint64_t(0)), {.timeout = 60s}) ==
        std::vector<double>(ranks.size(), triangle(ranks.size())));
}
inline int pid_of(const ActorHandle<Rank>& rank) { return get(rank.call<&Rank::pid>()); }

/// The promises on a cluster of three nodes, daemons of this machine.
inline int run_groups(int argc, char** argv, const std::vector<Promise>& promises, int seconds_each,
                      const troupe::testing::ClusterSpec& spec = {
                          .nodes = {{.cpus = 32, .gpus = 4}, {.cpus = 32, .gpus = 4}, {.cpus = 32}}}) {
  return troupe::testing::run(argc, argv, spec, [&](troupe::testing::Cluster& c) {
    cluster = &c;
    for (std::size_t i = 0; i < c.size(); ++i) node_ids().push_back(c.node(i).id());
    return run_promises(std::span<char* const>(argv, std::size_t(argc)), promises, seconds_each);
  });
}

// ---------------------------------------------------------------------------------------------------------- operations

inline std::string Rank::operations(std::string name, std::size_t n) {
  tc::Group g = tc::group(name);
  const int me = g.rank(), size = g.size();
  const std::size_t ranks = std::size_t(size);
  using T = std::int64_t;
  std::string wrong;
  const auto note = [&](bool ok, const char* what) { if (!ok) wrong += std::string(what) + " "; };
  const auto total = [&](std::size_t i) {
    T sum = 0;
    for (int r = 0; r < size; ++r) sum += element<T>(r, i);
    return sum;
  };
  const auto is_total = [&](const std::vector<T>& v, std::size_t from) {
    for (std::size_t i = 0; i < v.size(); ++i)
      if (v[i] != total(from + i)) return false;
    return true;
  };
  const std::vector<T> mine = input<T>(me, n);
  std::vector<T> data = mine, out(n);
  g.all_reduce(std::span(data));
  note(is_total(data, 0), "all_reduce");
  g.all_reduce(std::span(mine), std::span(out));
  note(is_total(out, 0), "all_reduce (two)");
  data = mine;
  g.reduce(std::span(data), size - 1);
  note(me != size - 1 || is_total(data, 0), "reduce");
  const std::vector<T> whole = input<T>(me, n * ranks);
  g.reduce_scatter(std::span(whole), std::span(out));
  note(is_total(out, n * std::size_t(me)), "reduce_scatter");
  data = mine;
  g.broadcast(std::span(data), size - 1);
  note(data == input<T>(size - 1, n), "broadcast");
  std::vector<T> joined(n * ranks), wanted;
  for (int r = 0; r < size; ++r) { const auto v = input<T>(r, n); wanted.insert(wanted.end(), v.begin(), v.end()); }
  g.all_gather(std::span(mine), std::span(joined));
  note(joined == wanted, "all_gather");
  std::vector<T> collected(me == 0 ? n * ranks : 0);
  g.gather(std::span(mine), std::span(collected), 0);
  note(me != 0 || collected == wanted, "gather");
  const std::vector<T> source = me == 0 ? wanted : std::vector<T>();
  g.scatter(std::span(source), std::span(out), 0);
  note(out == mine, "scatter");
  std::vector<T> got(n * ranks), mixed;
  g.all_to_all(std::span(whole), std::span(got));
  for (int r = 0; r < size; ++r) {
    const auto v = input<T>(r, n * ranks);
    mixed.insert(mixed.end(), v.begin() + std::ptrdiff_t(n) * me, v.begin() + std::ptrdiff_t(n) * (me + 1));
  }
  note(got == mixed, "all_to_all");
  auto sent = g.send_async(std::span(mine), (me + 1) % size, 5);  // round the ring
  g.recv(std::span(out), (me + size - 1) % size, 5);
  sent.wait();
  note(out == input<T>((me + size - 1) % size, n), "send/recv");
  g.barrier();
  return wrong;
}

/// v-variants, operations under way together, and splits.
inline std::string Rank::parts(std::string name) {
  tc::Group g = tc::group(name);
  const int me = g.rank(), size = g.size();
  std::string wrong;
  const auto note = [&](bool ok, const char* what) { if (!ok) wrong += std::string(what) + " "; };
  std::vector<std::size_t> counts;
  std::vector<float> wanted;
  for (int r = 0; r < size; ++r) {
    counts.push_back(std::size_t(100 * r));
    const auto v = input<float>(r, counts.back());
    wanted.insert(wanted.end(), v.begin(), v.end());
  }
  const std::vector<float> mine = input<float>(me, counts[std::size_t(me)]);
  std::vector<float> joined(wanted.size()), own(mine.size());
  g.all_gather_v(std::span(mine), std::span(joined), counts);
  note(joined == wanted, "all_gather_v");
  std::vector<float> collected(me == 1 ? wanted.size() : 0);
  g.gather_v(std::span(mine), std::span(collected), counts, 1);
  note(me != 1 || collected == wanted, "gather_v");
  const std::vector<float> source = me == 1 ? wanted : std::vector<float>();
  g.scatter_v(std::span(source), std::span(own), counts, 1);
  note(own == mine, "scatter_v");
  const std::vector<std::size_t> receive(std::size_t(size), counts[std::size_t(me)]);
  std::vector<float> mixed(counts[std::size_t(me)] * std::size_t(size));
  g.all_to_all_v(std::span(wanted), counts, std::span(mixed), receive);
  note(std::equal(mine.begin(), mine.end(), mixed.begin()), "all_to_all_v");

  std::vector<std::vector<float>> several(4, std::vector<float>(10'000, float(me)));
  std::vector<tc::Work> works;
  for (auto& one : several) works.push_back(g.all_reduce_async(std::span(one)));
  for (auto& work : works) work.wait();
  for (auto& one : several)
    note(one.front() == float(size * (size - 1) / 2) && one.back() == one.front(), "all_reduce_async");

  tc::Group half = g.split(me % 2, -me);
  std::vector<std::int64_t> v{me};
  half.all_reduce(std::span(v));
  std::int64_t expected = 0;
  for (int r = me % 2; r < size; r += 2) expected += r;
  note(v[0] == expected && half.size() == (size + 1 - me % 2) / 2, "split");
  tc::Group alone = half.split(me, 0);  // a split of a split
  alone.all_reduce(std::span(v));
  note(alone.size() == 1 && v[0] == expected, "split of a split");
  (void)g.split(-1, 0);  // for nobody
  return wrong;
}

}  // namespace rt
