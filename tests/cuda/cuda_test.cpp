// Runs from a manifest on the backend `cuda`: on its host twin, where the results have the bits of
// the backend `cpu`, and with driver/fake_driver.cpp, where errors occur as they would on a GPU.
#include <cstring>

#include "cli.hpp"
#include "compiled_kernels.hpp"

namespace fs = std::filesystem;

namespace {

const std::string kTwin = "backend={kind: cuda, host_twin: true}";
const std::string kGpu = "backend={kind: cuda}";

const Words kNetwork = {"--set",  "data={kind: synthetic, rows: 60, test_rows: 20, dimensions: 36}",
                        "--set",  "model={kind: mlp, hidden: [7, 5]}",
                        "--set",  "seed=11",
                        "--set",  "sampler={kind: poisson, sample_rate: 0.4}",
                        "--set",  "privacy.accountant=rdp",
                        "--quiet"};

Words words(const Words& first, const Words& more) {
  Words all = first;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// Returns the tensors of a run's model, without the facts about the run.
std::string tensors(const Cli& cli, const std::string& run) {
  const std::string file = read_file(cli.out(run) / "model.safetensors");
  std::uint64_t header = 0;
  std::memcpy(&header, file.data(), sizeof header);
  REQUIRE(file.size() > sizeof header + header);
  return file.substr(sizeof header + header);
}

std::string trained(const Cli& cli, const std::string& name, const Words& more) {
  const Outcome outcome = cli.on_manifest("run", words(words(kNetwork, more), {"--out", name}));
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return tensors(cli, name);
}

/// Calls privgrad with driver/fake_driver.cpp as its driver.
Outcome over_driver(const Cli& cli, const Words& what, const std::string& faults) {
  Call call_of = cli.prepare(what);
  call_of.environment["LD_LIBRARY_PATH"] = kBuild / "tests/fake_driver";
  call_of.environment["FAKE_CUDA"] = faults;
  return call(call_of);
}

Outcome run_over_driver(const Cli& cli, const std::string& faults, const Words& more = {}) {
  return over_driver(cli, words({"run", "small.yaml", "--set", kGpu}, words(kNetwork, more)),
                     faults);
}

/// Whether there is code to load: without nvcc there is none, and the backend reports that.
bool has_kernels() { return privgrad::cuda::compiled_kernels() != nullptr; }

/// Checks that a command failed with this exit code and wrote one line, which is an error.
void check_refused(const Outcome& outcome, int exit_code) {
  INFO(outcome.out << outcome.err);
  CHECK(outcome.exit_code == exit_code);
  CHECK(outcome.out == "");
  CHECK_THAT(outcome.err, ContainsSubstring("error: "));
  CHECK(line_count(outcome.err) == 1);
}

void skip() { WARN("SKIPPED: this build has no code for GPUs, for want of nvcc"); }

}  // namespace

TEST_CASE("a run on the twin leaves the model of the backend cpu, on any threads and passes",
          "[cuda][privacy]") {
  const Cli cli;
  const std::string expected = trained(cli, "cpu", {});
  CHECK(trained(cli, "twin", {"--set", kTwin, "--threads", "1"}) == expected);
  CHECK(trained(cli, "threads", {"--set", kTwin, "--threads", "3"}) == expected);
  CHECK(trained(cli, "passes", {"--set", kTwin, "--set", "microbatch_size=7"}) == expected);
  CHECK(trained(cli, "other seed", {"--set", kTwin, "--set", "seed=12"}) != expected);
  // Exact sums stay exact: nothing is added to the unaccounted list.
  const auto unaccounted = [&](const std::string& run) {
    return Json::parse(read_file(cli.out(run) / "summary.json")).at("unaccounted");
  };
  CHECK(unaccounted("twin") == unaccounted("cpu"));
}

TEST_CASE("a run on the twin says so in its record", "[cuda]") {
  const Cli cli;
  trained(cli, "twin", {"--set", kTwin});
  CHECK_THAT(read_file(cli.out("twin") / "manifest.yaml"), ContainsSubstring("host_twin: true"));
  CHECK_THAT(read_file(cli.out("twin") / "privgrad.lock"), ContainsSubstring("privgrad.cuda"));
}

TEST_CASE("a run on the twin that is cut off goes on to the same model", "[cuda][resume]") {
  const Cli cli;
  const Words longer = {"--set", kTwin, "--set", "steps=400", "--set", "evaluate_every=400"};
  const std::string expected = trained(cli, "whole", longer);
  Process process(
      cli.prepare(words({"run", "small.yaml", "--out", "cut"}, words(kNetwork, longer))));
  REQUIRE(Process::wait_for([&] {
    std::error_code absent;
    return fs::file_size(cli.out("cut/ledger.jsonl"), absent) > 4000 && !absent;
  }));
  process.send(SIGINT);
  const Outcome cut = process.finish();
  INFO(cut.out << cut.err);
  if (cut.exit_code == 1) {  // otherwise the run ended before the signal
    const Outcome resumed = cli({"run", "--resume", "cut", "--quiet"});
    INFO(resumed.out << resumed.err);
    REQUIRE(resumed.exit_code == 0);
  }
  CHECK(tensors(cli, "cut") == expected);
}

TEST_CASE("products of another precision than float32 are refused", "[cuda]") {
  const Cli cli;
  for (const std::string precision : {"tf32", "bf16", "half"}) {
    const Outcome outcome = cli(
        words({"run", "small.yaml", "--set", "backend={kind: cuda, precision: " + precision + "}"},
              kNetwork));
    check_refused(outcome, 2);
    CHECK_THAT(outcome.err,
               ContainsSubstring("'" + precision + "'") && ContainsSubstring("float32"));
  }
}

TEST_CASE("without a driver the backend cuda is listed, with what is missing, and refuses to run",
          "[cuda]") {
  const Cli cli;
  Call list = cli.prepare({"plugins", "list"});
  list.environment["LD_LIBRARY_PATH"] = cli.dir();  // empty
  const Outcome outcome = call(list);
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("privgrad.cuda"));
  if (outcome.out.find("cuda cannot run here") == std::string::npos) {
    WARN("SKIPPED: this machine has a GPU");
    return;
  }
  check_refused(cli.on_manifest("run", {"--set", kGpu}), 2);
}

TEST_CASE("over a driver a run has the same model, by the same kernels", "[cuda][privacy]") {
  if (!has_kernels()) return skip();
  const Cli cli;
  const std::string expected = trained(cli, "cpu", {});
  const Outcome outcome = run_over_driver(cli, "", {"--out", "gpu"});
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(tensors(cli, "gpu") == expected);
}

TEST_CASE("what a machine lacks is said in one line, by the list and by a run", "[cuda]") {
  const Cli cli;
  const auto [faults, text] = GENERATE(table<std::string, std::string>(
      {{"version 11080", "the NVIDIA driver is too old: it supports CUDA 11.8, but 1"},
       {"devices 0", "the NVIDIA driver finds no usable GPU (CUDA_ERROR_NO_DEVICE)"},
       {"major 7", "GPU 0 (Fake) has compute capability 7.0, but 8.0 or newer is needed"}}));
  const Outcome list = over_driver(cli, {"plugins", "list"}, faults);
  CHECK_THAT(list.out, ContainsSubstring("backend/cuda cannot run here: " + text));
  const Outcome run = run_over_driver(cli, faults);
  check_refused(run, 2);
  CHECK_THAT(run.err, ContainsSubstring(text));
  const Json json = Json::parse(over_driver(cli, {"plugins", "list", "--json"}, faults).out);
  for (const Json& plugin : json.at("plugins")) {
    const auto missing = plugin.at("missing_hardware").get<std::string>();
    CHECK((missing.find(text) != missing.npos) == (plugin.at("name") == "cuda"));
  }
}

TEST_CASE("gpu check says whether the bits are right, what a step takes, and what is missing",
          "[cuda]") {
  const Cli cli;
  const Outcome without = over_driver(cli, {"gpu", "check"}, "devices 0");
  check_refused(without, 2);
  CHECK_THAT(without.err,
             ContainsSubstring("there is no GPU to check: the NVIDIA driver finds no"));
  if (!has_kernels()) return skip();
  Call checked = cli.prepare({"gpu", "check"});
  checked.environment["LD_LIBRARY_PATH"] = kBuild / "tests/fake_driver";
  checked.environment["COMPARE"] = "--batch 4 --steps 1 --rounds 1";
  const Outcome outcome = call(checked);
  INFO(outcome.out << outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("\nbits         right: ") &&
                              ContainsSubstring(" ms: fedavg_cnn, 4 examples, private\nratio   ") &&
                              ContainsSubstring("a plain step of PyTorch"));
}

TEST_CASE("gpu check fails where the models differ, or where a run fails", "[cuda]") {
  const Cli cli;
  // Replaces the command by a program whose model contains the backend's name instead of numbers.
  const auto check = [&](const std::string& at_gpu) {
    const fs::path program = cli.out("privgrad");
    write_file(program,
               "#!/bin/sh\n"
               "if [ \"$1\" = plugins ]; then\n"
               "  echo '\"full_name\": \"privgrad.cuda:cuda\", \"missing_hardware\": \"\"'\n"
               "  exit\nfi\n"
               "for word in \"$@\"; do\n"
               "  case $last in --out) out=$word ;; --set) set=${set:-$word} ;; esac\n"
               "  last=$word\ndone\n"
               "mkdir $out\n"
               "case $set in *cuda*) " +
                   at_gpu +
                   " ;; *) model=right ;; esac\n"
                   "printf '\\0\\0\\0\\0\\0\\0\\0\\0%s' $model >$out/model.safetensors\n");
    fs::permissions(program, fs::perms::owner_all);
    return call({.words = {"/bin/sh", kSource / "scripts/check-cuda.sh", "here", program}});
  };
  const Outcome wrong = check("model=wrong");
  CHECK(wrong.exit_code == 1);
  CHECK_THAT(wrong.out, ContainsSubstring("bits         WRONG\n"));
  CHECK(wrong.err ==
        "privgrad: error: the backend cuda leaves another model than the backend cpu\n");
  const Outcome failing = check("echo 'privgrad: error: out of memory' >&2; exit 4");
  CHECK(failing.exit_code == 4);
  CHECK(failing.err == "privgrad: error: out of memory\n");
  CHECK(failing.out.find("bits") == failing.out.npos);
}

TEST_CASE("a GPU that there is not is refused with those that there are", "[cuda]") {
  const Cli cli;
  const Outcome outcome = over_driver(
      cli, {"run", "small.yaml", "--set", "backend={kind: cuda, device: 2}"}, "devices 2");
  check_refused(outcome, 2);
  CHECK_THAT(outcome.err,
             ContainsSubstring("there is no GPU 2; the numbers on this machine are 0 to 1"));
}

TEST_CASE("where memory runs out, the line says what would fit, and that fits", "[cuda]") {
  if (!has_kernels()) return skip();
  const Cli cli;
  const Words large = {"--set", "data.rows=400",       "--set", "data.dimensions=3000",
                       "--set", "microbatch_size=400", "--set", "steps=1",
                       "--set", "sampler=full_batch"};
  const Outcome outcome = run_over_driver(cli, "memory 6", large);
  check_refused(outcome, 4);
  const std::string before = "microbatch_size: ";
  const std::size_t at = outcome.err.find(before);
  REQUIRE(at != std::string::npos);
  CHECK_THAT(outcome.err, ContainsSubstring("a pass of 400 examples takes "));
  CHECK_THAT(outcome.err, ContainsSubstring("GPU 0 (Fake) has only "));
  const std::string fits = std::to_string(std::stoul(outcome.err.substr(at + before.size())));
  const Outcome again = run_over_driver(
      cli, "memory 6", words(large, {"--set", "microbatch_size=" + fits, "--out", "fits"}));
  INFO(again.out << again.err);
  CHECK(again.exit_code == 0);
}

TEST_CASE("a GPU that fails in the middle ends the run as a kill does: it is paid, and goes on",
          "[cuda][privacy][resume]") {
  if (!has_kernels()) return skip();
  const Cli cli;
  const std::string expected = trained(cli, "cpu", {});
  const Outcome failed = run_over_driver(cli, "launches 260", {"--out", "gpu"});
  INFO(failed.out << failed.err);
  CHECK(failed.exit_code == 4);
  CHECK_THAT(failed.err, ContainsSubstring("backend cuda: GPU 0 (Fake) could not "));
  CHECK_THAT(failed.err, ContainsSubstring("CUDA_ERROR_LAUNCH_FAILED"));
  CHECK(line_count(failed.err) <= 2);
  const Outcome resumed = over_driver(cli, {"run", "--resume", "gpu", "--quiet"}, "");
  INFO(resumed.out << resumed.err);
  REQUIRE(resumed.exit_code == 0);
  CHECK(tensors(cli, "gpu") == expected);
}
