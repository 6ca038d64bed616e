// The formats from inside: bytes of tables in memory, refusals, and what a full disk does. What their originals read of
// them is in formats_test.py.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "apps/datagen/formats/arrays/npy.h"
#include "apps/datagen/formats/builtin.h"
#include "apps/datagen/formats/format_registry.h"
#include "apps/datagen/formats/images/png.h"
#include "apps/datagen/formats/minari/minari_json.h"
#include "apps/datagen/formats/parquet/parquet_plugin.h"
#include "apps/datagen/formats/plugin/plugin_file.h"
#include "apps/datagen/formats/shard_path.h"
#include "apps/datagen/formats/tar/tar.h"
#include "apps/datagen/formats/text/json_text.h"
#include "tests/datagen/known_tables.h"

namespace {

using datagen::Field;
using datagen::Schema;
using datagen::Type;

class VectorSink final : public datagen::ByteSink {
 public:
  void write(std::span<const std::byte> more) override { bytes.insert(bytes.end(), more.begin(), more.end()); }
  [[nodiscard]] std::uint64_t written() const override { return bytes.size(); }
  std::vector<std::byte> bytes;
};

/// Has room for so many bytes.
class FullSink final : public datagen::ByteSink {
 public:
  explicit FullSink(std::uint64_t room) : room_(room) {}
  void write(std::span<const std::byte> more) override {
    if (written_ + more.size() > room_) troupe::OutOfDiskError("full").raise();
    written_ += more.size();
  }
  [[nodiscard]] std::uint64_t written() const override { return written_; }

 private:
  std::uint64_t room_, written_ = 0;
};

std::unique_ptr<datagen::FormatOptions> options_of(const std::string& format) {
  if (datagen::format_kinds().empty()) datagen::register_builtin_formats().value();
  return datagen::find_format(format).value().options();
}

void write_shard(datagen::FormatOptions& options, const datagen_test::KnownTable& known, datagen::ByteSink& sink) {
  const datagen::ShardInfo info = datagen_test::shard_info(1);
  const auto writer = options.open(known.schema, info, sink).value();
  known.generate(info.range, [&](const datagen::Table& table) { writer->append(table); });
  writer->finish();
}

/// Whether a missing library is a failure. Arrow and HDF5 come compiled without ThreadSanitizer, which would see
/// races in them: its builds have no plug-ins, whatever is installed.
bool required() {
#if defined(__SANITIZE_THREAD__)
  return false;
#else
  return std::getenv("TROUPE_REQUIRE_DATA") != nullptr;
#endif
}

/// A format with a table that it takes. Skips without its library, which fails where all must be there.
class EachFormat : public testing::TestWithParam<std::pair<std::string, std::string>> {
 protected:
  void SetUp() override {
    options_ = options_of(GetParam().first);
    const auto libraries = options_->libraries();
    if (libraries.ok()) return;
    if (required()) FAIL() << libraries.error().what();
    GTEST_SKIP() << libraries.error().what();
  }
  datagen_test::KnownTable known_ = datagen_test::known_table(GetParam().second);
  std::unique_ptr<datagen::FormatOptions> options_;
};

TEST_P(EachFormat, GivesTheSameBytesAgain) {  // FMT-1
  VectorSink one, other;
  write_shard(*options_, known_, one);
  write_shard(*options_, known_, other);
  EXPECT_GT(one.bytes.size(), 100u);
  EXPECT_EQ(one.bytes, other.bytes);
}

TEST_P(EachFormat, TakesAShardWithoutSamples) {
  VectorSink sink;
  options_->open(known_.schema, datagen_test::shard_info(0), sink).value()->finish();
  SUCCEED();
}

TEST_P(EachFormat, PassesOnThatThereIsNoRoom) {
  VectorSink whole;
  write_shard(*options_, known_, whole);
  for (const std::uint64_t room : {std::uint64_t{0}, whole.written() / 2, whole.written() - 1}) {
    FullSink sink(room);
    EXPECT_THROW(write_shard(*options_, known_, sink), troupe::OutOfDiskError) << room;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, EachFormat,
                         testing::Values(std::pair("jsonl", "rows"), std::pair("safetensors", "rows"),
                                         std::pair("webdataset", "rows"), std::pair("parquet", "rows"),
                                         std::pair("parquet", "episodes"), std::pair("minari", "episodes"),
                                         std::pair("webdataset", "episodes")),
                         [](const auto& each) {
                           return std::string(each.param.first) + "_" + each.param.second;
                         });

TEST(ShardPath, NamesHaveOneLengthAndTheOrderOfTheShards) {  // SHP-1
  EXPECT_EQ(datagen::shard_path({.index = 7, .count = 100}, "part", "tar"), "data/part-00007-of-00100.tar");
  EXPECT_EQ(datagen::shard_path({.index = 7, .count = 1'234'567}, "part", "tar"), "data/part-0000007-of-1234567.tar");
}

TEST(JsonText, NumbersReadBackToTheBit) {  // JTX-1
  datagen::Column column(Field{.name = "x", .type = Type::kFloat32});
  const float numbers[] = {0.1f, 1e20f, 3, -0.0f, 1e-45f, 16777216};
  column.resize(std::size(numbers));
  std::memcpy(column.values<float>().data(), numbers, sizeof numbers);
  std::string text;
  for (std::size_t i = 0; i < std::size(numbers); ++i) {
    datagen::append_json(text, column, i);
    text += ' ';
  }
  EXPECT_EQ(text, "0.1 1e+20 3.0 -0.0 1e-45 16777216.0 ");
}

TEST(JsonText, KnowsUtf8) {
  for (const char* good : {"", "a", "\xc3\xa9", "\xe6\xbc\xa2", "\xf0\x9f\x98\x80"})
    EXPECT_TRUE(datagen::is_utf8(good));
  for (const char* bad :
       {"\x80", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xe6\xbc"})
    EXPECT_FALSE(datagen::is_utf8(bad));
}

TEST(JsonText, RefusesTextThatIsNone) {  // JTX-2
  datagen::Column text(Field{.name = "note", .type = Type::kString}),
      json(Field{.name = "boxes", .type = Type::kString, .content = datagen::Content::kJson});
  text.append(std::string_view("\xff"));
  json.append(std::string_view("{"));
  std::string out;
  EXPECT_THROW(datagen::append_json(out, text, 0), troupe::InvalidArgumentError);
  EXPECT_THROW(datagen::append_json(out, json, 0), troupe::InvalidArgumentError);
}

TEST(Npy, ArraysBeginAligned) {  // NPY-1
  for (const std::vector<std::size_t>& shape : {std::vector<std::size_t>{3}, {2, 3}, {1000, 1000, 1000, 10}}) {
    const std::string header = datagen::npy_header(Type::kFloat32, shape);
    EXPECT_EQ(header.size() % 64, 0u);
    EXPECT_EQ(header.back(), '\n');
  }
  EXPECT_NE(datagen::npy_header(Type::kInt64, std::vector<std::size_t>{3}).find("'shape': (3,)"), std::string::npos);
}

std::vector<std::byte> small_tar() {
  VectorSink sink;
  datagen::TarWriter tar(sink);
  tar.add("a.txt", "hello");
  tar.add("b.bin", std::string(512, 'x'), std::as_bytes(std::span("yz", 2)));
  tar.add("c", "");
  tar.finish();
  return sink.bytes;
}

TEST(Tar, ReadsWhatItWrites) {  // TAR-3
  const auto bytes = small_tar();
  EXPECT_EQ(bytes.size(), 512u * (2 + 3 + 1 + 2));
  const auto members = datagen::read_tar(bytes).value();
  ASSERT_EQ(members.size(), 3u);
  EXPECT_EQ(members[1].name, "b.bin");
  EXPECT_EQ(members[1].data.size(), 514u);
  EXPECT_EQ(std::memcmp(members[0].data.data(), "hello", 5), 0);
}

TEST(Tar, EveryCutIsFound) {  // TAR-3
  const auto bytes = small_tar();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto found = datagen::read_tar(std::span(bytes).first(size));
    ASSERT_FALSE(found.ok()) << size;
    EXPECT_EQ(found.error().code(), troupe::ErrorCode::kSerialization);
  }
}

TEST(Tar, EveryChangedBitOfAHeaderIsFound) {
  auto bytes = small_tar();
  for (std::size_t bit = 0; bit < 8 * 512; ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    const auto found = datagen::read_tar(bytes);
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    if (bit / 8 >= 148 && bit / 8 < 156) continue;  // blanks of the checksum's field may differ
    EXPECT_FALSE(found.ok()) << bit;
  }
}

TEST(Tar, RefusesNamesThatDoNotFit) {  // TAR-2
  VectorSink sink;
  datagen::TarWriter tar(sink);
  tar.add(std::string(100, 'n'), "");
  EXPECT_THROW(tar.add(std::string(101, 'n'), ""), troupe::InvalidArgumentError);
  EXPECT_THROW(tar.add("", ""), troupe::InvalidArgumentError);
}

TEST(Png, RefusesWhatIsNoPicture) {
  if (!datagen::png_library_version().ok()) GTEST_SKIP() << datagen::png_library_version().error().what();
  const std::vector<std::uint8_t> pixels(12);
  EXPECT_TRUE(datagen::encode_png({.width = 2, .height = 2, .channels = 3, .pixels = pixels}).ok());
  EXPECT_TRUE(datagen::encode_png({.width = 12, .height = 1, .channels = 1, .pixels = pixels}).ok());
  EXPECT_FALSE(datagen::encode_png({.width = 2, .height = 3, .channels = 3, .pixels = pixels}).ok());
  EXPECT_FALSE(datagen::encode_png({.width = 0, .height = 3, .channels = 3}).ok());
}

troupe::Status check_fields(const std::string& format, std::vector<Field> fields) {
  return options_of(format)->check(Schema{.fields = std::move(fields)});
}

TEST(WebDataset, RefusesFilesThatCannotBeToldApart) {  // WDS-2
  EXPECT_TRUE(check_fields("webdataset", {{.name = "a", .shape = {2}}, {.name = "b", .shape = {2}}}).ok());
  EXPECT_FALSE(check_fields("webdataset", {{.name = "a", .shape = {2}}, {.name = "A", .shape = {2}}}).ok());
  EXPECT_FALSE(check_fields("webdataset", {{.name = "a/b", .shape = {2}}, {.name = "b", .shape = {2}}}).ok());
  const std::string name(99, 'a');
  EXPECT_FALSE(check_fields("webdataset", {{.name = name, .shape = {2}}, {.name = "b", .shape = {2}}}).ok());
}

TEST(Safetensors, RefusesNamesThatItNeedsItself) {
  EXPECT_TRUE(check_fields("safetensors", {{.name = "a", .type = Type::kString}}).ok());
  EXPECT_FALSE(check_fields("safetensors", {{.name = "a", .type = Type::kString}, {.name = "a.offsets"}}).ok());
  EXPECT_FALSE(check_fields("safetensors", {{.name = "sample_ends"}}).ok());
}

TEST(Minari, RefusesTablesThatAreNoEpisodes) {  // MNR-1
  const Schema episodes = *datagen_test::known_table("episodes").schema;
  EXPECT_TRUE(options_of("minari")->check(episodes).ok());
  for (const char* name : {"obs", "action", "reward", "terminated", "truncated", "final_obs"}) {
    Schema without = episodes;
    without.fields.erase(without.fields.begin() + static_cast<std::ptrdiff_t>(without.find(name)));
    const auto checked = options_of("minari")->check(without);
    ASSERT_FALSE(checked.ok());
    EXPECT_NE(std::string(checked.error().what()).find(name), std::string::npos);
  }
  Schema without_space = episodes;
  without_space.metadata.erase("action_space");
  EXPECT_FALSE(options_of("minari")->check(without_space).ok());
  Schema dict = episodes;
  dict.metadata["observation_space"] = R"({"type":"Dict"})";
  EXPECT_FALSE(options_of("minari")->check(dict).ok());
}

TEST(Minari, BoundsComeBackToTheBit) {  // MNJ-1
  const auto written = [](const std::string& observation_space) {
    datagen::MinariWords words{.dataset_id = "a-v0",
                               .observation_space = observation_space,
                               .action_space = R"({"type":"Discrete","n":2})"};
    return datagen::minari_metadata(words);
  };
  // As Python prints them; NumPy's tolist of a float32 gives the double that it is.
  const std::string wide = R"({"type":"Box","dtype":"float64","shape":[3],"low":[-9.406938033585421E-1,"-inf",1e-300],)"
                           R"("high":[0.1,1.7976931348623157e308,2.2250738585072014E-308]})";
  EXPECT_NE(written(wide).value().find(R"(\"low\": [-0.9406938033585421, -Infinity, 1e-300])"), std::string::npos);
  EXPECT_NE(written(wide).value().find(R"(\"high\": [0.1, 1.7976931348623157e+308, 2.2250738585072014e-308])"),
            std::string::npos);
  const std::string narrow = R"({"type":"Box","dtype":"float32","shape":[2],"low":[-0.41887903,"-inf"],"high":[4.8]})";
  EXPECT_NE(written(narrow).value().find(R"(\"low\": [-0.41887903213500977, -Infinity])"), std::string::npos);
  EXPECT_NE(written(narrow).value().find(R"(\"high\": [4.800000190734863, 4.800000190734863])"), std::string::npos);
  for (const char* shape : {"[4294967296,4294967296]", "[1000000000]", "[-1]", "[0.5]"}) {
    const std::string box = fmt::format(R"({{"type":"Box","dtype":"float32","shape":{},"low":[0],"high":[1]}})", shape);
    EXPECT_FALSE(written(box).ok()) << shape;
  }
}

TEST(Minari, NamesOfDataSetsHaveAVersion) {
  EXPECT_EQ(datagen::minari_dataset_id("cartpole/expert-v3"), "cartpole/expert-v3");
  EXPECT_EQ(datagen::minari_dataset_id("my set.1"), "my_set_1-v0");
}

TEST(Plugin, OneThatIsNotThereSaysWhatToInstall) {  // PLG-2, FMT-3
  const auto opened = datagen::open_plugin(
      {.file = "libdatagen_none.so", .function = "f", .version = 1, .needs = "Parquet needs Arrow C++"});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code(), troupe::ErrorCode::kRuntimeEnv);
  EXPECT_NE(std::string(opened.error().what()).find("cmake/install-deps data"), std::string::npos);
}

class ParquetFile : public testing::Test {
 protected:
  void SetUp() override {
    const auto plugin = datagen::parquet_plugin();
    if (!plugin.ok() && required()) FAIL() << plugin.error().what();
    if (!plugin.ok()) GTEST_SKIP() << plugin.error().what();
    plugin_ = *plugin;
  }
  void TearDown() override { std::filesystem::remove(path_); }

  void put(std::span<const std::byte> bytes) {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  const datagen::ParquetPlugin* plugin_ = nullptr;
  std::filesystem::path path_ = testing::TempDir() + "formats_test_" + std::to_string(::getpid()) + ".parquet";
};

TEST_F(ParquetFile, ReadsBackWhatItWrote) {
  auto known = datagen_test::known_table("rows");
  const auto options = options_of("parquet");
  VectorSink sink;
  write_shard(*options, known, sink);
  put(sink.bytes);
  const auto reader = plugin_->open_reader(path_);
  EXPECT_EQ(reader->schema()->metadata, known.schema->metadata);
  ASSERT_EQ(reader->schema()->fields.size(), known.schema->fields.size());
  for (std::size_t i = 0; i < known.schema->fields.size(); ++i) {
    Field field = known.schema->fields[i];
    field.content = datagen::Content::kPlain;  // Parquet has no place for it
    EXPECT_EQ(reader->schema()->fields[i], field) << field.name;
  }
  datagen::Table all(reader->schema());
  ASSERT_TRUE(reader->next(all));
  EXPECT_EQ(all.rows(), datagen_test::kSamplesOfAShard);
  std::size_t at = 0;
  known.generate(datagen_test::shard_info(1).range, [&](const datagen::Table& table) {
    for (std::size_t row = 0; row < table.rows(); ++row, ++at)
      for (std::size_t i = 0; i < known.schema->fields.size(); ++i) {
        std::string found, wanted;
        datagen::append_json(found, all.column(i), at);
        // As plain text: the original's is JSON.
        if (known.schema->fields[i].content == datagen::Content::kJson)
          datagen::append_json_text(wanted, table.column(i).text(row));
        else
          datagen::append_json(wanted, table.column(i), row);
        EXPECT_EQ(found, wanted);
      }
  });
  EXPECT_FALSE(reader->next(all));
}

TEST_F(ParquetFile, DamagedOnesAreTypedErrors) {
  EXPECT_THROW(static_cast<void>(plugin_->open_reader(path_)), troupe::NotFoundError);
  const auto options = options_of("parquet");
  VectorSink sink;
  write_shard(*options, datagen_test::known_table("rows"), sink);
  for (const std::size_t size : {std::size_t{0}, std::size_t{3}, sink.bytes.size() / 2, sink.bytes.size() - 1}) {
    put(std::span(sink.bytes).first(size));
    EXPECT_THROW(static_cast<void>(plugin_->open_reader(path_)), troupe::SerializationError) << size;
  }
}

}  // namespace
