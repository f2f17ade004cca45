// A process that a launcher started together with others, but that does not share their run.
#include "cli.hpp"

namespace {

Outcome launched(const Cli& cli, const std::map<std::string, std::string>& variables,
                 Words words = {"run", "small.yaml", "--out", "out", "-q"}) {
  Call call = cli.prepare(words);
  for (const auto& [name, value] : variables) call.environment[name] = value;
  return Process(call).finish();
}

}  // namespace

TEST_CASE("a process that was started with others does not make their run by itself") {
  const Cli cli;
  for (const std::map<std::string, std::string>& launcher :
       {std::map<std::string, std::string>{{"OMPI_COMM_WORLD_SIZE", "2"}},
        {{"PMI_SIZE", "3"}},
        {{"SLURM_STEP_NUM_TASKS", "4"}}}) {
    INFO(launcher.begin()->first);
    const Outcome refused = launched(cli, launcher);
    check_one_error_line(refused, 2);
    CHECK_THAT(refused.err, ContainsSubstring("processes together, and this one shares its run "
                                              "with none"));
    CHECK_FALSE(std::filesystem::exists(cli.out("out")));
  }
  // Variables of a single task, variables of a batch script for a job with several tasks, and cases
  // in which the user requested one process.
  CHECK(launched(cli, {{"OMPI_COMM_WORLD_SIZE", "1"}}).exit_code == 0);
  const Words alone{"run", "small.yaml", "--out", "alone", "-q", "--cluster", "local"};
  CHECK(launched(cli, {{"OMPI_COMM_WORLD_SIZE", "2"}}, alone).exit_code == 0);
  const Words other{"run", "small.yaml", "--out", "other", "-q"};
  CHECK(launched(cli, {{"SLURM_NTASKS", "2"}, {"SLURM_PROCID", "0"}}, other).exit_code == 0);
}
