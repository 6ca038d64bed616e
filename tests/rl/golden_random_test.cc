// RNG-1, RNG-2, RNG-3: NumPy's words and draws, and each environment's first states, exactly.
#include <string>

#include <gtest/gtest.h>

#include "apps/rl/envs/env.h"
#include "apps/rl/algorithms/rng.h"
#include "tests/rl/golden.h"

namespace {

using golden::at;
using golden::json::value;

std::string decimal(rl::Uint128 v) {
  std::string digits;
  do {
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(v % 10)));
    v /= 10;
  } while (v != 0);
  return digits;
}

// Calls body(seed entry, seed) for every recorded seed of every file.
template <class Body>
void for_each_seed(Body body) {
  const auto files = golden::files_of(golden::Kind::kRandom);
  if (files.empty()) GTEST_SKIP() << "no recorded seeds";
  for (const golden::File* file : files) {
    for (const value& entry : file->content.at("seeds").as_array()) {
      SCOPED_TRACE(file->path.string() + " seed " + serialize(at(entry, "seed")));
      const value& seed = at(entry, "seed");
      body(entry, seed.is_string() ? std::stoull(golden::text(seed)) : seed.to_number<std::uint64_t>());
    }
  }
}

template <class T>
void expect_words(const std::vector<T>& got, const value& want) {
  ASSERT_EQ(got.size(), want.as_array().size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const value& w = want.as_array()[i];
    EXPECT_EQ(std::to_string(got[i]), w.is_string() ? golden::text(w) : serialize(w)) << i;
  }
}

TEST(GoldenRandom, RNG1_SeedSequencePoolStateAndChildren) {
  for_each_seed([](const value& entry, std::uint64_t seed) {
    const value& want = at(entry, "seed_sequence");
    const rl::SeedSequence sequence(seed);
    expect_words(std::vector<std::uint32_t>(sequence.pool().begin(), sequence.pool().end()), at(want, "pool_uint32"));
    expect_words(sequence.generate_state_uint32(at(want, "generate_state_uint32").as_array().size()),
                 at(want, "generate_state_uint32"));
    expect_words(sequence.generate_state_uint64(at(want, "generate_state_uint64").as_array().size()),
                 at(want, "generate_state_uint64"));
    for (const value& child : at(want, "spawn").as_array()) {
      std::vector<std::uint32_t> key;
      for (double word : golden::numbers(at(child, "spawn_key"))) key.push_back(static_cast<std::uint32_t>(word));
      const auto& words = at(child, "generate_state_uint64");
      expect_words(rl::SeedSequence(seed, key).generate_state_uint64(words.as_array().size()), words);
      if (key.size() == 1) expect_words(sequence.child(key[0]).generate_state_uint64(words.as_array().size()), words);
    }
  });
}

TEST(GoldenRandom, RNG1_GeneratorStateAndDraws) {
  for_each_seed([](const value& entry, std::uint64_t seed) {
    EXPECT_EQ(decimal(rl::Generator(seed).state()), golden::text(at(at(entry, "pcg64"), "state")));
    EXPECT_EQ(decimal(rl::Generator(seed).increment()), golden::text(at(at(entry, "pcg64"), "inc")));
    const auto draws = [&](std::string_view key, auto draw) {
      rl::Generator generator(seed);
      std::size_t i = 0;
      for (const value& want : at(entry, key).as_array())
        EXPECT_EQ(draw(generator), golden::number(want)) << key << " " << i++;
    };
    rl::Generator raw(seed);
    for (const value& want : at(entry, "raw_uint64").as_array())
      EXPECT_EQ(std::to_string(raw.next_uint64()), golden::text(want));
    draws("random", [](rl::Generator& g) { return g.random(); });
    draws("uniform_m005_p005", [](rl::Generator& g) { return g.uniform(-0.05, 0.05); });
    for (const auto& [key, list] : entry.as_object()) {
      const std::string name(key);
      if (!name.starts_with("integers_0_")) continue;
      const auto bound = static_cast<std::uint32_t>(std::stoul(name.substr(11)));
      draws(name, [bound](rl::Generator& g) { return static_cast<double>(g.integers(bound)); });
    }
  });
}

TEST(GoldenRandom, RNG2_MixedCallsKeepTheHighHalf) {
  for_each_seed([](const value& entry, std::uint64_t seed) {
    rl::Generator generator(seed);
    for (const value& step : at(entry, "mixed_calls").as_array()) {
      const std::string call = golden::text(at(step, "call"));
      double got = 0;
      if (call == "random") {
        got = generator.random();
      } else if (call == "uniform") {
        got = generator.uniform(-0.05, 0.05);
      } else {
        ASSERT_TRUE(call.starts_with("integers")) << call;
        got = generator.integers(static_cast<std::uint32_t>(std::stoul(call.substr(8))));
      }
      EXPECT_EQ(got, golden::number(at(step, "value"))) << call;
    }
  });
}

TEST(GoldenRandom, EV2_ResetStatesOfEveryEnvironment) {
  for_each_seed([](const value& entry, std::uint64_t seed) {
    for (const auto& [id, resets] : at(entry, "env_resets").as_object()) {
      auto env = rl::make_env(std::string_view(id));
      ASSERT_TRUE(env.ok()) << env.error().message();
      rl::Generator generator(seed);
      std::vector<float> obs((*env)->spec().obs_size);
      for (const value& want : resets.as_array()) {
        (*env)->reset(generator);
        (*env)->observe(obs);
        const auto state = (*env)->state();
        EXPECT_EQ(std::vector<double>(state.begin(), state.end()), golden::numbers(at(want, "state"))) << id;
        const std::vector<float> want_obs = golden::floats(at(want, "obs"));
        for (std::size_t i = 0; i < obs.size(); ++i)
          EXPECT_NEAR(obs[i], want_obs[i], 6e-8) << id;  // Acrobot's float32 cos
      }
    }
  });
}

}  // namespace
