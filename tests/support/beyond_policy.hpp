// Generated manifests that go beyond a site's policy.
#pragma once

#include <array>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

/// A manifest, or its policy, that goes beyond what the policy allows.
struct BeyondPolicy {
  std::vector<std::string> set = {};  ///< Changes of the manifest, KEY=VALUE.
  std::string rule = {};              ///< Further keys of the rule: ", units: [client]".
};

/// Goes in one to three ways beyond a policy that allows epsilon 2 at delta 1e-6 on t.csv alone.
/// \param folder  it has link.csv, a link to elsewhere/u.csv, beside the manifest and t.csv.
inline BeyondPolicy beyond_policy(const std::filesystem::path& folder, std::mt19937& random) {
  const auto real = [&](double low, double high) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.9e",
                  std::uniform_real_distribution<double>(low, high)(random));
    return std::string(text.data());
  };
  const auto below = [&](unsigned count) {
    return std::uniform_int_distribution<unsigned>(0, count - 1)(random);
  };
  BeyondPolicy made{.set = {"steps=" + std::to_string(1 + below(30)),
                            "schedules.learning_rate=" + real(0.01, 1.0),
                            "schedules.clip_norm=" + real(0.1, 10.0)}};
  const auto set = [&](const std::string& change) { made.set.push_back(change); };
  for (unsigned ways = 1 + below(3); ways > 0; --ways) {
    switch (below(11)) {
      case 0:
        set("privacy.target_epsilon=" + real(2.2, 60.0));
        break;
      case 1:
        set("privacy.target_delta=" + real(1.001e-6, 1e-3));
        break;
      case 2:
        set("mode=research");
        break;
      case 3:
        made.set.insert(made.set.end(), {"mode=research", "seed=" + std::to_string(below(9))});
        break;
      case 4:
        made.set.insert(made.set.end(), {"mode=research", "privacy.noise=off"});
        break;
      case 5:
        set("data.train=" + (folder / "elsewhere/u.csv").string());
        break;
      case 6:
        set("data.train=" + (folder / "link.csv").string());
        break;
      case 7:
        set(std::string("privacy.adjacency=") + (below(2) ? "replace_one" : "add_or_remove_one"));
        if (made.rule.find("adjacencies") == std::string::npos)
          made.rule += ", adjacencies: [zero_out]";
        set("data.train=" + (folder / "elsewhere/u.csv").string());
        break;
      case 8:
        set(std::string("privacy.accountant=") + (below(2) ? "rdp" : "pld"));
        if (made.rule.find("accountants") == std::string::npos)
          made.rule += ", accountants: [zcdp]";
        break;
      case 9:
        if (made.rule.find("units") == std::string::npos) made.rule += ", units: [client]";
        break;
      default:
        if (made.rule.find("account:") == std::string::npos)
          made.rule += ", account: " + (folder / "account").string();
    }
  }
  return made;
}
