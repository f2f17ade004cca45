#include "privgrad/data/data_commitment.hpp"

#include <cmath>

#include "privgrad/digest/sha256.hpp"
#include "privgrad/error.hpp"
#include "support.hpp"

using namespace privgrad;

namespace {

core::Opening counting() {
  core::Opening opening{};
  for (std::size_t i = 0; i < opening.size(); ++i) opening[i] = static_cast<std::uint8_t>(i);
  return opening;
}

Dataset rows(std::vector<float> features, std::vector<float> targets = {0.0f, 1.0f, 1.0f}) {
  return {{{1, 2}, 2}, std::move(features), std::move(targets)};
}

}  // namespace

TEST_CASE("SHA-256 is that of FIPS 180-4, in one piece or in several", "[commitment]") {
  const std::string abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  CHECK(core::sha256_hex("abc") == abc);
  core::Sha256 pieces;
  for (const char* piece : {"a", "", "bc"}) pieces.add(std::string_view(piece));
  CHECK(pieces.hex() == abc);
  CHECK(core::is_sha256_hex(abc));
  CHECK_FALSE(core::is_sha256_hex(abc.substr(1)));
  CHECK_FALSE(core::is_sha256_hex("G" + abc.substr(1)));
}

TEST_CASE("a commitment has the encoding that its comment says", "[commitment][privacy]") {
  // Computed with Python's hashlib and struct: sha256(b"privgrad data commitment 1\n" +
  // bytes(range(32)) + pack("<QQQQQ", 3, 2, 1, 2, 2) + for each row pack("<3f", features...,
  // target)).
  CHECK(core::commitment_to(counting(), rows({0.5f, -1.25f, 0.0f, 3.0f, -0.0f, 1e-3f})) ==
        "e176c2f41edfdea61da2567f29691eddc2a86309ed4216fb754074d10aebe8ea");
}

TEST_CASE("a commitment follows every bit of the rows, their order, and the opening",
          "[commitment][privacy]") {
  const std::vector<float> features{0.5f, -1.25f, 0.0f, 3.0f, -0.0f, 1e-3f};
  const std::string one = core::commitment_to(counting(), rows(features));
  for (std::size_t i = 0; i < features.size(); ++i) {
    std::vector<float> other = features;
    other[i] = std::nextafter(other[i], 10.0f);
    CHECK(core::commitment_to(counting(), rows(other)) != one);
  }
  // Zero has a sign, which a model can detect.
  CHECK(core::commitment_to(counting(), rows({0.5f, -1.25f, 0.0f, 3.0f, 0.0f, 1e-3f})) != one);
  CHECK(core::commitment_to(counting(), rows(features, {1.0f, 1.0f, 1.0f})) != one);
  CHECK(core::commitment_to(counting(), rows({0.0f, 3.0f, 0.5f, -1.25f, -0.0f, 1e-3f})) != one);
  for (std::size_t i = 0; i < 32; ++i) {
    core::Opening opening = counting();
    opening[i] ^= 0x80;
    CHECK(core::commitment_to(opening, rows(features)) != one);
  }
}

TEST_CASE("a commitment is the same however rows are read in pieces", "[commitment]") {
  // 600 rows are three pieces; bytes and the real numbers for which they stand are the same rows.
  std::vector<std::uint8_t> bytes(600);
  std::vector<float> reals(600), targets(600, 0.0f);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(i * 7);
    reals[i] = static_cast<float>(bytes[i]);
  }
  CHECK(core::commitment_to(counting(), Dataset({{1}, 2}, bytes, 1.0f, targets)) ==
        core::commitment_to(counting(), Dataset({{1}, 2}, reals, targets)));
}

TEST_CASE("a commitment is to the last row, too, however many there are", "[commitment][privacy]") {
  for (const std::size_t count : {255u, 256u, 257u, 600u}) {
    std::vector<float> reals(count, 1.0f);
    const std::vector<float> targets(count, 0.0f);
    const auto commitment = [&] {
      return core::commitment_to(counting(), Dataset({{1}, 2}, reals, targets));
    };
    const std::string one = commitment();
    reals.back() = 2.0f;
    CHECK(commitment() != one);
  }
}

TEST_CASE("the opening of a commitment is for the user alone", "[commitment][privacy]") {
  namespace fs = std::filesystem;
  const TempDir state;
  const core::DataCommitment made =
      core::commit(std::nullopt, rows({0.5f, -1.25f, 0.0f, 3.0f, 1.0f, 2.0f}), state.path());
  REQUIRE(made.value);
  const fs::path file = state.path() / made.value->substr(0, 32) / "opening.json";
  CHECK(fs::status(file).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
  CHECK(core::commitment_to(core::read_opening(file),
                            rows({0.5f, -1.25f, 0.0f, 3.0f, 1.0f, 2.0f})) == *made.value);
}

TEST_CASE("a run goes on with the rows that it began with, or not at all",
          "[commitment][resume][privacy]") {
  const TempDir state;
  using Seed = std::optional<std::uint64_t>;
  for (const Seed seed : {Seed(), Seed(7)}) {
    const auto again = [&](float last, const std::optional<std::string>& value) {
      return core::commit_again(seed, rows({0.5f, -1.25f, 0.0f, 3.0f, 1.0f, last}), state.path(),
                                value);
    };
    const auto made =
        core::commit(seed, rows({0.5f, -1.25f, 0.0f, 3.0f, 1.0f, 2.0f}), state.path());
    REQUIRE(made.value);
    CHECK(again(2.0f, made.value).value == made.value);
    CHECK_THROWS_AS(again(2.5f, made.value), PrivacyError);
    CHECK_FALSE(again(2.0f, std::nullopt).value);
  }
}
