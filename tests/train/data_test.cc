// The data of the training programs: ids, windows, digits and recorded arrays, and what damaged files give; then
// sampling.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include <troupe/error.h>

#include "apps/train/data/digits.h"
#include "apps/train/model/draws.h"
#include "apps/train/model/generate.h"
#include "apps/train/data/npy.h"
#include "apps/train/data/text.h"

namespace {

using namespace troupe::train;
using troupe::ErrorCode;

const std::filesystem::path kData = TROUPE_DATA_DIR;

// A file of one test, removed at its end.
class Scratch {
 public:
  explicit Scratch(const std::string& bytes)
      : path_(std::filesystem::path(testing::TempDir()) /
              ("train_data_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()))) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~Scratch() { std::filesystem::remove(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

template <class T>
ErrorCode code_of(const troupe::Result<T>& result) { return result.ok() ? ErrorCode::kUser : result.error().code(); }

TEST(Text, IdsOfTheShakespeareFileAreTheRecordedOnes) {  // TX-1, TX-2
  const TextData text = load_text(kData / "tinyshakespeare.txt", {.time = 64}).value();
  EXPECT_EQ(text.vocabulary.size(), 65u);
  EXPECT_EQ(text.vocabulary.encode("\n Aaz").value(), (std::vector<std::int32_t>{0, 1, 13, 39, 64}));
  EXPECT_EQ(text.train().size(), 1'003'854u);
  EXPECT_EQ(text.validation().size(), 111'540u);
}

TEST(Text, DecodesWhatItEncodes) {  // TX-3
  std::string all(256, '\0');
  std::iota(all.begin(), all.end(), '\0');
  const Vocabulary bytes = Vocabulary::of("", TextLevel::kBytes), some = Vocabulary::of("hello");
  EXPECT_EQ(bytes.decode(bytes.encode(all).value()).value(), all);
  EXPECT_EQ(some.size(), 4u);
  EXPECT_EQ(some.decode(some.encode("olleh").value()).value(), "olleh");
  EXPECT_EQ(code_of(some.encode("help")), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(some.decode(std::vector<std::int32_t>{4})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(some.decode(std::vector<std::int32_t>{-1})), ErrorCode::kInvalidArgument);
}

TEST(Text, WindowsHoldTheNextTokenAndStayInside) {
  const std::vector<std::int32_t> ids{5, 6, 7, 8, 9};
  ASSERT_EQ(window_count(ids, 3), 2u);
  const Windows w = windows_at(ids, std::vector<std::int32_t>{1, 0}, 3).value();
  EXPECT_EQ(w.tokens, (std::vector<std::int32_t>{6, 7, 8, 5, 6, 7}));
  EXPECT_EQ(w.targets, (std::vector<std::int32_t>{7, 8, 9, 6, 7, 8}));
  EXPECT_EQ(code_of(windows_at(ids, std::vector<std::int32_t>{2}, 3)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(windows_at(ids, std::vector<std::int32_t>{-1}, 3)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(window_count(ids, 5), 0u);
}

TEST(Text, NamesAMissingAnEmptyAndATooShortFile) {
  EXPECT_EQ(code_of(load_text(kData / "no_such_file.txt")), ErrorCode::kNotFound);
  EXPECT_EQ(code_of(load_text(kData)), ErrorCode::kInvalidArgument);
  const Scratch empty("");
  EXPECT_EQ(code_of(load_text(empty.path())), ErrorCode::kInvalidArgument);
  const Scratch brief("twenty characters ..");
  EXPECT_EQ(code_of(load_text(brief.path(), {.time = 2})), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(load_text(brief.path(), {.time = 1}).ok());
}

TEST(Digits, AreThePublishedOnes) {
  const Digits digits = load_digits(kData / "digits.csv").value();
  ASSERT_EQ(digits.rows(), 1797u);
  std::vector<int> counts(10);
  for (const std::int32_t label : digits.labels) ++counts[static_cast<std::size_t>(label)];
  EXPECT_EQ(counts, (std::vector<int>{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}));
  EXPECT_EQ(16 * std::accumulate(digits.pixels.begin(), digits.pixels.end(), 0.0), 561718.0);
  const DigitRows rows = digit_rows(digits, std::vector<std::int32_t>{3, 0}).value();
  EXPECT_EQ(rows.targets, (std::vector<std::int32_t>{digits.labels[3], digits.labels[0]}));
  EXPECT_EQ(code_of(digit_rows(digits, std::vector<std::int32_t>{1797})), ErrorCode::kInvalidArgument);
}

TEST(Digits, ADamagedFileIsNamedWithItsLine) {
  std::string row = "p0,p1\n";
  for (int i = 0; i < 64; ++i) row += "16,";
  EXPECT_TRUE(parse_digits(row + "9\n", "d").ok());
  EXPECT_TRUE(parse_digits(row + "9", "d").ok());
  for (const std::string& bad :
       {row, row + "10\n", row + "9,1\n", row + "x\n", row + "9\n1,2,3\n", std::string("p0,p1\n"),
        std::string("a text of other kind\n"), std::string(), row + "9\n\n"}) {
    const auto result = parse_digits(bad, "d.csv");
    EXPECT_EQ(code_of(result), ErrorCode::kInvalidArgument) << bad;
    if (!result.ok()) {
      EXPECT_NE(result.error().message().find("d.csv, line "), std::string::npos) << result.error().message();
    }
  }
  EXPECT_EQ(code_of(load_digits(kData / "no_such_file.csv")), ErrorCode::kNotFound);
  EXPECT_EQ(code_of(load_digits(kData / "tinyshakespeare.txt")), ErrorCode::kInvalidArgument);
}

std::string npy(std::string header, const std::string& data) {
  header.resize(118, ' ');
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header + data;
}

TEST(Npy, ReadsWhatItSaysAndRefusesTheRest) {
  const std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (1, 2), }";
  const std::string data("\x01\0\0\0\xff\xff\xff\xff", 8);
  {
    const Scratch good(npy(header, data));
    const auto array = read_npy<std::int32_t>(good.path()).value();
    EXPECT_EQ(array.shape, (std::vector<std::size_t>{1, 2}));
    EXPECT_EQ(array.values, (std::vector<std::int32_t>{1, -1}));
    EXPECT_EQ(read_npy<double>(good.path()).value().values, (std::vector<double>{1, -1}));
    EXPECT_EQ(code_of(read_npy<float>(good.path())), ErrorCode::kInvalidArgument);
  }
  for (const std::string& bad :
       {npy(header, data + "x"), npy(header, data.substr(1)), std::string("\x93NUMPY"), std::string("PK"),
        npy("{}", data), npy("{'descr': '<i4', 'fortran_order': True, 'shape': (1, 2), }", data),
        npy("{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999, 2), }", data),
        npy("{'descr': '<i4', 'fortran_order': False, 'shape': (4611686018427387904, 4611686018427387904), }", data)}) {
    const Scratch file(bad);
    EXPECT_EQ(code_of(read_npy<std::int32_t>(file.path())), ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(code_of(read_npy<float>(kData / "none.npy")), ErrorCode::kNotFound);
}

struct Talker {
  Gpt<float> model{{.vocab = 11, .time = 6, .channels = 8, .layers = 2, .heads = 2}};
  std::vector<float> params = std::vector<float>(model.parameter_count());
  Talker() {
    Draws draws(9);
    for (float& p : params) p = static_cast<float>(0.6 * draws.normal());
  }
};

TEST(Generate, RepeatsItselfFromASeedAndDependsOnIt) {  // GE-1
  Talker t;
  const std::vector<std::int32_t> prompt{1, 2, 3};
  const auto once = generate(t.model, t.params, prompt, {.tokens = 40, .seed = 4}).value();
  EXPECT_EQ(once.size(), 40u);
  EXPECT_EQ(generate(t.model, t.params, prompt, {.tokens = 40, .seed = 4}).value(), once);
  EXPECT_NE(generate(t.model, t.params, prompt, {.tokens = 40, .seed = 5}).value(), once);
}

TEST(Generate, SeesTheLastTokensOfAPromptLongerThanTheContext) {  // GE-2
  Talker t;
  const std::vector<std::int32_t> tail{5, 4, 3, 2, 1, 0}, a{7, 7, 7, 5, 4, 3, 2, 1, 0}, b{1, 9, 5, 4, 3, 2, 1, 0};
  const auto want = generate(t.model, t.params, tail, {.tokens = 20}).value();
  EXPECT_EQ(generate(t.model, t.params, a, {.tokens = 20}).value(), want);
  EXPECT_EQ(generate(t.model, t.params, b, {.tokens = 20}).value(), want);
}

TEST(Generate, AShortPromptIsReadAsTheStartOfAWindow) {
  Talker t;
  const std::vector<std::int32_t> window{3, 1, 4, 1, 5, 9};
  t.model.evaluate({.rows = 1, .features = {}, .tokens = window, .targets = window}, t.params);
  std::vector<float> all(6 * 11), last(11);
  t.model.logits(t.params, all);
  for (std::size_t length = 1; length <= 6; ++length) {
    t.model.next_logits(std::span(window).first(length), t.params, last);
    for (std::size_t i = 0; i < 11; ++i) EXPECT_NEAR(last[i], all[(length - 1) * 11 + i], 1e-4) << length;
  }
}

TEST(Generate, PicksByTemperatureAndTopK) {  // GE-3
  const std::vector<float> logits{0.0f, 2.0f, 1.0f, 2.0f};
  EXPECT_EQ(pick_token(logits, 0, 0, 0.99), 1);  // among equals the lower id
  EXPECT_EQ(pick_token(logits, 1, 1, 0.99), 1);
  std::vector<double> hits(4);
  const int draws = 20'000;
  for (int i = 0; i < draws; ++i) ++hits[static_cast<std::size_t>(pick_token(logits, 0.5, 3, (i + 0.5) / draws))];
  EXPECT_EQ(hits[0], 0);  // not among the three most likely
  const double sum = 2 + std::exp(-2.0);
  EXPECT_NEAR(hits[1] / draws, 1 / sum, 1e-3);
  EXPECT_NEAR(hits[3] / draws, 1 / sum, 1e-3);
  EXPECT_NEAR(hits[2] / draws, std::exp(-2.0) / sum, 1e-3);
}

TEST(Generate, RefusesWhatItCannotContinue) {
  Talker t;
  const std::vector<std::int32_t> prompt{1}, none, strange{11};
  EXPECT_EQ(code_of(generate(t.model, t.params, none)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(generate(t.model, t.params, strange)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(generate(t.model, t.params, prompt, {.temperature = -1})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(generate(t.model, std::span(t.params).first(5), prompt)), ErrorCode::kInvalidArgument);
  t.params[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(code_of(generate(t.model, t.params, std::vector<std::int32_t>{0})), ErrorCode::kInvalidArgument);
}

}  // namespace
