#include <cstdlib>

#include "processes.hpp"

// Processes on two networks that only know each other's addresses, like two machines: network
// namespaces, joined by a virtual cable, with their own host names and files. This requires root
// and iproute2.

namespace fs = std::filesystem;

namespace {

bool works(const std::string& command) {
  // NOLINTNEXTLINE(cert-env33-c,concurrency-mt-unsafe): a fixed text, in a test of one thread
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

/// Returns why such networks cannot be made here; "" if they can.
std::string why_no_networks() {
  if (::geteuid() != 0) return "this user is not root, who may make network namespaces";
  if (!works("ip -V")) return "no ip: apt-get install iproute2";
  const std::string name = "pgtry" + std::to_string(::getpid());
  const bool can =
      works("ip netns add " + name + " && ip netns exec " + name + " unshare --uts --mount true" +
            " && ip -n " + name + " link add " + name + " type veth peer name other");
  works("ip netns del " + name);
  return can ? "" : "network namespaces, or cables between them, cannot be made here";
}

#define NEEDS_NETWORKS() \
  NEEDS_MPIRUN();        \
  if (const std::string why = why_no_networks(); !why.empty()) PRIVGRAD_SKIP(why)

/// Two machines, alpha and beta, that only see each other at 10.231.77.1 and 10.231.77.2. On beta,
/// the program has a different working folder.
class TwoNetworks {
 public:
  explicit TwoNetworks(const Cli& cli) : cli_(cli) {
    const std::string id = std::to_string(::getpid());
    alpha_ = "pg" + id + "a";
    beta_ = "pg" + id + "b";
    make("ip netns add " + alpha_);
    make("ip netns add " + beta_);
    make("ip link add " + alpha_ + " type veth peer name " + beta_);
    for (const auto& [name, address] : {std::pair{alpha_, "1"}, std::pair{beta_, "2"}}) {
      make("ip link set " + name + " netns " + name);
      make("ip -n " + name + " addr add 10.231.77." + address + "/24 dev " + name);
      make("ip -n " + name + " link set " + name + " up");
      make("ip -n " + name + " link set lo up");
    }
    fs::create_directory(beta_folder());
    for (const auto& file : fs::directory_iterator(cli.dir())) {
      if (file.is_regular_file()) fs::copy_file(file, beta_folder() / file.path().filename());
    }
    // Called like ssh, with HOST COMMAND; there is only one host.
    write_file(agent(), "#!/bin/sh\nshift\nexec ip netns exec " + beta_ +
                            " unshare --uts --mount sh -c \"hostname beta; mount --bind " +
                            beta_folder().string() + " " + cli.dir().string() + " && cd " +
                            cli.dir().string() + " && $*\"\n");
    fs::permissions(agent(), fs::perms::owner_all);
  }
  TwoNetworks(const TwoNetworks&) = delete;
  TwoNetworks& operator=(const TwoNetworks&) = delete;
  ~TwoNetworks() {
    for (const std::string& name : {alpha_, beta_}) works("ip netns del " + name);
  }

  /// Returns a call with one process on alpha and `on_beta` processes on beta.
  Call call_of(const Words& words, int on_beta) const {
    Call what = in_processes(cli_, 1, {});
    const Words program = cli_.prepare(words).words;
    what.words = {"/bin/sh", "-c",
                  "exec ip netns exec " + alpha_ +
                      " unshare --uts sh -c 'hostname alpha; exec \"$@\"' sh \"$@\"",
                  "sh"};
    const std::string all = std::to_string(1 + on_beta);
    const Words launch{kMpirun,
                       "--allow-run-as-root",
                       "--oversubscribe",
                       "--mca",
                       "plm_rsh_agent",
                       agent().string(),
                       "--mca",
                       "btl",
                       "tcp,self",
                       "--mca",
                       "btl_tcp_if_include",
                       "10.231.77.0/24",
                       "--mca",
                       "oob_tcp_if_include",
                       "10.231.77.0/24",
                       "--host",
                       "alpha:1,10.231.77.2:" + std::to_string(on_beta),
                       "-np",
                       all};
    what.words.insert(what.words.end(), launch.begin(), launch.end());
    what.words.insert(what.words.end(), program.begin(), program.end());
    what.words.insert(what.words.end(), {"--cluster", "{kind: mpi, timeout_seconds: 60}"});
    what.environment["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin";
    return what;
  }

  /// Returns the bytes that beta has received through the cable.
  std::uint64_t crossed() const {
    const std::string file = cli_.out("crossed").string();
    make("ip netns exec " + beta_ + " cat /sys/class/net/" + beta_ + "/statistics/rx_bytes > " +
         file);
    return std::stoull(read_file(file));
  }

  fs::path beta_folder() const { return folder_.path() / "beta"; }

 private:
  fs::path agent() const { return folder_.path() / "agent"; }
  static void make(const std::string& command) {
    INFO(command);
    // NOLINTNEXTLINE(cert-env33-c,concurrency-mt-unsafe): as above
    REQUIRE(std::system(command.c_str()) == 0);
  }

  const Cli& cli_;
  TempDir folder_;
  std::string alpha_, beta_;
};

/// Returns a manifest whose sums are larger than all other messages between the processes.
std::string wide_manifest() {
  std::string text = Cli::kManifest;
  const std::string dimensions = "dimensions: 4";
  return text.replace(text.find(dimensions), dimensions.size(), "dimensions: 2000");
}

}  // namespace

TEST_CASE("across a network a run has the bits that it has alone") {
  NEEDS_NETWORKS();
  const Cli cli;
  write_file(cli.manifest(), wide_manifest());
  const auto to = [](const std::string& run) {
    return Words{"run", "small.yaml", "--quiet", "--threads", "1", "--set", "seed=3", "--out", run};
  };
  REQUIRE(cli(to("alone")).exit_code == 0);
  const TwoNetworks networks(cli);
  const Outcome outcome = call(networks.call_of(to("run"), 2));
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(tensors(cli.out("run")) == tensors(cli.out("alone")));
  CHECK(charges(cli.out("run")) == charges(cli.out("alone")));
  // Twelve steps, each of which sends the 2001 parameters to beta.
  CHECK(networks.crossed() > 12 * 2001 * sizeof(float));
  // Beta wrote nothing except its copy of the manifest.
  CHECK_FALSE(fs::exists(networks.beta_folder() / "run"));
}

TEST_CASE("a machine with another manifest is named") {
  NEEDS_NETWORKS();
  const Cli cli;
  const TwoNetworks networks(cli);
  write_file(networks.beta_folder() / "small.yaml", wide_manifest());
  const Outcome outcome =
      call(networks.call_of({"run", "small.yaml", "--quiet", "--out", "run"}, 1));
  INFO(outcome.err);
  CHECK(outcome.exit_code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("privgrad: error: process 1 on beta has another "
                                            "manifest than process 0 on alpha\n"));
  CHECK_FALSE(fs::exists(cli.out("run") / "ledger.jsonl"));
}
