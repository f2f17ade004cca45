// Accountants with claims and accountants with proofs: a plan distinguishes them.
#include <memory>

#include "house_plugins.hpp"
#include "privgrad/manifest/manifest.hpp"
#include "privgrad/plan/plan.hpp"

using namespace privgrad;

namespace {

/// Returns the answers in its parameters, whatever happened.
class Scripted : public Accountant {
 public:
  explicit Scripted(const Params& params)
      : answer_{.value = params.real("value"),
                .bound = params.text("bound") == "exact"   ? BoundKind::exact
                         : params.text("bound") == "upper" ? BoundKind::upper
                                                           : BoundKind::estimate,
                .lower = params.real("lower"),
                .note = "scripted"} {}
  void start(Adjacency) override {}
  std::optional<std::string> refuses(const Event&) const override { return std::nullopt; }
  void compose(const Event&, std::uint64_t) override {}
  PrivacyAnswer epsilon(double) const override { return answer_; }
  PrivacyAnswer delta(double) const override { return answer_; }

 private:
  PrivacyAnswer answer_;
};

/// Proves that epsilon lies in [1, 2]; with delta = 1e-6 it fails, and with 1e-7 it finds no finite
/// value.
class Prover final : public Accountant {
 public:
  explicit Prover(const Params&) {}
  void start(Adjacency) override {}
  std::optional<std::string> refuses(const Event& event) const override {
    if (!std::holds_alternative<NonPrivateEvent>(event.kind())) return std::nullopt;
    return "not private";
  }
  void compose(const Event&, std::uint64_t) override {}
  PrivacyAnswer epsilon(double delta) const override {
    if (delta == 1e-6) throw NumericError("the grid is too small");
    return {.value = delta == 1e-7 ? HUGE_VAL : 2.0,
            .bound = BoundKind::upper,
            .lower = 1.0,
            .note = ""};
  }
  PrivacyAnswer delta(double) const override { return epsilon(0.5); }
};

ComponentInfo scripted(std::string name, std::string certified_by) {
  return {.name = std::move(name),
          .summary = "Answers what it is told to.",
          .reference = "none: a test",
          .params = {param::real("value", "Epsilon.").defaults_to(1.5),
                     param::real("lower", "Its lower bound.").defaults_to(0.0),
                     param::text("bound", "What it is worth.")
                         .one_of({"exact", "upper", "estimate"})
                         .defaults_to("exact")},
          .certified_by = std::move(certified_by)};
}

const Catalog& scripted_catalog() {
  static const Catalog all = [] {
    Catalog made = own_house();
    Registrar registrar;
    registrar.add<Accountant, Scripted>(scripted("claims", "proves"));
    registrar.add<Accountant, Scripted>(scripted("says", ""));
    registrar.add<Accountant, Scripted>(scripted("orphan", "nobody"));
    registrar.add<Accountant, Prover>(
        {.name = "proves", .summary = "Proves [1, 2].", .reference = "none: a test", .params = {}});
    made.add(std::make_shared<PluginIdentity>(PluginIdentity{"scripted", "1", "", "", ""}), nullptr,
             registrar.factories());
    return made;
  }();
  return all;
}

struct Asked {
  std::string accountant;
  std::string also = "[]";
  std::string delta = "1e-5";
};

std::vector<core::AccountantReport> reports(const Asked& asked) {
  const std::string text =
      "privgrad: 1\nname: certificates\n"
      "data: {kind: synthetic, rows: 100, test_rows: 10, dimensions: 4}\n"
      "model: {kind: linear}\nsampler: {kind: full_batch}\noptimizer: {kind: sgd}\n"
      "schedules: {noise_multiplier: 40, clip_norm: 1.0, learning_rate: 0.5}\n"
      "privacy: {target_delta: " +
      asked.delta + ", adjacency: zero_out, accountant: " + asked.accountant +
      ", also: " + asked.also + "}\nsteps: 4\n";
  const core::Manifest manifest =
      core::parse_manifest(text, "certificates.yaml", {}, scripted_catalog());
  return core::make_plan(manifest).accountants;
}

PrivacyAnswer guard(const Asked& asked) { return reports(asked).front().epsilon; }

/// Returns the answer of an accountant that is reported in addition to the guard.
PrivacyAnswer beside(const std::string& accountant, const std::string& delta = "1e-5") {
  return reports({.accountant = "says", .also = "[" + accountant + "]", .delta = delta})
      .at(1)
      .epsilon;
}

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Returns the text of the error with which a plan ends.
template <class Error>
std::string certificates_refusal(const Asked& asked) {
  try {
    reports(asked);
  } catch (const Error& error) {
    return error.what();
  }
  FAIL("the plan was made");
  return {};
}

}  // namespace

TEST_CASE("a budget is guarded by what is proved, whatever is claimed", "[certificate][privacy]") {
  for (const char* accountant :
       {"{kind: claims, value: 1.5, lower: 1.4}", "{kind: claims, value: 0.9, lower: 0.8}",
        "{kind: claims, value: 2.5, lower: 2.1}", "{kind: claims, bound: estimate}"}) {
    const PrivacyAnswer answer = guard({.accountant = accountant});
    CHECK(answer.value == 2.0);
    CHECK(answer.bound == BoundKind::upper);
    CHECK(answer.lower == 1.0);
    CHECK(mentions(answer.note, "proved by proves, which certifies claims"));
  }
  CHECK(std::isinf(guard({.accountant = "claims", .delta = "1e-7"}).value));
  CHECK(mentions(certificates_refusal<NumericError>({.accountant = "claims", .delta = "1e-6"}),
                 "the grid is too small"));
}

TEST_CASE("a claim inside the proven interval is shown with it, as an estimate", "[certificate]") {
  const PrivacyAnswer answer = beside("{kind: claims, value: 1.5, lower: 1.4}");
  CHECK(answer.value == 1.5);
  CHECK(answer.bound == BoundKind::estimate);
  CHECK(answer.lower == 1.0);  // the proved value
  CHECK(mentions(answer.note, "inside [1, 2], which proves proves"));
}

TEST_CASE("of a claim that lies across an end, the part inside counts", "[certificate]") {
  CHECK(beside("{kind: claims, value: 2.5, lower: 1.9}").value == 2.0);
  CHECK(beside("{kind: claims, value: 1.25, lower: 0.5}").value == 1.25);
}

TEST_CASE("of what is claimed to be an upper bound, the proved one is shown", "[certificate]") {
  const PrivacyAnswer answer = beside("{kind: claims, value: 1.5, bound: upper}");
  CHECK(answer.value == 2.0);
  CHECK(answer.bound == BoundKind::upper);
}

TEST_CASE("a claim outside the proven interval yields to it, and the note says so",
          "[certificate]") {
  for (const char* accountant : {"{kind: claims, value: 0.9, lower: 0.8}",  // would overspend
                                 "{kind: claims, value: 2.5, lower: 2.1}"}) {
    const PrivacyAnswer answer = beside(accountant);
    CHECK(answer.value == 2.0);
    CHECK(answer.bound == BoundKind::upper);
    CHECK(answer.lower == 1.0);
    CHECK(mentions(answer.note, "claims claims"));
    CHECK(mentions(answer.note, "the proof counts"));
  }
}

TEST_CASE("where nothing finite is proved, a claim does not help", "[certificate]") {
  CHECK(std::isinf(beside("claims", "1e-7").value));
}

TEST_CASE("a claim whose proof fails is an estimate", "[certificate]") {
  const PrivacyAnswer answer = beside("claims", "1e-6");
  CHECK(answer.bound == BoundKind::estimate);
  CHECK(mentions(answer.note, "no certificate: the grid is too small"));
}

TEST_CASE("an estimate is not made better by a proof beside it", "[certificate]") {
  const auto shown = reports({.accountant = "zcdp", .also = "[{kind: claims, bound: estimate}]"});
  CHECK(shown.at(1).epsilon.bound == BoundKind::estimate);
}

TEST_CASE("an accountant whose certifier is not loaded is refused where it is named",
          "[certificate]") {
  const std::string text = certificates_refusal<core::ManifestError>({.accountant = "orphan"});
  CHECK(mentions(text, "certificates.yaml:"));
  CHECK(mentions(text, "scripted:orphan is certified by 'nobody'"));
}

TEST_CASE("accountants that contradict each other are refused, whichever guards", "[certificate]") {
  // The epsilon of zcdp at noise multiplier 5 and 4 steps is about 2; nobody can prove 1000.
  const char* liar = "{kind: says, value: 1001, lower: 1000}";
  const std::string beside = certificates_refusal<PrivacyError>(
      {.accountant = "zcdp", .also = std::string("[") + liar + "]"});
  CHECK(mentions(beside, "privacy.also: the accountants contradict each other: says proves"));
  CHECK(mentions(certificates_refusal<PrivacyError>({.accountant = liar, .also = "[zcdp]"}),
                 "contradict"));
  // An estimate may have any value.
  CHECK_NOTHROW(reports({.accountant = liar, .also = "[{kind: says, bound: estimate}]"}));
}

TEST_CASE("noise that saddle_point calibrates is raised until pld proves the budget",
          "[certificate][privacy]") {
  const auto planned = [](const std::string& accountant) {
    const std::string text =
        "privgrad: 1\nname: guarded\n"
        "data: {kind: synthetic, rows: 1000, test_rows: 10, dimensions: 4}\n"
        "model: {kind: linear}\nsampler: {kind: poisson, batch_size: 10}\noptimizer: {kind: sgd}\n"
        "schedules: {noise_multiplier: uniform, clip_norm: 1.0, learning_rate: 0.5}\n"
        "privacy: {target_epsilon: 2, target_delta: 1e-5, adjacency: add_or_remove_one, "
        "accountant: " +
        accountant + ", also: [rdp]}\nsteps: 500\n";
    return core::make_plan(core::parse_manifest(text, "guarded.yaml", {}, house()));
  };
  const core::Plan plan = planned("saddle_point");
  // All steps are affordable, so no answer below the proof was used to find the noise.
  CHECK(plan.affordable_steps == 500);
  const auto pld = house().create<Accountant>("pld", {});
  pld->start(Adjacency::add_or_remove_one);
  pld->compose(plan.event, 1);
  const PrivacyAnswer proof = pld->epsilon(1e-5);
  CHECK(proof.value <= 2.0);
  CHECK(plan.epsilon().value == proof.value);
  CHECK(plan.epsilon().lower == proof.lower);
  CHECK(plan.epsilon().bound == BoundKind::upper);
  // The plan is as near to the target as the width of pld's interval, and as a plan by pld alone.
  const auto estimates = house().create<Accountant>("saddle_point", {});
  estimates->start(Adjacency::add_or_remove_one);
  estimates->compose(plan.event, 1);
  CHECK_THAT(estimates->epsilon(1e-5).value, WithinRel(2.0, 2e-5));
  CHECK_THAT(plan.noise_multiplier.front(),
             WithinRel(planned("pld").noise_multiplier.front(), 1e-5));
}
