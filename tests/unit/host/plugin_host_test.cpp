#include "privgrad/host/plugin_host.hpp"

#include <dlfcn.h>
#include <elf.h>

#include <cfenv>
#include <cstring>
#include <exception>
#include <limits>

#include "host_support.hpp"
#include "privgrad/federated.hpp"
#include "privgrad/host/sha256.hpp"

using privgrad::ComponentPtr;
using privgrad::PluginError;
using privgrad::Schedule;
using privgrad::Value;
using privgrad::host::PluginHost;

namespace {

std::string refusal_of(const fs::path& file) {
  return message_of([&] { make_host().load(file); });
}

bool is_mapped(const fs::path& file) {
  return ::dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD) != nullptr;
}

/// Removes the flag by which a plugin keeps itself mapped, so that only the host keeps it.
void clear_nodelete(const fs::path& file) {
  std::string bytes = read_file(file);
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, bytes.data() + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_DYNAMIC) continue;
    for (std::size_t at = section.sh_offset; at < section.sh_offset + section.sh_size;
         at += sizeof(Elf64_Dyn)) {
      Elf64_Dyn entry;
      std::memcpy(&entry, bytes.data() + at, sizeof entry);
      if (entry.d_tag != DT_FLAGS_1) continue;
      REQUIRE((entry.d_un.d_val & DF_1_NODELETE) != 0);
      entry.d_un.d_val &= ~static_cast<Elf64_Xword>(DF_1_NODELETE);
      std::memcpy(bytes.data() + at, &entry, sizeof entry);
    }
  }
  write_file(file, bytes);
}

}  // namespace

TEST_CASE("a plugin built for another ABI is refused before any of its code runs", "[plugin]") {
  const TempDir dir;
  const Environment footprint("PRIVGRAD_TEST_FOOTPRINT", dir.path() / "footprint");
  const std::string refusal = refusal_of(fixture("foreign_abi"));
  CHECK_THAT(refusal, ContainsSubstring("built for privgrad=0.0;arch=x86_64;std=libstdc++9/"));
  CHECK_THAT(refusal, ContainsSubstring("this framework is " PRIVGRAD_ABI_TAG "; rebuild"));
  CHECK_FALSE(fs::exists(dir.path() / "footprint"));
  // The control: loading it does leave a trace, so the check above can fail.
  REQUIRE(::dlopen(fixture("foreign_abi").c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr);
  CHECK(fs::exists(dir.path() / "footprint"));
}

TEST_CASE("what is wrong with a plugin is said in one line that begins with its file", "[plugin]") {
  const auto [name, why] = GENERATE(table<std::string, std::string>(
      {{"foreign_abi", "rebuild the plugin against this framework"},
       {"fails_to_register", "registration failed: no licence found buy one"},
       {"needs_newer_library",
        "needs GLIBCXX_9.4.21 of libstdc++.so.6, which on this machine goes up to GLIBCXX_3.4."},
       {"missing_symbol", "cannot be loaded: undefined symbol: _Z15defined_nowherev; rebuild"},
       {"no_entry", "has no function privgrad_plugin_register_v2; build it with"},
       {"registers_twice", "registration failed: schedule 'zero' is registered twice"}}));
  const std::string refusal = refusal_of(fixture(name));
  CHECK_THAT(refusal, Catch::Matchers::StartsWith(fixture(name).string() + ": "));
  CHECK_THAT(refusal, ContainsSubstring(why));
  CHECK(refusal.find('\n') == refusal.npos);
}

TEST_CASE("a refused plugin leaves nothing in the catalog but its refusal", "[plugin]") {
  auto host = make_host();
  CHECK(host.offer(fixture("registers_twice")));
  CHECK(host.catalog().components().empty());
  CHECK(host.plugins().empty());
  REQUIRE(host.catalog().refused().size() == 1);
  CHECK(host.catalog().refused()[0].file == fixture("registers_twice"));
  // The error for the component states what happened to it.
  CHECK_THROWS_WITH(host.catalog().find<Schedule>("zero"),
                    ContainsSubstring("test_registers_twice.privgrad.so: registration failed"));
  CHECK_THROWS_WITH(
      host.catalog().find<Schedule>("acme.slow:fall"),
      ContainsSubstring("no schedule 'acme.slow:fall' is loaded: its plugin 'acme.slow' is not"));
}

TEST_CASE("what was loaded is identified", "[plugin]") {
  auto host = make_host();
  const auto& plugin = host.load(kConstant);
  CHECK(plugin.name == "privgrad.constant");
  CHECK(plugin.sha256 == privgrad::host::sha256_of_file(kConstant));
  CHECK(plugin.abi_tag == PRIVGRAD_ABI_TAG);
  CHECK(plugin.file == fs::canonical(kConstant));
}

TEST_CASE("a component of another interface version is refused when it is asked for", "[plugin]") {
  auto host = make_host();
  host.load(fixture("wrong_interface"));
  CHECK_THROWS_AS(host.catalog().find<Schedule>("from_the_future"), PluginError);
  CHECK_THROWS_WITH(host.catalog().find<Schedule>("from_the_future"),
                    ContainsSubstring("test.wrong_interface:from_the_future: speaks version 99") &&
                        ContainsSubstring("rebuild"));
}

TEST_CASE("two components with one name: the short name is an error that lists both", "[plugin]") {
  auto host = make_host();
  host.load(kConstant);
  host.load(fixture("misbehaving"));
  CHECK_THROWS_WITH(host.catalog().find<Schedule>("constant"),
                    ContainsSubstring("ambiguous") &&
                        ContainsSubstring("privgrad.constant:constant") &&
                        ContainsSubstring("test.misbehaving:constant"));
  CHECK(host.catalog().find<Schedule>("privgrad.constant:constant").plugin->name ==
        "privgrad.constant");
  CHECK(host.catalog().find<Schedule>("test.misbehaving:constant").plugin->name ==
        "test.misbehaving");
}

TEST_CASE("one plugin name, one file: the second is refused and both are named", "[plugin]") {
  auto host = make_host();
  host.load(kConstant);
  const fs::path second = GENERATE(as<fs::path>{}, fixture("impostor"), kConstant);
  CHECK_THROWS_WITH(
      host.load(second),
      ContainsSubstring(second.string() + ": plugin 'privgrad.constant' was found already, " +
                        fs::canonical(kConstant).string()));
  CHECK(host.plugins().size() == 1);
}

TEST_CASE("a component outlives the host that made it", "[plugin]") {
  ComponentPtr<Schedule> schedule;
  {
    auto host = make_host();
    host.load(kConstant);
    schedule = host.catalog().create<Schedule>("constant", Value::Object{{"value", 0.25, {}}});
  }
  schedule->start({.steps = 1, .slot = "learning_rate"});
  CHECK(schedule->value(0) == 0.25);
}

TEST_CASE("optional abilities are found with dynamic_cast across the boundary", "[plugin]") {
  auto host = make_host();
  host.load(fixture("misbehaving"));
  const auto with = host.catalog().create<Schedule>("constant", Value::Object{});
  const auto without = host.catalog().create<Schedule>("thrower", Value::Object{});
  auto* ability = dynamic_cast<privgrad::AdaptiveLocalIterations*>(with.get());
  REQUIRE(ability != nullptr);
  CHECK(ability->next({}) == 42);
  CHECK(dynamic_cast<privgrad::AdaptiveLocalIterations*>(without.get()) == nullptr);
}

TEST_CASE("an exception of a framework type keeps its type across the boundary", "[plugin]") {
  auto host = make_host();
  host.load(fixture("misbehaving"));
  const auto thrower = host.catalog().create<Schedule>("thrower", Value::Object{});
  CHECK_THROWS_AS(thrower->value(0), privgrad::NumericError);
}

TEST_CASE("an exception of a plugin's own type outlives plugin, component and host", "[plugin]") {
  std::exception_ptr kept;
  {
    auto host = make_host();
    host.load(fixture("misbehaving"));
    const auto thrower =
        host.catalog().create<Schedule>("thrower", Value::Object{{"own_type", true, {}}});
    try {
      thrower->value(0);
    } catch (const std::exception&) {
      kept = std::current_exception();
    }
  }
  REQUIRE(kept);
  CHECK_THROWS_WITH(std::rethrow_exception(kept),
                    ContainsSubstring("only the plugin knows this type"));
}

TEST_CASE("a plugin is never unmapped", "[plugin]") {
  const TempDir dir;
  const fs::path copy = copy_plugin(kConstant, dir.path() / "copy.privgrad.so");
  SECTION("because its file says so, whoever loads it") {
    REQUIRE_FALSE(is_mapped(copy));
    ::dlclose(::dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL));
    CHECK(is_mapped(copy));
  }
  SECTION("because the host keeps it, whatever its file says") {
    clear_nodelete(copy);
    { PluginHost({.directories = {dir.path()}}).load(copy); }
    CHECK(is_mapped(copy));
  }
}

TEST_CASE("a plugin linked with -ffast-math does not change our arithmetic", "[plugin][numeric]") {
  const TempDir dir;
  const fs::path copy = copy_plugin(fixture("fast_math"), dir.path() / "copy.privgrad.so");
  volatile double smallest = std::numeric_limits<double>::min();
  make_host().load(fixture("fast_math"));
  CHECK(smallest / 16 > 0.0);

  // The control: without the host's precaution the plugin changes the environment, so the check
  // above can fail.
  std::fenv_t before;
  std::fegetenv(&before);
  REQUIRE(::dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr);
  const double flushed = smallest / 16;
  std::fesetenv(&before);
  CHECK(flushed == 0.0);
}

TEST_CASE("a plugin that changes the rounding while it registers does not change ours",
          "[plugin][numeric]") {
  REQUIRE(std::fegetround() == FE_TONEAREST);
  make_host().load(fixture("changes_rounding"));
  const int after = std::fegetround();
  std::fesetround(FE_TONEAREST);
  CHECK(after == FE_TONEAREST);
}

TEST_CASE("a file that changes under a running process is not loaded under a false hash",
          "[plugin][security]") {
  const TempDir dir;
  const fs::path copy = copy_plugin(kConstant, dir.path() / "copy.privgrad.so");
  PluginHost({.directories = {dir.path()}}).load(copy);
  PluginHost({.directories = {dir.path()}}).load(copy);  // unchanged: loads again
  std::ofstream(copy, std::ios::app | std::ios::binary) << '\0';
  PluginHost later({.directories = {dir.path()}});
  CHECK_THROWS_WITH(later.load(copy), ContainsSubstring("was written to after this process") &&
                                          ContainsSubstring("start the process again"));
}

TEST_CASE("a file that changes while it is loaded is refused", "[plugin][security]") {
  const TempDir dir;
  const fs::path copy = copy_plugin(fixture("touches_itself"), dir.path() / "copy.privgrad.so");
  const Environment touch("PRIVGRAD_TEST_TOUCH", copy);
  PluginHost host({.directories = {dir.path()}});
  CHECK_THROWS_WITH(host.load(copy), ContainsSubstring("was changed while it was loaded"));
  CHECK(host.plugins().empty());
}

TEST_CASE("sha256 agrees with the published vectors", "[sha256]") {
  const TempDir dir;
  const auto hash = [&](const std::string& text) {
    write_file(dir.path() / "f", text);
    return privgrad::host::sha256_of_file(dir.path() / "f");
  };
  // FIPS 180-4 examples; the last one is longer than the blocks in which files are read.
  CHECK(hash("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hash("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hash(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  CHECK_THROWS_AS(privgrad::host::sha256_of_file(dir.path() / "missing"), PluginError);
}
