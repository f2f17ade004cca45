// Steps that stay on the device, directed by the trust base: how often a step waits, and that
// results are the same whether the device stores all rows or receives a pass's rows.
#include <map>

#include "device.hpp"
#include "exact_programs.hpp"
#include "on_gpu.hpp"
#include "privgrad/trust/resident_run.hpp"
#include "privgrad/trust/state_bytes.hpp"
#include "resident_program.hpp"
#include "support.hpp"

namespace resident_on_cuda {

using namespace privgrad;
using namespace exact_programs;

namespace {

constexpr std::size_t kRows = 50;
constexpr double kClipNorm = 3.0;  // between the norms of the examples

/// Returns noise as after a payment, from a key of the step.
core::PaidNoise noise_of(std::uint64_t step) {
  const std::uint64_t node = step, levels = core::kExactLevels;
  const unsigned shift = 10;
  const double sigma = 0x1.8p26, l2_bound = kClipNorm;
  const double width = kClipNorm / static_cast<double>(levels) * 1024.0 / 20.0, stddev = 1.0;
  core::StateWriter out;
  out.begin("paid noise");
  out.put(core::RandomKey::from_seed(7));
  out.put(node, levels, shift, sigma, l2_bound, width, stddev);
  out.put(std::uint64_t{0});  // older noise
  return core::PaidNoise::of(out.text());
}

/// A run of a program on the twin.
class Run {
 public:
  /// \param holds_rows  whether the device holds all rows.
  Run(const Network& network, const char* clipping, bool holds_rows)
      : threads_(2),
        device_(on_gpu() ? cuda::open_gpu(0) : cuda::make_host_twin(threads_)),
        program_(network, device_, threads_, holds_rows ? std::size_t{1} << 30 : 0),
        clipping_(house().create<Clipping>(clipping, Value::Object{})),
        groups_(parameter_groups(network)),
        data_(network.input, features_of(network), targets_of(network)),
        run_((program_.load_parameters(begin(program_.parameter_count())), program_), data_,
             StepRule::Kind::momentum, core::RandomKey::from_seed(5), "cuda", threads_) {
    clipping_->start(groups_);
  }

  /// \returns how often the step waited.
  std::uint64_t step(std::uint64_t number, std::size_t most_rows) {
    std::vector<std::uint32_t> batch;
    for (std::uint32_t row = 0; row < kRows; ++row)
      if ((row * 7 + number) % 5 < 2) batch.push_back(row);
    const std::uint64_t before = device_->waits();
    const core::Clip clip{.rule = *clipping_, .groups = groups_, .clip_norm = kClipNorm};
    core::ResidentSum sum = run_.sum(number, {batch, clip, most_rows}, memory_, nullptr);
    const StepRule rule{.kind = StepRule::Kind::momentum, .rate = 0.05, .keep = 0.9, .take = 1.0};
    CHECK(run_.move(std::move(sum), noise_of(number), rule) == ResidentSteps::Moved::yes);
    return device_->waits() - before;
  }

  Floats parameters() {
    Floats found(program_.parameter_count());
    run_.bring_parameters(found);
    return found;
  }

 private:
  static Floats begin(std::size_t size) {
    Generator generator(3);
    Floats numbers = normals(generator, size);
    for (float& x : numbers) x *= 0.2f;
    return numbers;
  }
  static Floats features_of(const Network& network) {
    Generator generator(4);
    return random_examples(generator, network, kRows).features;
  }
  static Floats targets_of(const Network& network) {
    Generator generator(4);
    return random_examples(generator, network, kRows).targets;
  }

  ThreadExecutor threads_;
  std::shared_ptr<cuda::Device> device_;
  cuda::ResidentProgram program_;
  ComponentPtr<Clipping> clipping_;
  std::vector<ParameterGroup> groups_;
  Dataset data_;
  core::ResidentRun run_;
  core::SumMemory memory_;
};

/// The result of clip_rows() for some rows of a network with one group.
struct Found {
  explicit Found(std::size_t rows)
      : norms(rows), scales(rows), lengths(rows), taken(rows), checksums(rows) {}
  ResidentSteps::Clipped all() { return {norms, scales, lengths, taken, checksums}; }

  Doubles norms, scales;
  std::vector<SquaredLength> lengths;
  std::vector<std::uint8_t> taken;
  std::vector<std::uint64_t> checksums;
};

CellScaling to_one() {
  return {.rule = {.kind = ClipRule::Kind::shorten, .gamma = 0.0, .bounds = {1.0}},
          .clip_norm = 1.0,
          .cells_of_a_unit = static_cast<double>(kCells),
          .most_cells = kCells};
}

/// A layer with inputs, and rows for it.
struct OneLayer {
  OneLayer(std::size_t inputs, std::size_t rows) : network(make_network({inputs}, {Dense{3}})) {
    Generator generator(inputs + rows);
    Examples examples = random_examples(generator, network, rows);
    data = Dataset(network.input, std::move(examples.features), std::move(examples.targets));
  }
  std::vector<std::uint64_t> checksums_of(const std::vector<std::uint32_t>& rows) const {
    std::vector<std::uint64_t> checksums;
    for (const std::uint32_t row : rows) {
      Floats features(data.row_size()), target(1);
      data.gather({&row, 1}, features, target);
      checksums.push_back(example_checksum(features, target.front()));
    }
    return checksums;
  }

  Network network;
  Dataset data;
};

}  // namespace

TEST_CASE("cuda: a step that stays on the device waits three times", "[cuda]") {
  // Convolutions; attention and next_token.
  for (const Network& network : {networks()[5], transformer_networks()[3]}) {
    for (const bool holds_rows : {true, false}) {
      Run run(network, "flat", holds_rows);
      // The first step makes the pass, and has no earlier step to remember.
      run.step(0, 0);
      for (std::uint64_t step = 1; step < 4; ++step) CHECK(run.step(step, 0) == 3);
      CHECK(run.step(4, 7) == 5);  // once more for each further pass
    }
  }
}

TEST_CASE("cuda: steps have the same bits from rows on the device, in pinned blocks, in any passes",
          "[cuda][privacy]") {
  for (const Network& network : {networks()[1], transformer_networks()[2]}) {
    std::map<std::string, Floats> of_clipping;
    for (const char* clipping : {"flat", "per_layer", "normalized", "automatic"}) {
      INFO(clipping);
      const auto after = [&](bool holds_rows, std::size_t most_rows) {
        Run run(network, clipping, holds_rows);
        for (std::uint64_t step = 0; step < 5; ++step) run.step(step, most_rows);
        return run.parameters();
      };
      const Floats held = after(true, 0);
      CHECK((after(false, 0) == held));  // many numbers, which a message should not print
      CHECK((after(true, 7) == held));
      CHECK((after(false, 3) == held));
      for (const auto& [other, parameters] : of_clipping) CHECK((parameters != held));
      of_clipping[clipping] = held;
    }
  }
}

TEST_CASE("cuda: rows on their way are not overwritten by those of the next pass",
          "[cuda][privacy]") {
  ThreadExecutor serial(1);
  const OneLayer layer(5, 4);
  for (const bool holds_rows : {true, false}) {
    cuda::ResidentProgram program(layer.network, cuda::make_host_twin(serial), serial,
                                  holds_rows ? 1 << 20 : 0);
    const auto memory = program.make_memory(0, layer.data);
    const auto one = program.make_pass(2), other = program.make_pass(2);
    Found first(2), second(2);
    program.clip_rows(*one, std::vector<std::uint32_t>{3, 0}, to_one(), *memory, first.all());
    program.clip_rows(*other, std::vector<std::uint32_t>{1, 2}, to_one(), *memory, second.all());
    program.settle(*memory);
    CHECK(first.checksums == layer.checksums_of({3, 0}));
    CHECK(second.checksums == layer.checksums_of({1, 2}));
  }
}

TEST_CASE("cuda: the checksums of examples are those of the rows, whatever their length",
          "[cuda][privacy]") {
  ThreadExecutor serial(1);
  for (const std::size_t size : {1, 15, 16, 17, 40}) {  // a row has 16 lanes
    const OneLayer layer(size, 35);
    cuda::ResidentProgram program(
        layer.network, on_gpu() ? cuda::open_gpu(0) : cuda::make_host_twin(serial), serial);
    const auto memory = program.make_memory(0, layer.data);
    const auto pass = program.make_pass(35);
    std::vector<std::uint32_t> rows;
    for (std::uint32_t i = 0; i < 35; ++i) rows.push_back(i * 12 % 35);
    Found found(35);
    program.clip_rows(*pass, rows, to_one(), *memory, found.all());
    program.settle(*memory);
    CHECK(found.checksums == layer.checksums_of(rows));
  }
}

TEST_CASE("cuda: after a call has failed, earlier outputs stay unwritten, and there are no cells",
          "[cuda][privacy]") {
  /// Fails on request.
  struct Failing final : Executor {
    void for_each_chunk(std::size_t chunks, const std::function<void(std::size_t)>& body) override {
      if (fails) throw std::runtime_error("told to");
      for (std::size_t i = 0; i < chunks; ++i) body(i);
    }
    bool fails = false;
  };
  ThreadExecutor serial(1);
  Failing failing;
  const OneLayer layer(5, 4);
  cuda::ResidentProgram program(layer.network, cuda::make_host_twin(serial), failing, 0);
  const auto memory = program.make_memory(0, layer.data);
  const auto pass = program.make_pass(2);
  Found found(2);
  const auto clip = [&] {
    program.clip_rows(*pass, std::vector<std::uint32_t>{3, 0}, to_one(), *memory, found.all());
  };
  clip();
  program.settle(*memory);
  Cells cells(1, 77);
  const std::vector<std::uint64_t> places{0};
  program.cells_at(*memory, ResidentSteps::Cells::sum, places, cells);
  failing.fails = true;
  CHECK_THROWS_WITH(clip(), "told to");
  CHECK_THROWS_WITH(program.add_to_sum(*pass, {}, *memory),
                    "backend cuda: add_to_sum() was called before make_cells()");
  std::vector<CellFactors> factors(2);
  CHECK_THROWS_WITH(program.factors_at(*pass, places, *memory, factors),
                    "backend cuda: factors_at() was called before make_cells()");
  program.settle(*memory);
  CHECK(cells.front() == 77);
}

TEST_CASE("cuda: places are sent again when they are others", "[cuda][privacy]") {
  ThreadExecutor serial(1);
  const Network network = make_network({5}, {Dense{3}});
  const Dataset data(network.input, Floats(5, 0.5f), Floats(1, 1.0f));
  cuda::ResidentProgram program(network, cuda::make_host_twin(serial), serial);
  Floats values(program.parameter_count());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  program.load_parameters(values);
  const auto memory = program.make_memory(0, data);
  std::vector<std::uint64_t> places{1, 2, 3};
  Floats first(3), same(3), other(3);
  const auto read = [&](Floats& out) {
    program.numbers_at(*memory, ResidentSteps::Numbers::parameters, places, out);
  };
  read(first);
  read(same);
  places = {7, 5, 0};
  read(other);
  program.settle(*memory);
  CHECK(first == Floats{1, 2, 3});
  CHECK(same == Floats{1, 2, 3});
  CHECK(other == Floats{7, 5, 0});
}

TEST_CASE("cuda: rows that are not there, or more than a pass has room for, are refused",
          "[cuda][privacy]") {
  ThreadExecutor serial(1);
  const OneLayer layer(5, 4);
  cuda::ResidentProgram program(layer.network, cuda::make_host_twin(serial), serial);
  const auto memory = program.make_memory(0, layer.data);
  const auto pass = program.make_pass(2);
  Found found(2);
  CellScaling scaling = to_one();
  const auto clip = [&](const std::vector<std::uint32_t>& rows) {
    program.clip_rows(*pass, rows, scaling, *memory, found.all());
  };
  clip({3, 0});
  program.settle(*memory);
  CHECK(found.taken == std::vector<std::uint8_t>{1, 1});
  CHECK_THROWS_WITH(clip({0, 4}), "backend cuda: row 4 of 4");
  CHECK_THROWS_WITH(
      clip({0, 1, 2}),
      ContainsSubstring("a batch has 3 examples, but its pass has memory for at most 2"));
  CHECK_THROWS_WITH(clip({0}), ContainsSubstring("has 2 elements, expected 1"));
  scaling.rule.bounds = {1.0, 1.0};
  CHECK_THROWS_WITH(clip({0, 1}), ContainsSubstring("the list of bounds has 2 elements"));
  scaling.rule.bounds = {1.0};
  scaling.most_cells = (std::uint64_t{1} << 28) + 1;
  CHECK_THROWS_WITH(clip({0, 1}), ContainsSubstring("at most 2^28 are allowed"));
}

}  // namespace resident_on_cuda
