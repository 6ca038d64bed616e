// DST-1, PHW-1, TBL-1, TBL-2, COL-1, SCM-1, GRG-1, GRG-2, FGR-1, FGR-2: what generators and formats stand on.
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/common/random/philox.h"
#include "apps/datagen/formats/format_registry.h"
#include "apps/datagen/generators/generator_registry.h"
#include "apps/datagen/random/philox_words.h"
#include "apps/datagen/random/stream.h"
#include "apps/datagen/table/table.h"

namespace {

using namespace datagen;
using troupe::kernels::Isa;

std::vector<Isa> supported() {
  std::vector<Isa> all;
  for (const Isa isa : troupe::kernels::kAllIsas)
    if (troupe::kernels::isa_supported(isa)) all.push_back(isa);
  return all;
}

template <class Error>
std::string thrown(const std::function<void()>& what) {
  try {
    what();
  } catch (const Error& error) { return error.what(); }
  return {};
}

// Random123, tests/kat_vectors: philox4x32 10.
TEST(Philox, GivesTheWordsOfRandom123) {
  EXPECT_EQ(apps::philox4x32({0, 0, 0, 0}, {0, 0}),
            (apps::PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(apps::philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (apps::PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(apps::philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (apps::PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// The known answers once more, through the code that makes many words: their counters are {block, index}.
TEST(PhiloxWords, KnownAnswersComeFromEveryInstructionSet) {
  struct Known {
    apps::PhiloxKey key;
    std::uint64_t index, block;
    apps::PhiloxCounter words;
  };
  const std::array<Known, 3> known{{{{0, 0}, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
                                    {{~0u, ~0u}, ~0ull, ~0ull, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
                                    {{0xa4093822, 0x299f31d0}, 0x0370734413198a2e, 0x85a308d3243f6a88,
                                     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}}};
  for (const Isa isa : supported())
    for (const Known& one : known)
      for (const std::size_t place : {0u, 7u, 15u}) {  // in a group of sixteen blocks
        std::vector<std::uint32_t> words(64);
        philox_words(one.key, one.index, one.block - place, words, isa);
        for (std::size_t i = 0; i < 4; ++i)
          EXPECT_EQ(words[4 * place + i], one.words[i]) << troupe::kernels::isa_name(isa) << " at " << place;
      }
}

TEST(PhiloxWords, AllInstructionSetsGiveTheSameAtEveryLengthAndOffset) {  // PHW-1
  // Blocks that cross 2^32 as well: the carry into the high word.
  for (const std::uint64_t block : {0ull, 1ull, 0xfffffff5ull, 0xfffffffffffffff3ull})
    for (std::size_t offset = 0; offset < 9; ++offset)
      for (std::size_t length = 0; length <= 208; length += 4) {
        std::vector<std::uint32_t> expected(offset + length + 1, 77), words;
        for (std::size_t i = 0; i < length / 4; ++i) {
          const std::uint64_t at = block + i;
          const apps::PhiloxCounter four = apps::philox4x32(
              {static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32), 0x89abcdef, 0x01234567}, {5, 6});
          std::copy(four.begin(), four.end(), expected.begin() + static_cast<std::ptrdiff_t>(offset + 4 * i));
        }
        for (const Isa isa : supported()) {
          words.assign(expected.size(), 77);  // what lies around is not touched
          philox_words({5, 6}, 0x0123456789abcdef, block, std::span(words).subspan(offset, length), isa);
          ASSERT_EQ(words, expected) << troupe::kernels::isa_name(isa) << " offset " << offset << " length " << length;
        }
      }
}

TEST(Stream, WordsAreThoseOfPhiloxUnderAKeyOfJobAndStream) {  // DST-1
  Stream stream(0x1122334455667788, 9, 0x0102030405060708);
  const apps::PhiloxCounter mixed = apps::philox4x32({9, 0, 0, 0}, {0x55667788, 0x11223344});
  for (std::uint32_t block = 0; block < 3; ++block) {
    const apps::PhiloxCounter four = apps::philox4x32({block, 0, 0x05060708, 0x01020304}, {mixed[0], mixed[1]});
    for (const std::uint32_t word : four) EXPECT_EQ(stream.next(), word);
  }
}

TEST(Stream, FillGivesWhatCallsOfNextGive) {  // DST-1
  for (const Isa isa : supported())
    for (std::size_t before = 0; before < 6; ++before)
      for (std::size_t length = 0; length < 150; ++length) {
        Stream one(1, 2, 3), other(1, 2, 3);
        for (std::size_t i = 0; i < before; ++i) EXPECT_EQ(one.next(), other.next());
        std::vector<std::uint32_t> words(length);
        one.fill(words, isa);
        for (std::size_t i = 0; i < length; ++i) ASSERT_EQ(words[i], other.next()) << before << " " << length;
        ASSERT_EQ(one.next(), other.next());
      }
}

TEST(Stream, FillUniformGivesWhatCallsOfUniformFloatGive) {
  for (const Isa isa : supported()) {
    Stream one(4, 5, 6), other(4, 5, 6);
    std::vector<float> numbers(2500);
    one.fill_uniform(numbers, isa);
    for (const float number : numbers) {
      ASSERT_EQ(number, other.uniform_float());
      ASSERT_TRUE(number >= 0 && number < 1);
    }
  }
}

TEST(Stream, SeekGoesToABlock) {
  Stream whole(1, 2, 3), part(1, 2, 3);
  std::vector<std::uint32_t> words(400);
  whole.fill(words, Isa::kReference);
  for (const std::uint64_t block : {0u, 1u, 17u, 99u}) {
    (void)part.next();  // whatever came before
    part.seek(block);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(part.next(), words[4 * block + i]);
  }
}

TEST(Stream, JobStreamAndIndexEachGiveOtherWords) {
  const auto first = [](std::uint64_t job, std::uint32_t stream, std::uint64_t index) {
    return Stream(job, stream, index).next_uint64();
  };
  const std::vector<std::uint64_t> all{first(1, 1, 1), first(2, 1, 1), first(1, 2, 1), first(1, 1, 2),
                                       first(1ull << 32, 1, 1), first(1, 1, 1ull << 32)};
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) EXPECT_NE(all[i], all[k]);
}

TEST(Stream, BelowIsEvenAndNormalHasItsMoments) {
  Stream stream(7, 0, 0);
  constexpr int kDraws = 60'000;
  std::array<int, 6> counts{};
  for (int i = 0; i < kDraws; ++i) ++counts.at(stream.below(6));
  double chi = 0;
  for (const int count : counts) chi += (count - kDraws / 6.0) * (count - kDraws / 6.0) / (kDraws / 6.0);
  EXPECT_LT(chi, 20.5);  // 5 degrees of freedom: 0.1 %
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = stream.normal();
    sum += x, squares += x * x;
  }
  EXPECT_LT(std::abs(sum / kDraws), 4 / std::sqrt(kDraws));
  EXPECT_LT(std::abs(squares / kDraws - 1), 4 * std::sqrt(2.0 / kDraws));
  EXPECT_EQ(Stream(7, 0, 0).below(1), 0u);
}

TEST(Schema, WhatCannotBeWrittenIsRefusedByName) {  // SCM-1
  const auto said = [](std::vector<Field> fields) {
    const troupe::Status status = check_schema({.fields = std::move(fields)});
    return status.ok() ? std::string() : std::string(status.error().what());
  };
  EXPECT_EQ(said({{.name = "a"}, {.name = "b", .type = Type::kString}}), "");
  EXPECT_EQ(said({{.name = "p", .type = Type::kUInt8, .shape = {4, 5, 3}, .content = Content::kImage}}), "");
  EXPECT_NE(said({}).find("without a column"), std::string::npos);
  EXPECT_NE(said({{.name = ""}}).find("without a name"), std::string::npos);
  EXPECT_NE(said({{.name = "a"}, {.name = "a"}}).find("'a'"), std::string::npos);
  EXPECT_NE(said({{.name = "a", .shape = {3, 0}}}).find("'a'"), std::string::npos);
  EXPECT_NE(said({{.name = "a", .type = Type::kBytes, .shape = {3}}}).find("'a'"), std::string::npos);
  EXPECT_NE(said({{.name = "p", .shape = {4, 5, 3}, .content = Content::kImage}}).find("'p'"), std::string::npos);
}

TEST(Schema, TypesHaveTheNamesOfNumPyAndComeBackFromThem) {
  for (const Type type : {Type::kBool, Type::kUInt8, Type::kInt32, Type::kInt64, Type::kFloat32, Type::kFloat64,
                          Type::kString, Type::kBytes})
    EXPECT_EQ(type_of(name_of(type)).value(), type);
  EXPECT_EQ(name_of(Type::kFloat32), "float32");
  EXPECT_EQ(size_of(Type::kFloat64), 8u);
  EXPECT_EQ(size_of(Type::kBytes), 0u);
  EXPECT_FALSE(type_of("float16").ok());
}

TEST(Column, TextIsOneValueAfterTheOther) {  // COL-1
  Column column({.name = "t", .type = Type::kString, .nullable = true});
  for (const char* value : {"one", "", "three"}) column.append(std::string_view(value));
  EXPECT_EQ(column.rows(), 3u);
  EXPECT_EQ(column.text(2), "three");
  EXPECT_EQ(std::vector<std::int64_t>(column.offsets().begin(), column.offsets().end()),
            (std::vector<std::int64_t>{0, 3, 3, 8}));
  EXPECT_EQ(column.data().size(), 8u);
  column.set_null(1);
  EXPECT_TRUE(column.is_null(1));
  EXPECT_NE(thrown<troupe::InvalidArgumentError>([&] { column.set_null(0); }), "");  // it has a text
  column.clear();
  EXPECT_EQ(column.offsets().size(), 1u);
  EXPECT_EQ(column.rows(), 0u);
}

TEST(Column, MemoryIsAlignedAndOfOneType) {
  for (const std::size_t rows : {1u, 1000u, 100'000u}) {
    Column column({.name = "n", .type = Type::kFloat32, .shape = {3}});
    column.resize(rows);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(column.data().data()) % 64, 0u);
    EXPECT_EQ(column.values<float>().size(), 3 * rows);
  }
  Column column({.name = "n", .type = Type::kFloat32});
  EXPECT_NE(thrown<troupe::InvalidArgumentError>([&] { (void)column.values<double>(); }).find("'n' is float32"),
            std::string::npos);
  EXPECT_NE(thrown<troupe::InvalidArgumentError>([&] { column.append(std::string_view("x")); }), "");
  EXPECT_NE(thrown<troupe::InvalidArgumentError>([&] { (void)column.text(0); }), "");
}

TEST(Column, NewRowsAreZerosWhateverTheMemoryHeldBefore) {  // COL-2
  Column column({.name = "n", .type = Type::kInt32});
  column.resize(1000);
  std::ranges::fill(column.values<std::int32_t>(), -1);
  column.clear();  // keeps the memory
  column.resize(2000);
  EXPECT_EQ(std::ranges::count(column.values<std::int32_t>(), 0), 2000);
}

TEST(Column, ANullIsZeros) {  // TBL-2
  Column column({.name = "n", .type = Type::kInt32, .shape = {2}, .nullable = true});
  column.resize(2);
  std::ranges::fill(column.values<std::int32_t>(), 5);
  column.set_null(1);
  EXPECT_FALSE(column.is_null(0));
  EXPECT_TRUE(column.is_null(1));
  const auto values = column.values<std::int32_t>();
  EXPECT_EQ(std::vector<std::int32_t>(values.begin(), values.end()), (std::vector<std::int32_t>{5, 5, 0, 0}));
  column.resize(3);  // new rows have a value
  EXPECT_FALSE(column.is_null(2));
  EXPECT_NE(thrown<troupe::InvalidArgumentError>([&] { column.set_null(3); }), "");
  Column whole({.name = "w"});
  whole.resize(1);
  EXPECT_NE(thrown<troupe::InvalidArgumentError>([&] { whole.set_null(0); }).find("'w'"), std::string::npos);
}

TEST(Table, ColumnsAndSamplesEndTogether) {  // TBL-1
  const auto schema = std::make_shared<const Schema>(
      Schema{.fields = {{.name = "x"}, {.name = "t", .type = Type::kString}}});
  Table table(schema);
  table.resize(3);
  EXPECT_NE(table.check().error().message().find("'t'"), std::string::npos);  // no text yet
  for (int i = 0; i < 3; ++i) table.column(1).append(std::string_view("ab"));
  EXPECT_FALSE(table.check().ok());  // no sample ends
  table.end_sample(2);
  EXPECT_NE(thrown<troupe::InvalidArgumentError>([&] { table.end_sample(2); }), "");
  EXPECT_NE(thrown<troupe::InvalidArgumentError>([&] { table.end_sample(4); }), "");
  EXPECT_FALSE(table.check().ok());
  table.end_sample(3);
  EXPECT_TRUE(table.check().ok());
  EXPECT_EQ(table.samples(), 2u);
  EXPECT_EQ(table.bytes(), 3 * 4 + 6u);
  table.clear();
  EXPECT_EQ(table.rows(), 0u);
  EXPECT_EQ(table.samples(), 0u);
  EXPECT_TRUE(table.check().ok());
  table.resize(2);
  EXPECT_EQ(table.column(0).values<float>()[1], 0.0F);
}

TEST(Registries, ANameIsTakenOnceAndTheNearestOneIsNamed) {  // GRG-1, GRG-2, FGR-1, FGR-2
  const GeneratorKind generator{.name = "spirals", .help = "h",
                                .options = [] { return std::unique_ptr<GeneratorOptions>(); }};
  ASSERT_TRUE(register_generator(generator).ok());
  EXPECT_EQ(register_generator(generator).error().code(), troupe::ErrorCode::kInvalidArgument);
  EXPECT_EQ(find_generator("spirals").value().help, "h");
  const auto missing = find_generator("spiral");
  EXPECT_EQ(missing.error().code(), troupe::ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message().find("did you mean 'spirals'"), std::string::npos);
  EXPECT_FALSE(register_generator({.name = "no options", .help = "", .options = {}}).ok());

  const FormatKind format{.name = "csv", .help = "h", .options = [] { return std::unique_ptr<FormatOptions>(); }};
  ASSERT_TRUE(register_format(format).ok());
  EXPECT_EQ(register_format(format).error().code(), troupe::ErrorCode::kInvalidArgument);
  EXPECT_EQ(find_format("cvs").error().code(), troupe::ErrorCode::kNotFound);
  EXPECT_NE(find_format("cvs").error().message().find("did you mean 'csv'"), std::string::npos);
  EXPECT_FALSE(register_format({.name = "", .help = "", .options = {}}).ok());
}

}  // namespace
