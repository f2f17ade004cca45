// Study files: the varied keys, the resulting arms, and the mistakes in a file.
#include "privgrad/studies/study.hpp"

#include "manifest_fixture.hpp"
#include "privgrad/studies/study_search.hpp"

using namespace privgrad;
using namespace privgrad::core;
using Lines = std::vector<std::string>;

namespace {

const std::string kHead = "study: 1\nbase: {steps: 3}\nseeds: 2\n";  // 3 lines

Study study(const std::string& text) { return parse_study(text, "/nowhere/s.yaml"); }

Lines names(const Study& given) {
  Lines out;
  for (const Arm& arm : given.arms) out.push_back(arm.name);
  return out;
}

Lines arms_of(const std::string& text) { return names(study(kHead + text)); }

Lines problems_of(const std::string& text) {
  Lines out;
  try {
    study(text);
  } catch (const ManifestError& error) {
    for (const std::string& line : error.lines()) {
      out.push_back(line.starts_with("/nowhere/") ? line.substr(9) : line);
    }
  }
  return out;
}

/// Returns the problems of the text after the head.
Lines problems_after_head(const std::string& text) { return problems_of(kHead + text); }

}  // namespace

TEST_CASE("axes span a grid, the last one fastest, and named arms follow", "[study]") {
  CHECK(arms_of("axes:\n"
                "  optimizer: [sgd, {kind: momentum, beta: 0.9}]\n"
                "  schedules.clip_norm: [1, 0.5]\n"
                "arms: {wild: {steps: 9}}\n") ==
        Lines{"sgd+1", "sgd+0.5", "momentum+1", "momentum+0.5", "wild"});
}

TEST_CASE("an arm changes what its place on the axes says", "[study]") {
  const Study given = study(kHead + "axes: {optimizer: [sgd], steps: [3, 5]}\n");
  REQUIRE(given.arms.size() == 2);
  const Arm& arm = given.arms[1];
  CHECK(arm.labels == std::map<std::string, std::string>{{"optimizer", "sgd"}, {"steps", "5"}});
  REQUIRE(arm.changes.size() == 2);
  CHECK(arm.changes[0].key == "optimizer");
  CHECK(arm.changes[1].key == "steps");
  CHECK(std::get<std::int64_t>(arm.changes[1].value.data()) == 5);
}

TEST_CASE("values are named by themselves, by their kind, or by parameters where kinds are equal",
          "[study]") {
  CHECK(arms_of("axes: {a: [1e-8, true, relu, [4, 2], null]}\n") ==
        Lines{"1e-08", "true", "relu", "4-2", "none"});
  CHECK(arms_of("axes: {a: [sgd, {kind: step, every: 2}, {kind: step, every: 4}]}\n") ==
        Lines{"sgd", "step-every=2", "step-every=4"});
  CHECK(arms_of("axes: {a: {low: 1, high: {kind: step, every: 2}}}\n") == Lines{"low", "high"});
}

TEST_CASE("a zip varies its keys together", "[study]") {
  CHECK(arms_of("zip: [{a: [1, 2], b: [x, y]}]\naxes: {c: [p, q]}\n") ==
        Lines{"p+1", "p+2", "q+1", "q+2"});
  CHECK(arms_of("zip: [{a: {one: 1, two: 2}, b: [x, x2]}]\n") == Lines{"one", "two"});
  // An arm is named after the first key that distinguishes the rows; a table shows the value of
  // each key.
  CHECK(study(kHead + std::string("zip: [{a: [1, 2], b: [x, y]}]\n")).arms[1].labels ==
        std::map<std::string, std::string>{{"a", "2"}, {"b", "y"}});
}

TEST_CASE("skip drops arms, only keeps them", "[study]") {
  const std::string axes = "axes: {a: [1, 2, 3], b: [x, y]}\n";
  CHECK(arms_of(axes + "skip: [{a: 2}, {a: 3, b: y}]\n") == Lines{"1+x", "1+y", "3+x"});
  CHECK(arms_of(axes + "skip: [{a: [1, 2], b: x}]\n") == Lines{"1+y", "2+y", "3+x", "3+y"});
  CHECK(arms_of(axes + "only: [{b: x}, {a: 3}]\n") == Lines{"1+x", "2+x", "3+x", "3+y"});
  CHECK(arms_of(axes + "only: [{b: x}]\nskip: [{a: 1}]\n") == Lines{"2+x", "3+x"});
  // A kind means all components of that kind; a whole component means exactly itself.
  const std::string kinds = "axes: {o: [sgd, {kind: step, every: 2}, {kind: step, every: 4}]}\n";
  CHECK(arms_of(kinds + "skip: [{o: step}]\n") == Lines{"sgd"});
  CHECK(arms_of(kinds + "skip: [{o: {every: 4, kind: step}}]\n") == Lines{"sgd", "step-every=2"});
  // A list is a single value if lists vary.
  CHECK(arms_of("axes: {h: [[4], [4, 2]]}\nskip: [{h: [4, 2]}]\n") == Lines{"4"});
}

TEST_CASE("the baseline is the first arm, a named one, or the one at a place", "[study]") {
  const std::string axes = "axes: {a: [1, 2], b: [x, y]}\n";
  CHECK(study(kHead + axes).baselines.front() == 0);
  CHECK(study(kHead + axes + "baseline: 2+x\n").baselines.front() == 2);
  CHECK(study(kHead + axes + "baseline: {b: y, a: 2}\n").baselines.front() == 3);
  CHECK(
      problems_after_head(axes + "baseline: {b: y}\n") ==
      Lines{"s.yaml:5:11: error: baseline: describes 2 arms, '1+y' and '2+y' among them; say more "
            "of it"});
  CHECK(problems_after_head(axes + "baseline: 2+z\n") ==
        Lines{"s.yaml:5:11: error: baseline: is '2+z', which is not an arm; did you mean '2+x'?"});
}

TEST_CASE("curves name arms, each once", "[study]") {
  const std::string axes = "axes: {optimizer: [sgd, adam]}\n";
  CHECK(study(kHead + axes + "curves: [adam]\n").curves == Lines{"adam"});
  CHECK(problems_after_head(axes + "curves: [adm]\n") ==
        Lines{"s.yaml:5:10: error: curves: 'adm' is not an arm; did you mean 'adam'?"});
  CHECK(problems_after_head(axes + "curves: [adam, adam]\n").size() == 1);
}

TEST_CASE("levels come before the axes, and the baseline's variant is at each of them", "[study]") {
  const std::string levels = "levels: {privacy.target_epsilon: [1, 2]}\n";
  const std::string axes = "axes: {b: [x, y]}\n";
  const Study given = study(kHead + levels + axes + "arms: {wild: {steps: 9}}\nbaseline: y\n");
  CHECK(names(given) == Lines{"1+x", "1+y", "2+x", "2+y", "1+wild", "2+wild"});
  CHECK(given.baselines == std::vector<std::size_t>{1, 3});
  CHECK(given.baseline_of(given.arms[5]).name == "2+y");
  CHECK(given.arms[5].variant == "wild");
  REQUIRE(given.arms[5].changes.size() == 2);
  CHECK(given.arms[5].changes[0].key == "privacy.target_epsilon");
  REQUIRE(given.levels);
  CHECK(given.levels->keys == Lines{"privacy.target_epsilon"});
  CHECK(given.axes.size() == 1);

  CHECK(study(kHead + levels + axes + "baseline: {b: y}\n").baselines ==
        std::vector<std::size_t>{1, 3});
  CHECK(names(study(kHead + levels + "arms: {a: {}, b: {steps: 9}}\n")) ==
        Lines{"1+a", "2+a", "1+b", "2+b"});
  // Keys of levels vary together.
  CHECK(names(study(kHead + "levels: {a: [1, 2], b: [x, y]}\n")) == Lines{"1+base", "2+base"});
}

TEST_CASE("a baseline is wanted at each level", "[study]") {
  const std::string text = "levels: {a: [1, 2]}\naxes: {b: [x, y]}\n";
  CHECK(problems_after_head(text + "skip: [{a: 2, b: x}]\n") ==
        Lines{"s.yaml:1:1: error: baseline: is 'x', which is not an arm at the level '2'"});
  CHECK(problems_after_head(text + "baseline: {a: 1, b: x}\n") ==
        Lines{"s.yaml:6:11: error: baseline: names a level, but there is a baseline at each: say "
              "where it is on the axes"});
}

TEST_CASE("titles are of keys that vary", "[study]") {
  const std::string text = "levels: {data.limit: [1, 2]}\n";
  const Study given = study(kHead + text + "titles: {data.limit: examples}\n");
  CHECK(given.titles.at("data.limit") == "examples");
  CHECK(problems_after_head(text + "titles: {data.limits: examples}\n") ==
        Lines{"s.yaml:5:10: error: titles.data.limits: is not varied by this study; did you mean "
              "'data.limit'?"});
}

TEST_CASE("seeds are a number of them, or a list", "[study]") {
  CHECK(study("study: 1\nbase: {}\nseeds: 3\n").seeds == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(study("study: 1\nbase: {}\nseeds: [7, 0]\n").seeds == std::vector<std::uint64_t>{7, 0});
  const auto wrong = [](const std::string& seeds) {
    return problems_of("study: 1\nbase: {}\nseeds: " + seeds + "\n");
  };
  CHECK(wrong("0") == Lines{"s.yaml:3:8: error: seeds: is 0, allowed is 1 to 10000"});
  CHECK(wrong("[1, 1]") == Lines{"s.yaml:3:12: error: seeds: has 1 twice"});
  CHECK(wrong("[1, -2, x]").size() == 2);
  CHECK(wrong("{a: 1}").size() == 3);
  CHECK(wrong("[]").size() == 1);
}

TEST_CASE("metrics know which way is better", "[study]") {
  const Study given = study(kHead + "metrics: [test_loss, train_accuracy]\n");
  REQUIRE(given.metrics.size() == 2);
  CHECK_FALSE(given.metrics[0].higher_is_better);
  CHECK(given.metrics[1].higher_is_better);
  CHECK(
      problems_after_head("metrics: test_acuracy\n") ==
      Lines{"s.yaml:4:10: error: metrics: is 'test_acuracy', allowed are test_accuracy, test_loss, "
            "train_accuracy, train_loss, gradient_norm, mean_gradient_norm; did you mean "
            "'test_accuracy'?"});
}

TEST_CASE("every problem of a study is said at once, with its place and the nearest right name",
          "[study]") {
  CHECK(problems_of("study: 1\nbas: x\nseeds: 2\naxes: {optimizer: {kind: sgd}}\n") ==
        Lines{"s.yaml:1:1: error: base: is missing; The manifest that arms vary: a file beside the "
              "study, or the manifest itself.",
              "s.yaml:2:1: error: bas: is unknown; did you mean 'base'?",
              "s.yaml:4:19: error: axes.optimizer: is one component, expected a list of values or "
              "{NAME: VALUE, ...}"});
  CHECK(problems_after_head("axes: {optimizer: [sgd, adam]}\nskip: [{optimizer: adm}, {optimiser: "
                            "sgd}]\n") ==
        Lines{"s.yaml:5:20: error: skip.0.optimizer: is 'adm', which is not on this axis; did you "
              "mean 'adam'?",
              "s.yaml:5:27: error: skip.1.optimiser: is not varied by this study; did you mean "
              "'optimizer'?"});
  CHECK(problems_after_head("axes: {a: [1, 1.0]}\n") ==
        Lines{"s.yaml:4:15: error: axes.a: has two values called '1'; take one away, or name them, "
              "as in {NAME: VALUE, ...}"});
  CHECK(problems_after_head("zip: [{a: [1, 2], b: [1]}]\n") ==
        Lines{"s.yaml:4:22: error: zip.0.b: has 1 value(s), a has 2; a group varies its keys "
              "together"});
  CHECK(problems_after_head("axes: {a: [1]}\nskip: [{a: 1}]\n") ==
        Lines{"s.yaml:1:1: error: skip and only leave no arm of the grid"});
}

TEST_CASE("what would silently vary nothing is refused", "[study]") {
  CHECK(problems_after_head("axes: {seed: [1, 2]}\n").size() == 1);
  CHECK(problems_after_head("set: {privacy.calibrate: all}\n").size() == 1);
  CHECK(problems_after_head("axes: {optimizer.beta: [0.5, 0.9], optimizer: [momentum]}\n") ==
        Lines{"s.yaml:4:36: error: 'optimizer' replaces 'optimizer.beta', which is varied before "
              "it; vary it first"});
  CHECK(problems_after_head("axes: {a: [1]}\nzip: [{a: [2]}]\n").size() == 1);
  CHECK(arms_of("axes: {optimizer: [momentum], optimizer.beta: [0.5, 0.9]}\n").size() == 2);
}

TEST_CASE("hostile study files are refused", "[study]") {
  const char* wrong[] = {"",
                         "[]",
                         "study",
                         "study: 2\n",
                         "study: x\nbase: {}\nseeds: 1\n",
                         "study: 1\nbase: 3\nseeds: 1\n",
                         "study: 1\nbase: ''\nseeds: 1\n",
                         "study: 1\nname: ../x\nbase: {}\nseeds: 1\n",
                         "study: 1\nbase: {}\nseeds: 9999999999999999999999\n",
                         "study: 1\nbase: {}\nseeds: 1\naxes: [optimizer]\n",
                         "study: 1\nbase: {}\nseeds: 1\naxes: {a: 3}\n",
                         "study: 1\nbase: {}\nseeds: 1\naxes: {a: []}\n",
                         "study: 1\nbase: {}\nseeds: 1\naxes: {'': [1]}\n",
                         "study: 1\nbase: {}\nseeds: 1\naxes: {a..b: [1]}\n",
                         "study: 1\nbase: {}\nseeds: 1\naxes: {a: [..]}\n",
                         "study: 1\nbase: {}\nseeds: 1\naxes: {a: {../../x: 1}}\n",
                         "study: 1\nbase: {}\nseeds: 1\narms: {../x: {}}\n",
                         "study: 1\nbase: {}\nseeds: 1\narms: {x: 3}\n",
                         "study: 1\nbase: {}\nseeds: 1\nzip: {a: [1]}\n",
                         "study: 1\nbase: {}\nseeds: 1\nskip: {a: 1}\n",
                         "study: 1\nbase: {}\nseeds: 1\nskip: [3]\n",
                         "study: 1\nbase: {}\nseeds: 1\nequal_privacy: 1\n",
                         "study: 1\nbase: {}\nseeds: 1\nset: [1]\n",
                         "study: 1\nbase: {}\nseeds: 1\nmetrics: []\n",
                         "study: 1\nbase: {}\nseeds: 1\nbaseline: 3\n",
                         "study: 1\nbase: &x {}\nseeds: 1\n"};
  for (const char* text : wrong) {
    CAPTURE(text);
    CHECK_FALSE(problems_of(text).empty());
  }
  std::string many = "[0";
  for (int i = 1; i < 101; ++i) many += ", " + std::to_string(i);
  many += "]";
  // 101^8 arms must be counted before they are written out.
  std::string axes = "axes: {";
  for (const char* key : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    axes += std::string(axes.back() == '{' ? "" : ", ") + key + ": " + many;
  }
  CHECK_FALSE(problems_after_head(axes + "}\n").empty());
}

TEST_CASE("a study cut off anywhere is read or refused, never a crash", "[study]") {
  const std::string whole = kHead +
                            "axes: {optimizer: [sgd, {kind: m, b: 1}]}\nzip: [{a: [1], b: "
                            "[2]}]\nskip: [{a: 1, optimizer: m}]\nbaseline: {optimizer: sgd}\n";
  REQUIRE(problems_of(whole).empty());
  int refused = 0;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    try {
      study(whole.substr(0, length));
    } catch (const ConfigError&) {
      ++refused;
    } catch (const IoError&) {  // the base was truncated to a file's name
      ++refused;
    }
  }
  CHECK(refused > 10);
}

TEST_CASE("seeds may be added until differences are known to a width", "[study]") {
  const auto text = [](const std::string& rule) {
    return "study: 1\nbase: {}\nmetrics: [test_loss]\nseeds: {" + rule + "}\n";
  };
  const Study given = study(text("until: {test_loss: 0.5}, at_least: 3, at_most: 20"));
  CHECK(given.seeds == std::vector<std::uint64_t>{1, 2, 3});
  REQUIRE(given.seed_rule);
  CHECK(given.seed_rule->widths.at("test_loss") == 0.5);
  CHECK(looks_of(given) == 4);  // 3, 6, 12, 20
  CHECK(looks_of(study(kHead)) == 1);
  CHECK(
      problems_of(text("until: {test_loss: 0.5}")) ==
      Lines{
          "s.yaml:4:8: error: seeds.at_most: is missing; Seeds at which it stops at the latest."});
  CHECK(problems_of(text("until: {test_accuracy: 1}, at_most: 9")) ==
        Lines{"s.yaml:4:8: error: seeds.until.test_accuracy: is not one of the study's metrics"});
  CHECK(problems_of(text("until: {test_loss: 0}, at_most: 9")) ==
        Lines{"s.yaml:4:28: error: seeds.until.test_loss: is 0, allowed is above 0"});
  CHECK(problems_of(text("until: {test_loss: 1}, at_least: 10, at_most: 9")) ==
        Lines{"s.yaml:4:8: error: seeds: has an at_least that is more than at_most"});
}

TEST_CASE("a search has seeds and keys of its own", "[study]") {
  const auto text = [](const std::string& search) {
    return "axes: {a: [1, 2]}\nsearch: {" + search + "}\n";
  };
  const Study given =
      study(kHead + text("over: {b: [x, y], c: [1, 2, 3]}, seeds: [7], score: test_loss"));
  REQUIRE(given.search);
  CHECK(given.search->over.size() == 2);
  CHECK(given.search->seeds == std::vector<std::uint64_t>{7});
  CHECK_FALSE(given.search->score.higher_is_better);
  CHECK(problems_after_head(text("over: {b: [1]}, seeds: [2, 3]")) ==
        Lines{"s.yaml:5:33: error: search.seeds: has 2, which the comparison uses; take others"});
  CHECK(problems_after_head(text("over: {a.x: [1]}, seeds: [7]")) ==
        Lines{"s.yaml:5:17: error: search.over.a.x: cannot be searched: 'a' varies already"});
  CHECK(
      problems_after_head(text("over: {b: [1]}")) ==
      Lines{
          "s.yaml:5:9: error: search.seeds: is missing; Seeds that the comparison does not use."});
  CHECK(problems_after_head(text("over: {b: [1]}, seeds: [7], scores: x")) ==
        Lines{"s.yaml:5:38: error: search.scores: is unknown; did you mean 'score'?"});
  CHECK(problems_after_head(text("over: {b: [1]}, seeds: [7], set: {privacy.target_epsilon: 9}")) ==
        Lines{"s.yaml:5:43: error: search.set: changes the guarantee of the arms"});
  const Study own = study(kHead + text("arms: {2: {b: [3, 4]}}, seeds: [7]"));
  CHECK(candidate_count(*own.search, "1") == 1);
  CHECK(candidate_count(*own.search, "2") == 2);
  CHECK(problems_after_head(text("arms: {3: {a: [3, 4]}}, seeds: [7]")) ==
        Lines{"s.yaml:5:9: error: search: lacks over or arms: what is searched",
              "s.yaml:5:17: error: search.arms.3: is not an arm; did you mean '1'?"});
  CHECK(problems_after_head(text("seeds: [7]")) ==
        Lines{"s.yaml:5:9: error: search: lacks over or arms: what is searched"});
}

TEST_CASE("a search refines arms and makes no others of them", "[study]") {
  const auto text = [](const std::string& search) {
    return "axes: {o: {sgd: sgd, momentum: {kind: momentum, beta: 0.5}}}\n"
           "arms: {slow: {rate: 0.1, noise: {kind: step, every: 5}}}\n"
           "search: {seeds: [7], " +
           search + "}\n";
  };
  const auto refused = [&](const std::string& search) {
    const Lines lines = problems_after_head(text(search));
    REQUIRE(lines.size() == 1);
    return lines.front().substr(lines.front().find("error: ") + 7);
  };
  CHECK(problems_after_head(text("over: {b: [1, 2]}, set: {data.seed: 5}")).empty());
  CHECK(problems_after_head(text("arms: {momentum: {o.beta: [0.1, 0.2]}}")).empty());
  CHECK(problems_after_head(text("arms: {slow: {noise: {a: {kind: step, every: 3}}}}")).empty());
  CHECK(refused("over: {rate: [1, 2]}") ==
        "search.over.rate: replaces what the arm slow sets; search it for single arms, under "
        "search.arms");
  CHECK(refused("arms: {slow: {rate: [1, 2]}}") ==
        "search.arms.slow.rate: replaces what the arm slow sets");
  CHECK(refused("arms: {momentum: {o: [sgd]}}") ==
        "search.arms.momentum.o: replaces what the arm momentum sets, which is a component of "
        "another kind");
  CHECK(refused("over: {b: [1]}, set: {rate: 1}") ==
        "search.set.rate: sets 'rate', which is compared or searched");
  CHECK(refused("over: {b.c: [1]}, set: {b: 1}") ==
        "search.set.b: sets 'b.c', which is compared or searched");
  CHECK(refused("over: {b: [1]}, set: {o.beta: 0.9}") ==
        "search.set.o.beta: sets 'o', which is compared or searched");
}
