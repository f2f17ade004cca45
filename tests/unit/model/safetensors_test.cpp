#include "privgrad/model/safetensors.hpp"

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "privgrad/error.hpp"
#include "privgrad/network.hpp"
#include "support.hpp"

using namespace privgrad;

namespace {

/// Returns bytes in the order of the format's specification: length, header, data.
std::string file_of(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}

template <class Word>
std::string words(const std::vector<Word>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Word)};
}

std::string entry(const std::string& name, const std::string& type, const std::string& shape,
                  int begin, int end) {
  return "\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":" + shape + ",\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

std::string refusal(const std::string& header, const std::string& data) {
  try {
    core::read_safetensors(file_of(header, data));
  } catch (const IoError& problem) {
    return problem.what();
  }
  return "it was read";
}

}  // namespace

TEST_CASE("what is written as safetensors is read again", "[safetensors]") {
  const Network network{{{2}, 2}, {Dense{3}, Activation{}, Dense{2}}, Loss::cross_entropy};
  std::vector<float> parameters(parameter_count(network));
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i] = 0.25f - static_cast<float>(i) / 3.0f;
  // Values learnt by transforms are in the same file, and are not parameters.
  const std::vector<core::FittedTransform> learnt{{true, {{"mean", {2}, {1.0, 2.0}}}}};
  const auto read =
      core::read_safetensors(core::to_safetensors(network, parameters, learnt, {{"a", "b"}}));
  CHECK(read.metadata == std::map<std::string, std::string>{{"a", "b"}});
  const auto blocks = parameter_blocks(network);
  REQUIRE(read.tensors.size() == blocks.size());
  std::vector<float> found;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    CHECK(read.tensors[i].name == blocks[i].name);
    CHECK(read.tensors[i].shape == blocks[i].shape);
    found.insert(found.end(), read.tensors[i].values.begin(), read.tensors[i].values.end());
  }
  CHECK(found == parameters);
}

TEST_CASE("half-precision numbers become float32 exactly", "[safetensors]") {
  // Bits by Python's struct.pack("<e", x); the last two are subnormal halves.
  const auto half = core::read_safetensors(
      file_of("{" + entry("w", "F16", "[5]", 0, 10) + "}",
              words<std::uint16_t>({0x3c00, 0xc100, 0x7bff, 0x0001, 0x83ff})));
  CHECK(half.tensors.at(0).values ==
        std::vector<float>{1.0f, -2.5f, 65504.0f, 0x1p-24f, -1023 * 0x1p-24f});
  const auto brain = core::read_safetensors(file_of("{" + entry("w", "BF16", "[1,2]", 0, 4) + "}",
                                                    words<std::uint16_t>({0x3f80, 0xc020})));
  CHECK(brain.tensors.at(0).values == std::vector<float>{1.0f, -2.5f});
  CHECK(brain.tensors.at(0).shape == Shape{1, 2});
}

TEST_CASE("a tensor may have no extent or no numbers, and the header may be padded",
          "[safetensors]") {
  const auto read = core::read_safetensors(file_of(
      "{" + entry("b", "F32", "[0,3]", 0, 0) + "," + entry("a", "F32", "[]", 0, 4) + "}    ",
      words<float>({2.0f})));
  REQUIRE(read.tensors.size() == 2);
  CHECK(read.tensors[0].name == "b");
  CHECK(read.tensors[1].values == std::vector<float>{2.0f});
}

TEST_CASE("a file that is not safetensors file is refused with what is wrong", "[safetensors]") {
  const std::string two = words<float>({1.0f, 2.0f});
  const auto one = [&](const std::string& what) { return refusal("{" + what + "}", two); };
  CHECK_THROWS_AS(core::read_safetensors("short"), IoError);
  CHECK_THROWS_WITH(core::read_safetensors(std::string(8, '\xff')),
                    ContainsSubstring("18446744073709551615"));
  CHECK_THAT(refusal("[]", ""), ContainsSubstring("not a JSON object"));
  CHECK_THAT(refusal("{\"a\":", ""), ContainsSubstring("not JSON"));
  CHECK_THAT(refusal("{\"a\":[[[[[1]]]]]}", ""), ContainsSubstring("nested deeper than"));
  CHECK_THAT(one(entry("a", "F32", "[1]", 0, 4) + "," + entry("a", "F32", "[1]", 4, 8)),
             ContainsSubstring("its header has the key \"a\" twice"));
  CHECK_THAT(one(entry("a", "F32", "[2]", 0, 8).insert(5, "\"dtype\":\"F16\",")),
             ContainsSubstring("the key \"dtype\" twice"));
  CHECK_THAT(one(entry("a", "F65", "[1]", 0, 8)),
             ContainsSubstring("the type 'F65', which the format does not have"));
  CHECK_THAT(one(entry("a", "I64", "[2]", 0, 8)), ContainsSubstring("2 of them need 16"));
  CHECK_THAT(one(entry("a", "F32", "[3]", 0, 8)), ContainsSubstring("3 of them need 12"));
  CHECK_THAT(one(entry("a", "F32", "[2]", 8, 0)), ContainsSubstring("outside the file"));
  CHECK_THAT(one(entry("a", "F32", "[4294967296,4294967296]", 0, 8)),
             ContainsSubstring("too large"));
  CHECK_THAT(one(entry("a", "F32", "[4611686018427387906]", 0, 8)),
             ContainsSubstring("too large"));  // 2^62 + 2 numbers would wrap to 8 bytes
  CHECK_THAT(one(entry("a", "F32", "[-2]", 0, 8)), ContainsSubstring("not a whole number"));
  CHECK_THAT(one(entry("a", "F32", "[2.0]", 0, 8)), ContainsSubstring("not a whole number"));
  CHECK_THAT(one(entry("a", "F32", "[2]", 0, 8) + "," + entry("b", "F32", "[1]", 4, 8)),
             ContainsSubstring("overlap"));
  CHECK_THAT(one(entry("a", "F32", "[1]", 4, 8)), ContainsSubstring("a gap"));
  CHECK_THAT(one(entry("a", "F32", "[1]", 0, 4)), ContainsSubstring("belong to no tensor"));
  CHECK_THAT(one(entry("a", "F32", "[4]", 0, 16)), ContainsSubstring("outside the file"));
  CHECK_THAT(one("\"a\":{\"dtype\":\"F32\"}"), ContainsSubstring("has no valid dtype"));
  CHECK_THAT(one("\"__metadata__\":{\"a\":1}"), ContainsSubstring("is not text"));
}

TEST_CASE("a tensor whose numbers cannot be used says why, and leaves the others alone",
          "[safetensors]") {
  const auto problem = [](const std::string& type, const std::string& numbers) {
    const int size = static_cast<int>(numbers.size());
    const int width = type == "F64" || type == "I64" ? 8
                      : type == "BOOL"               ? 1
                      : type == "F16"                ? 2
                                                     : 4;
    const auto read = core::read_safetensors(
        file_of("{" + entry("a", type, "[" + std::to_string(size / width) + "]", 0, size) + "," +
                    entry("b", "F32", "[1]", size, size + 4) + "}",
                numbers + words<float>({3.0f})));
    REQUIRE(read.tensors.size() == 2);
    CHECK(read.tensors[0].values.empty());
    CHECK(read.tensors[1].values == std::vector<float>{3.0f});
    CHECK(read.tensors[1].problem.empty());
    return read.tensors[0].problem;
  };
  // num_batches_tracked of PyTorch's BatchNorm, and position_ids of a transformer.
  CHECK(problem("I64", words<std::int64_t>({7})) ==
        "has numbers of the type 'I64', allowed are F32, F16 and BF16");
  CHECK_THAT(problem("F64", words<double>({1.0})), ContainsSubstring("'F64', allowed are"));
  CHECK_THAT(problem("BOOL", "\1"), ContainsSubstring("'BOOL', allowed are"));
  CHECK_THAT(problem("F32", words<float>({1.0f, std::numeric_limits<float>::infinity()})),
             ContainsSubstring("not finite, at place 1"));
  CHECK_THAT(problem("F16", words<std::uint16_t>({0x7e00})), ContainsSubstring("not finite"));
}
