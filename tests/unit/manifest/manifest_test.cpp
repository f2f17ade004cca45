#include "manifest_fixture.hpp"

using namespace privgrad;
using namespace privgrad::core;
using Lines = std::vector<std::string>;

TEST_CASE("a manifest is read, checked and completed", "[manifest]") {
  const Manifest manifest = load(kGood);
  CHECK(manifest.name == "good");
  CHECK(manifest.mode == Mode::research);
  CHECK(manifest.data.component->full_name() == "test:memory");
  CHECK(manifest.data.params.integer("rows") == 20);
  REQUIRE(manifest.transforms.size() == 2);
  CHECK(manifest.transforms[0].component->factory.info.name == "flatten");
  CHECK(manifest.transforms[1].params.real("to") == 10.0);
  CHECK(manifest.transforms[1].where == "data.transforms.1");
  CHECK(manifest.model.params.integers("hidden") == std::vector<std::int64_t>{4, 2});
  CHECK(manifest.model.params.text("activation") == "relu");
  CHECK(manifest.backend.component->factory.info.name == "cpu");
  CHECK(manifest.clipping.component->factory.info.name == "flat");
  CHECK(manifest.aggregator.component->factory.info.name == "gaussian");
  CHECK(manifest.optimizer.params.real("beta") == 0.5);
  CHECK(manifest.noise_multiplier.component->factory.info.name == "uniform");
  CHECK(manifest.clip_norm.component->factory.info.name == "constant");
  CHECK(manifest.clip_norm.params.real("value") == 4.0);
  CHECK(manifest.target_epsilon == 3.0);
  CHECK(manifest.target_delta == 1e-5);
  CHECK(manifest.adjacency == Adjacency::zero_out);
  CHECK(manifest.accountant.params.text("conversion") == "classic");
  REQUIRE(manifest.also.size() == 1);
  CHECK(manifest.steps == 100);
  CHECK(manifest.evaluate_every == 5);
  CHECK_FALSE(manifest.seed.has_value());
  CHECK_FALSE(manifest.noise_off);
  CHECK_FALSE(manifest.dataset_size.has_value());
  CHECK(manifest.optimizer.position.ends_with("m.yaml:10:3"));
}

TEST_CASE("the resolved manifest has every default, full names, and loads to itself",
          "[manifest]") {
  const Manifest manifest = load(kGood);
  CHECK(to_yaml(manifest.resolved) ==
        "privgrad: 1\n"
        "name: good\n"
        "mode: research\n"
        "steps: 100\n"
        "evaluate_every: 5\n"
        "output: last\n"
        "data:\n"
        "  kind: test:memory\n"
        "  rows: 20\n"
        "  transforms:\n"
        "  - kind: test:flatten\n"
        "  - kind: test:scale\n"
        "    to: 10.0\n"
        "  test_is_public: false\n"
        "model:\n"
        "  kind: test:net\n"
        "  hidden: [4, 2]\n"
        "  activation: relu\n"
        "backend:\n"
        "  kind: test:cpu\n"
        "sampler:\n"
        "  kind: test:all\n"
        "clipping:\n"
        "  kind: test:flat\n"
        "aggregator:\n"
        "  kind: test:gaussian\n"
        "  arithmetic: exact\n"
        "optimizer:\n"
        "  kind: test:momentum\n"
        "  beta: 0.5\n"
        "  nesterov: false\n"
        "schedules:\n"
        "  noise_multiplier:\n"
        "    kind: test:uniform\n"
        "  clip_norm:\n"
        "    kind: test:constant\n"
        "    value: 4.0\n"
        "  learning_rate:\n"
        "    kind: test:exponential\n"
        "    rate: 0.9\n"
        "privacy:\n"
        "  target_epsilon: 3.0\n"
        "  target_delta: 1e-05\n"
        "  adjacency: zero_out\n"
        "  noise: 'on'\n"
        "  calibrate: shapes\n"
        "  accountant:\n"
        "    kind: test:zcdp\n"
        "    conversion: classic\n"
        "  also:\n"
        "  - kind: test:rdp\n");
  const std::string variants[] = {
      kGood,
      "seed: 7\n" + kGood,
      "mode: release\n" + kGood,
      "evaluate_every: 3\n" + kGood,
      replaced(kGood, "  rows: 20\n", "  size: 20\n  test_is_public: true\n"),
      replaced(kGood, "  rows: 20\n", "  rows: 20\n  read_off_rows: [ranges, labels]\n"),
      replaced(
          replaced(kGood, "  rows: 20\n", "  size: {about: 20, statistic: private, share: 0.1}\n"),
          "zero_out", "add_or_remove_one"),
      replaced(kGood, "steps: 100", "steps: 1"),
      "aggregator: {kind: gaussian, arithmetic: float}\n" + kGood,
      replaced(kGood, "  also: [rdp]\n", "  noise: off\n"),
  };
  for (const std::string& text : variants) {
    CAPTURE(text);
    const Value resolved = load(text).resolved;
    const Value again = load(to_yaml(resolved)).resolved;
    CHECK(same(resolved, again));
  }
}

TEST_CASE("the arithmetic of sums and noise is a key of every aggregator", "[manifest]") {
  CHECK(load(kGood).arithmetic == Arithmetic::exact);
  const std::string objects[] = {
      "{kind: gaussian, arithmetic: ", "{kind: \"test:gaussian\", arithmetic: ", "{arithmetic: "};
  for (const std::string& object : objects) {
    CAPTURE(object);
    CHECK(load("aggregator: " + object + "exact}\n" + kGood).arithmetic == Arithmetic::exact);
    const Manifest manifest = load("aggregator: " + object + "float}\n" + kGood);
    CHECK(manifest.arithmetic == Arithmetic::floating);
    CHECK(manifest.aggregator.name() == "gaussian");
    CHECK_THAT(to_yaml(manifest.resolved),
               ContainsSubstring("aggregator:\n  kind: test:gaussian\n  arithmetic: float\n"));
    CHECK(manifest.position_of("aggregator.arithmetic").starts_with("/nowhere/m.yaml:1:"));
  }
  // It can be set by --set, and thus in a study's axes, whatever the manifest contains.
  for (const char* given : {"", "aggregator: gaussian\n", "aggregator: {kind: gaussian}\n"}) {
    CAPTURE(given);
    const Manifest manifest = load(given + kGood, {"aggregator.arithmetic=float"});
    CHECK(manifest.arithmetic == Arithmetic::floating);
    CHECK(manifest.aggregator.name() == "gaussian");
    CHECK(manifest.position_of("aggregator.arithmetic") == "--set aggregator.arithmetic");
  }
  CHECK(
      errors_of("aggregator: {kind: gaussian, arithmetic: floats}\n" + kGood) ==
      Lines{"m.yaml:1:42: error: aggregator.arithmetic: is 'floats', allowed are exact, float; did "
            "you mean 'float'?"});
  CHECK(errors_of("aggregator: {kind: gaussian, arithmetic: 64}\n" + kGood) ==
        Lines{"m.yaml:1:42: error: aggregator.arithmetic: is an integer, expected a text"});
  CHECK(errors_of("name: 5\n" + kGood).front() ==
        "m.yaml:1:7: error: name: is an integer, expected a text; put it in quotes");
  CHECK(errors_of("aggregator: {kind: gaussian, arithmetics: exact}\n" + kGood) ==
        Lines{"m.yaml:1:30: error: aggregator.arithmetics: is unknown; did you mean "
              "'arithmetic'?"});
  CHECK(errors_of("aggregator: {}\n" + kGood).size() == 1);
}

TEST_CASE("all problems are reported at once, in the order of the file", "[manifest]") {
  CHECK(
      errors_of("name: x y\n"
                "data: {kind: memory, rows: 0, colour: red, transforms: [{kind: scael}, 3]}\n"
                "modell: net\n"
                "optimizer: {kind: momentum, beta: 1, nesterov: yes}\n"
                "schedules: {clip_norm: [1], learning_rate: fast}\n"
                "privacy:\n"
                "  target_epsilon: 0\n"
                "  target_delta: 1\n"
                "  adjacency: zero\n"
                "steps: 1.5\n") ==
      Lines{
          "m.yaml:1:1: error: privgrad: is missing; Version of the manifest format; write 1.",
          "m.yaml:1:1: error: model: is missing; What is trained.",
          "m.yaml:1:1: error: sampler: is missing; Which examples each step sees; the privacy "
          "statement depends on it.",
          "m.yaml:1:7: error: name: is 'x y', allowed are letters, digits, '.', '_' and '-', at "
          "most 64, beginning with a letter or a digit",
          "m.yaml:2:28: error: data.rows: is 0, allowed is [1, inf)",
          "m.yaml:2:31: error: data.colour: is unknown; there are rows",
          "m.yaml:2:64: error: data.transforms.0: no transform 'scael' is loaded; did you mean "
          "'scale'?",
          "m.yaml:2:72: error: data.transforms.1: is an integer, expected the name of a transform "
          "or {kind: NAME, ...}",
          "m.yaml:3:1: error: modell: is unknown; did you mean 'model'?",
          "m.yaml:4:35: error: optimizer.beta: is 1, allowed is [0, 1)",
          "m.yaml:4:48: error: optimizer.nesterov: is a text, expected a boolean (true or false)",
          "m.yaml:5:24: error: schedules.clip_norm: is a list, expected a number, the name of a "
          "schedule or {kind: NAME, ...}",
          "m.yaml:5:44: error: schedules.learning_rate: no schedule 'fast' is loaded; there are "
          "constant, exponential, uniform",
          "m.yaml:7:3: error: privacy.accountant: is missing; Computes what was spent, and guards "
          "the budget.",
          "m.yaml:7:19: error: privacy.target_epsilon: is 0, allowed is (0, inf)",
          "m.yaml:8:17: error: privacy.target_delta: is 1, allowed is (0, 1)",
          "m.yaml:9:14: error: privacy.adjacency: is 'zero', allowed are add_or_remove_one, "
          "replace_one, zero_out",
          "m.yaml:10:8: error: steps: is a real, expected an integer or auto",
      });
}

TEST_CASE("what is missing is named with what it means", "[manifest]") {
  CHECK(errors_of("privgrad: 1\n").size() == 11);
  CHECK(errors_of(replaced(kGood, "  target_epsilon: 3\n", "")) ==
        Lines{"m.yaml:13:3: error: schedules.noise_multiplier: is missing; give it, or "
              "privacy.target_epsilon"});
  CHECK_NOTHROW(load(replaced(replaced(kGood, "  target_epsilon: 3\n", ""), "  clip_norm: 4\n",
                              "  clip_norm: 4\n  noise_multiplier: 1.1\n")));
  CHECK(errors_of(replaced(kGood, "  kind: momentum\n", "")) ==
        Lines{"m.yaml:10:3: error: optimizer.kind: is missing; it is the name of an optimizer: "
              "momentum, sgd"});
  CHECK(errors_of(replaced(kGood, "sampler: all", "sampler:")) ==
        Lines{"m.yaml:8:9: error: sampler: is null, expected the name of a sampler or {kind: NAME, "
              "...}"});
  CHECK(errors_of(replaced(kGood, "privgrad: 1", "privgrad: 2\nnonsense: 3")) ==
        Lines{"m.yaml:1:11: error: privgrad: is 2, a version of manifests that this program does "
              "not know; it reads 1"});
}

TEST_CASE("other programs' names get a direct hint", "[manifest]") {
  const auto top = [](const std::string& line) { return errors_of(kGood + line + "\n").at(0); };
  const auto expected = [](const std::string& rest) { return "m.yaml:22:1: error: " + rest; };
  CHECK(top("max_grad_norm: 1") ==
        expected("max_grad_norm: is unknown; here it is called schedules.clip_norm"));
  CHECK(top("l2_norm_clip: 1") ==
        expected("l2_norm_clip: is unknown; here it is called schedules.clip_norm"));
  CHECK(top("noise_multiplier: 1") ==
        expected("noise_multiplier: is unknown; here it is called schedules.noise_multiplier"));
  CHECK(top("epsilon: 1") ==
        expected("epsilon: is unknown; here it is called privacy.target_epsilon"));
  CHECK(top("batch_size: 1") ==
        expected("batch_size: is unknown; it is a parameter of the sampler, as in sampler: {kind: "
                 "poisson, batch_size: 100}"));
  CHECK(top("num_steps: 1") == expected("num_steps: is unknown; here it is called steps"));
  CHECK(top("epochs: 3") ==
        expected("epochs: is unknown; write steps: epochs times examples over batch size"));
  CHECK(errors_of(replaced(kGood, "  clip_norm: 4\n", "  clip_norm: 4\n  lr: 1\n")) ==
        Lines{"m.yaml:14:3: error: schedules.lr: is unknown; here it is called "
              "schedules.learning_rate"});
  CHECK(errors_of(replaced(kGood, "  clip_norm: 4\n", "  clip_norm: 4\n  noise: 1\n")) ==
        Lines{"m.yaml:14:3: error: schedules.noise: is unknown; here it is called "
              "schedules.noise_multiplier"});
  CHECK(errors_of(replaced(kGood, "  beta: 0.5", "  lr: 0.5")) ==
        Lines{"m.yaml:11:3: error: optimizer.lr: is unknown; here it is called "
              "schedules.learning_rate"});
  CHECK(errors_of(replaced(kGood, "transforms:", "transfroms:")) ==
        Lines{"m.yaml:6:3: error: data.transfroms: is unknown; did you mean 'transforms'?"});
}

TEST_CASE("overrides change the manifest and are named in errors", "[manifest]") {
  const Manifest manifest = load(
      kGood, {"steps=40", "data.transforms.1.to=5", "optimizer=sgd", "sampler=shuffle",
              "sampler.batch_size=7", "seed=1", "privacy.also=null",
              "schedules.noise_multiplier.kind=constant", "schedules.noise_multiplier.value=1e-8",
              "data.transforms.2=flatten", "name='007'"});
  CHECK(manifest.steps == 40);
  CHECK(manifest.evaluate_every == 2);
  CHECK(manifest.transforms.at(1).params.real("to") == 5.0);
  CHECK(manifest.transforms.at(2).component->factory.info.name == "flatten");
  CHECK(manifest.optimizer.component->factory.info.name == "sgd");
  CHECK(manifest.sampler.params.integer("batch_size") == 7);
  CHECK(manifest.seed == 1u);
  CHECK(manifest.also.empty());
  CHECK(manifest.noise_multiplier.params.real("value") == 1e-8);
  CHECK(manifest.name == "007");
  CHECK(manifest.position_of("steps") == "--set steps");
  CHECK(manifest.position_of("data.transforms.1.to") == "--set data.transforms.1.to");
  CHECK(manifest.position_of("data.transforms.1.kind").ends_with("m.yaml:6:32"));
  CHECK(manifest.position_of("model.hidden.1").ends_with("m.yaml:7:32"));
  CHECK(manifest.position_of("model.activation").ends_with("m.yaml"));

  const auto error = [](const std::string& override) { return errors_of(kGood, {override}).at(0); };
  CHECK(error("optimizer.beta=2") ==
        "--set optimizer.beta: error: optimizer.beta: is 2, allowed is [0, 1)");
  CHECK(error("optimizer=adam")
            .starts_with("--set optimizer: error: optimizer: no optimizer 'adam'"));
  CHECK(error("optimizer={kind: sgd, beta: 0.5}") ==
        "--set optimizer: error: optimizer.beta: is unknown; there are no parameters here");
  CHECK(error("steps") == "--set steps: error: is not of the form KEY=VALUE");
  CHECK(error("=3") == "--set : error: the key is not of the form a.b.c");
  CHECK(error("a..b=3") == "--set a..b: error: the key is not of the form a.b.c");
  CHECK(error("steps=") ==
        "--set steps: error: the value is empty; write null to remove the key, '' for an empty "
        "text");
  CHECK(error("steps=[1") ==
        "--set steps: error: (in the value) this is not valid YAML: did not "
        "find expected ',' or ']' while parsing a flow sequence");
  CHECK(error("steps.x=1") ==
        "--set steps.x: error: steps: is an integer and has no members; set the whole of it");
  CHECK(error("data.transforms.9.to=1") ==
        "--set data.transforms.9.to: error: '9' is not an index into data.transforms, which has 2 "
        "element(s)");
  CHECK(error("steps=null").starts_with("m.yaml:1:1: error: steps: is missing"));
  CHECK(error("nonsense.a=1").starts_with("--set nonsense.a: error: nonsense: is unknown"));
}

TEST_CASE("files are looked up beside the manifest, then in PRIVGRAD_DATA_DIR", "[manifest]") {
  const TempDir folder, data;
  const auto file = folder.path() / "m.yaml";
  const std::string text =
      replaced(kGood, "  kind: memory\n  rows: 20\n",
               "  kind: files\n  train: {images: a.gz, labels: sub/../b.gz}\n  more: [c.gz]\n");
  write_file(file, text);
  write_file(folder.path() / "a.gz", "");
  write_file(data.path() / "a.gz", "");
  write_file(data.path() / "b.gz", "");
  write_file(data.path() / "c.gz", "");
  ::unsetenv("PRIVGRAD_DATA_DIR");
  try {
    load_manifest(file, {}, fakes());
    FAIL("missing files were accepted");
  } catch (const IoError& error) {
    const std::string hint =
        "; the environment variable PRIVGRAD_DATA_DIR, which may name a second folder to look in, "
        "is not set";
    CHECK(std::string(error.what()) ==
          file.string() +
              ":5:33: error: data.train.labels: is 'sub/../b.gz', but there is no such "
              "file: looked for " +
              (folder.path() / "b.gz").string() + hint + "\n" + file.string() +
              ":6:10: error: data.more.0: is 'c.gz', but there is no such file: looked "
              "for " +
              (folder.path() / "c.gz").string() + hint);
  }
  // A manifest's own mistakes decide the type of the error; missing files are still reported.
  CHECK(errors_of(replaced(text, "steps: 100", "steps: 0")).size() == 4);
  CHECK(errors_of("seed: -1\n" + text).size() == 4);
  // A refusal for privacy takes precedence over missing files.
  CHECK(errors_of<PrivacyError>("mode: release\nseed: 1\n" + text).size() == 4);
  ::setenv("PRIVGRAD_DATA_DIR", data.path().c_str(), 1);
  const Manifest manifest = load_manifest(file, {}, fakes());
  CHECK(manifest.data.params.object("train").path("images") == folder.path() / "a.gz");
  CHECK(manifest.data.params.object("train").path("labels") == data.path() / "b.gz");
  CHECK(manifest.data.params.texts("more") == Lines{(data.path() / "c.gz").string()});
  // The resolved manifest contains absolute paths, so it can be moved.
  CHECK(same(manifest.resolved, load(to_yaml(manifest.resolved)).resolved));
  std::filesystem::create_directory(folder.path() / "folder");
  CHECK_THROWS_WITH(load_manifest(file, {"data.train.images=folder"}, fakes()),
                    "--set data.train.images: error: data.train.images: is 'folder', but " +
                        (folder.path() / "folder").string() + " is a directory");
  ::unsetenv("PRIVGRAD_DATA_DIR");
}

TEST_CASE("release mode refuses what the manifest alone shows", "[manifest]") {
  CHECK_NOTHROW(load("mode: release\n" + kGood));
  CHECK(errors_of<PrivacyError>("mode: release\nseed: 1\n" +
                                replaced(kGood, "  also:", "  noise: off\n  also:")) ==
        Lines{"m.yaml:2:7: error: seed: is refused in release mode: anyone who knows the seed can "
              "subtract "
              "the noise",
              "m.yaml:22:10: error: privacy.noise: is off, which release mode refuses: nothing "
              "would be private"});
  const std::string read =
      replaced(kGood, "  rows: 20\n", "  rows: 20\n  read_off_rows: [ranges, labels]\n");
  CHECK(load(read).read_off_rows == Lines{"ranges", "labels"});
  const Lines refused = errors_of<PrivacyError>("mode: release\n" + read);
  REQUIRE(refused.size() == 1);
  CHECK_THAT(refused[0], ContainsSubstring("data.read_off_rows: is refused in release mode"));
  CHECK(load(replaced(kGood, "  also:", "  noise: off\n  also:")).noise_off);
  CHECK(load("seed: 9223372036854775807\n" + kGood).seed == 9223372036854775807u);
}

TEST_CASE("what is allowed by exception is read from its section", "[manifest]") {
  const std::string hash(64, 'a');
  const Manifest none = load(kGood);
  CHECK(none.allowed_plugins.empty());
  CHECK_FALSE(none.allow_large_delta);
  CHECK(none.resolved.find("allow") == nullptr);

  const Manifest all = load(kGood + "allow: {plugins: [" + hash + "], large_delta: true}\n");
  CHECK(all.allowed_plugins == std::vector{hash});
  CHECK(all.allow_large_delta);
  CHECK(same(load(to_yaml(all.resolved)).resolved, all.resolved));
  CHECK_FALSE(load(kGood + "allow: {plugins: []}\n").allow_large_delta);
}

TEST_CASE("what could allow nothing is refused with its place", "[manifest]") {
  const auto error = [](const std::string& allow) {
    return errors_of(kGood + "allow: " + allow + "\n").at(0);
  };
  const std::string short_of(63, 'a');
  CHECK(error("{plugins: [" + std::string(64, 'a') + ", " + short_of + "]}") ==
        "m.yaml:22:85: error: allow.plugins.1: is '" + short_of +
            "', expected the SHA-256 of a plugin's file: 64 lower-case hexadecimal digits, which "
            "privgrad plugins list --json shows");
  CHECK_THAT(error("{plugins: [" + std::string(64, 'A') + "]}"), ContainsSubstring("lower-case"));
  CHECK_THAT(error("{plugin: []}"), ContainsSubstring("did you mean 'plugins'?"));
  CHECK_THAT(error("{large_delta: 1}"), ContainsSubstring("allow.large_delta"));
  CHECK_THAT(error("heuristic"), ContainsSubstring("expected an object"));
}

TEST_CASE("a manifest that cannot be read is an IoError", "[manifest]") {
  const TempDir folder;
  CHECK_THROWS_AS(load_manifest(folder.path() / "absent.yaml", {}, fakes()), IoError);
  CHECK_THROWS_AS(load_manifest(folder.path(), {}, fakes()), IoError);
}

TEST_CASE("a run is named after its file by default, within the rules for names", "[manifest]") {
  const TempDir folder;
  const auto name_of = [&](const std::string& file) {
    write_file(folder.path() / file, replaced(kGood, "name: good\n", ""));
    return load_manifest(folder.path() / file, {}, fakes()).name;
  };
  CHECK(name_of("mnist35-dynamic.yaml") == "mnist35-dynamic");
  CHECK(name_of("my run.yaml") == "my-run");
  CHECK(name_of(".hidden") == "run.hidden");
  CHECK(name_of("_draft.yaml") == "run_draft");
}

TEST_CASE("manifest: auto stands for numbers that take it, and for nothing else") {
  const core::Manifest manifest = load(kGood, {"steps=auto", "schedules.learning_rate=auto"});
  CHECK(manifest.steps == 0);
  CHECK(manifest.auto_learning_rate);
  CHECK(manifest.learning_rate.component == nullptr);
  CHECK_THROWS_WITH(load(kGood, {"schedules.clip_norm=auto"}),
                    ContainsSubstring("no schedule 'auto' is loaded"));
  CHECK_THROWS_WITH(load(kGood, {"seed=auto"}),
                    ContainsSubstring("seed: is a text, expected an integer"));
}

TEST_CASE(
    "manifest: a component that was removed is named with its successor, and nothing else is") {
  CHECK_THROWS_WITH(
      load(kGood, {"aggregator={kind: discrete_gaussian, grid_levels: 4096}"}),
      ContainsSubstring(
          "error: aggregator: discrete_gaussian was removed; use gaussian, whose sums "
          "and noise are whole numbers, too") &&
          !ContainsSubstring("\n"));
  CHECK_THROWS_WITH(load(kGood, {"optimizer=discrete_gaussian"}),
                    !ContainsSubstring("was removed"));
}

TEST_CASE("manifest: a text too long for a component's name is not shown, since it may be rows") {
  CHECK_THROWS_WITH(load(kGood, {"schedules.clip_norm=" + std::string(100, 'x')}),
                    ContainsSubstring("no schedule 'xxx"));
  CHECK_THROWS_WITH(load(kGood, {"schedules.clip_norm=" + std::string(101, 'x')}),
                    ContainsSubstring("no schedule of a name of 101 bytes is loaded") &&
                        !ContainsSubstring("xx"));
}

TEST_CASE("a component that declares a name of the manifest's own is a bug of its plugin",
          "[manifest]") {
  Catalog catalog = make_catalog();
  catalog.add(std::make_shared<PluginIdentity>(PluginIdentity{"bad", "1", "", "", ""}), nullptr,
              {declare<DataSource>("shadow", {param::integer("size", "Size.").defaults_to(1)})});
  const TempDir folder;
  write_file(folder.path() / "m.yaml", kGood);
  CHECK_THROWS_AS(load_manifest(folder.path() / "m.yaml", {"data=shadow"}, catalog), PluginError);
}
