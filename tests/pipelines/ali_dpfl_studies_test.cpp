// The studies after Ling et al. 2023 (examples/studies/ali-dpfl): their plans match the paper's
// comparisons. The counts are those of docs/algorithms/ali-dpfl.md, from 50-digit arithmetic.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "privgrad/plan/federated_plan.hpp"
#include "privgrad/studies/study.hpp"
#include "privgrad/studies/study_plan.hpp"
#include "train.hpp"

using namespace privgrad;

namespace {

const std::filesystem::path kStudies = kSource / "examples/studies/ali-dpfl";

/// As many rows as in the study, with two numbers each, and a small model: neither affects the cost
/// of steps.
core::StudyPlan planned_study(const std::string& name, const std::string& rows = "50000",
                              const Overrides& more = {}) {
  const Overrides set{"data={kind: synthetic, rows: " + rows +
                          ", test_rows: 10, dimensions: 2, shape: gaussian, classes: 10}",
                      "data.size=" + rows, "data.test_is_public=true", "model=linear"};
  return core::plan_study(core::read_study(kStudies / (name + ".yaml")), with(set, more), house());
}

const core::Plan& arm_of(const core::StudyPlan& plan, const std::string& name) {
  const auto found =
      std::find_if(plan.arms.begin(), plan.arms.end(),
                   [&](const auto& planned_study) { return planned_study.arm->name == name; });
  REQUIRE(found != plan.arms.end());
  return found->plan;
}

struct Row {
  double epsilon;
  std::uint64_t steps, rounds;  // Rc (the steps that the budget pays for) and Rs
};

struct Table {
  std::string name;
  std::vector<Row> rows;
  std::vector<std::uint64_t> fixed;  // the fixed local iterations that are compared with ALI-DPFL
  bool has_rounds_enough;            // Rs >= Rc
};

const std::vector<Table> kTables{
    {"table-2a-fashion-mnist",
     {{1.75, 174, 174}, {1.85, 230, 230}, {2, 314, 314}},
     {2, 3, 4, 5},
     true},
    {"table-2b-fashion-mnist",
     {{1.55, 78, 158}, {1.65, 118, 231}, {1.75, 174, 317}},
     {2, 3, 4, 5},
     true},
    {"table-3-first-fashion-mnist", {{2, 314, 158}}, {1, 2, 3, 4, 5, 7, 9}, false},
    {"table-3-middle-fashion-mnist", {{2.25, 454, 231}}, {1, 2, 3, 4, 5}, false},
    {"table-3-last-fashion-mnist", {{2.5, 596, 317}}, {1, 2, 3, 4, 5, 7, 9}, false},
    {"table-4-first-fashion-mnist", {{2.75, 770, 158}}, {1, 3, 5, 7, 9}, false},
    {"table-4-middle-fashion-mnist", {{3.25, 1119, 231}}, {1, 3, 5, 7, 9}, false},
    {"table-4-last-fashion-mnist", {{3.75, 1537, 317}}, {1, 3, 5, 7, 9}, false}};

}  // namespace

TEST_CASE("the tables of Ling et al.: what each budget pays for, in every arm", "[ali][study]") {
  for (const Table& table : kTables) {
    const core::StudyPlan plan = planned_study(table.name);
    CHECK(plan.study->seeds.size() >= 3);
    std::size_t arms = 0;
    for (const Row& row : table.rows) {
      std::vector<std::uint64_t> all = table.fixed;
      all.push_back(0);  // ali-dpfl
      for (const std::uint64_t tau : all) {
        const std::string name = format_number(row.epsilon) + "+" +
                                 (tau == 0 ? "ali-dpfl" : "tau-" + std::to_string(tau));
        INFO(table.name << ", " << name);
        const core::Plan& arm = arm_of(plan, name);
        ++arms;
        const core::FederatedPlan& federated = *arm.federated;
        CHECK(arm.manifest->federated->rounds == row.rounds);
        REQUIRE(federated.clients.size() == 10);
        for (const core::ClientPlan& client : federated.clients) {
          CHECK(client.plan->dataset_size == 5000);
          CHECK(client.plan->batch_size.front() == 75.0);
        }
        CHECK(arm.epsilon().value <= row.epsilon);
        if (tau == 0 && !table.has_rounds_enough) {
          // Private estimates use the same budget: they cost at most a tenth of the steps.
          CHECK(arm.beside.size() == row.rounds);
          CHECK(arm.affordable_steps < row.steps);
          CHECK(arm.affordable_steps > row.steps * 9 / 10);
        } else {
          CHECK(arm.beside.empty());
          const std::uint64_t most = tau == 0 ? row.steps : row.rounds * tau;
          CHECK(arm.affordable_steps == std::min(row.steps, most));
        }
        // A run with enough rounds is ended by its budget: the rest would not pay for another step,
        // which costs less than 0.005 here.
        if (arm.affordable_steps < row.rounds * std::max<std::uint64_t>(1, tau))
          CHECK(arm.epsilon().value > row.epsilon - 0.005);
      }
    }
    CHECK(plan.arms.size() == arms);
  }
}

// docs/experiments/ali-dpfl.md; the counts for fixed numbers are in
// docs/algorithms/ali-dpfl.md.
TEST_CASE("the same federation by pld pays for the steps that its page says", "[ali][study]") {
  struct Column {
    std::string name, epsilon;
    std::uint64_t fixed, ali_dpfl;
  };
  for (const Column& column : {Column{"first", "2", 716, 706}, Column{"last", "2.5", 1115, 1099}}) {
    const core::StudyPlan plan = planned_study("table-3-" + column.name + "-fashion-mnist", "50000",
                                               {"privacy.accountant=pld"});
    CHECK(arm_of(plan, column.epsilon + "+tau-9").affordable_steps == column.fixed);
    CHECK(arm_of(plan, column.epsilon + "+ali-dpfl").affordable_steps == column.ali_dpfl);
  }
}

TEST_CASE("the first column of Table III on other data pays for the same steps", "[ali][study]") {
  for (const auto& [name, rows] :
       {std::pair{"table-3-cifar10", "20000"}, std::pair{"table-3-mnist", "50000"}}) {
    const core::StudyPlan plan = planned_study(name, rows);
    CHECK(plan.arms.size() == 8);
    CHECK(arm_of(plan, "2+tau-1").affordable_steps == 158);
    CHECK(arm_of(plan, "2+tau-9").affordable_steps == 314);
  }
}

TEST_CASE("the bases of the tables sample 15 of 1000, and leave the end to the budget",
          "[ali][study]") {
  struct Base {
    const char* name;
    std::uint64_t size;
    double batch;
  };
  for (const Base& base :
       {Base{"fashion-mnist", 50000, 75}, Base{"mnist", 50000, 75}, Base{"cifar10", 20000, 30}}) {
    INFO(base.name);
    const core::Manifest manifest =
        core::load_manifest(kStudies / (std::string(base.name) + ".yaml"), {}, house());
    CHECK(manifest.dataset_size == base.size);
    const Value* data = manifest.resolved.find("data");
    CHECK(std::get<std::string>(data->find("name")->data()) == base.name);
    CHECK(std::get<std::int64_t>(data->find("limit")->data()) ==
          static_cast<std::int64_t>(base.size));
    CHECK(manifest.federated->clients == 10);
    CHECK(std::get<double>(manifest.resolved.find("sampler")->find("batch_size")->data()) ==
          base.batch);
    CHECK(base.batch / (static_cast<double>(base.size) / 10.0) == 0.015);
    CHECK(manifest.steps > 1537);  // more than any budget in the tables can pay for
  }
}
