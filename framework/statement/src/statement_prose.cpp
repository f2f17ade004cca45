#include "statement_prose.hpp"

#include <algorithm>

#include "correlated_prose.hpp"
#include "lead_prose.hpp"
#include "privgrad/record/short_numbers.hpp"
#include "privgrad/statement/declared.hpp"
#include "privgrad/statement/statement.hpp"
#include "privgrad/value.hpp"
#include "statistics_prose.hpp"

// The prose is written for the person who must sign it: either the core proves a sentence, or the
// sentence states who vouches for it. No sentence may claim more than the statement's members.

namespace privgrad::core {
namespace {

std::string joined(const std::vector<std::string>& items) {
  std::string all;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) all += i + 1 < items.size() ? ", " : " and ";
    all += items[i];
  }
  return all;
}

std::string without_stop(std::string sentence) {
  if (sentence.ends_with('.')) sentence.pop_back();
  return sentence;
}

/// \param reaches  "model" or "shown_values".
/// \returns the names of these unaccounted items, each once and without kFloatingPoint.
std::vector<std::string> unaccounted(const Statement& statement, const std::string& reaches) {
  std::vector<std::string> items;
  for (const auto& [what, reached, because] : statement.unaccounted) {
    if (reached != reaches || what == kFloatingPoint) continue;
    if (std::ranges::find(items, what) == items.end()) items.push_back(what);
  }
  return items;
}

/// The reasons why the guarantee does not cover the released bits; empty if it does, or without
/// noise.
std::vector<std::string> causes_of_floating_point(const Statement& statement) {
  std::vector<std::string> causes;
  for (const UnaccountedFacts& item : statement.unaccounted)
    if (item.what == kFloatingPoint) causes.push_back(item.because);
  return causes;
}

std::string epsilon(const Statement& statement) { return short_bound(*statement.epsilon, 5); }

std::string delta(const Statement& statement) { return format_number(statement.delta); }

std::string count_of_steps(std::uint64_t steps) {
  return std::to_string(steps) + (steps == 1 ? " step" : " steps");
}

std::string bound_text(const std::string& bound) {
  if (bound == "upper") return "an upper bound";
  if (bound == "exact") return "exact up to the rounding of floating-point numbers";
  return "an estimate and no bound";
}

bool is_per_client(const Statement& statement) { return statement.unit == "client"; }

/// The steps and releases that epsilon covers.
std::string steps_words(const Statement& statement) {
  std::string words = count_of_steps(statement.accounted_steps);
  words += releases_beside_steps(statement);
  const auto& adapts = statement.mechanism.adaptive_noise;
  if (const std::uint64_t checks = adapts ? adapts->charged_checks.value_or(0) : 0; checks > 0)
    return words + " and " + std::to_string(checks) + " checks of the loss";
  if (!statement.federated) return words;
  if (is_per_client(statement)) return words + " of the server";
  words += " of the client that was charged most";
  const std::uint64_t estimates = statement.federated->charged_estimates;
  if (estimates > 0) words += " and its " + std::to_string(estimates) + " estimates";
  return words;
}

std::string prover(const Statement& statement) {
  return statement.proved_by.empty() ? statement.accountant : statement.proved_by;
}

/// Describes the role of the manifest's accountant, if a different accountant proves the epsilon.
std::string estimates_words(const Statement& statement) {
  if (statement.proved_by.empty()) return "";
  return " The accountant that the manifest names, " + statement.accountant +
         ", gives estimates, which are not part of what is proved; noise that was calibrated by "
         "them was raised until " +
         prover(statement) + " proved that it keeps the budget.";
}

std::string claim(const Statement& statement) {
  if (!statement.noise) return "";
  const std::string steps = steps_words(statement);
  if (!statement.epsilon) {
    return "No finite epsilon is proved for the releases of its " + steps +
           ", at delta = " + delta(statement) + ".";
  }
  const auto& adapts = statement.mechanism.adaptive_noise;
  const bool in_full = statement.accounted_steps != statement.charged_steps;
  std::string sentence =
      "Together, the noised sums of all " + steps +
      (in_full ? " that the run could have made" : " that were paid for") +
      " are (epsilon, delta)-differentially private with epsilon = " + epsilon(statement) +
      " and delta = " + delta(statement) + ", per " +
      (is_per_client(statement) ? "client" : "training example") + " and under the adjacency " +
      statement.adjacency + ". This epsilon is " + bound_text(statement.bound) +
      (statement.proved_by.empty() ? "," : ", proved") + " by the accountant " + prover(statement);
  if (statement.lower) {
    sentence += ", which also proves that the true value is at least " +
                short_lower_bound(*statement.lower, 5);
  }
  sentence += "." + estimates_words(statement);
  if (statement.gaussian_mu) {
    sentence +=
        " At every other delta it is at least as private as one Gaussian release: it is "
        "mu-GDP with mu = " +
        short_bound(*statement.gaussian_mu, 5) + ".";
  }
  if (in_full) {
    sentence += " Of these, " + count_of_steps(statement.charged_steps) +
                " had been paid for when the run ended: releases decided when that was, so all of "
                "them are accounted for.";
  }
  if (statement.status == "interrupted" && !in_full && !adapts) {
    sentence +=
        " Somebody stopped the run. That is not part of what is proved: if what had been released "
        "led to it, the epsilon is that of the whole plan.";
  }
  if (adapts) {
    sentence +=
        " It is the budget: the noise was chosen from earlier releases, and what is guaranteed "
        "then is what a privacy filter keeps (Rogers et al. 2016; Feldman and Zrnic 2021)";
    if (adapts->spent_epsilon) {
      sentence += ", not what the ledger adds up to, which is epsilon = " +
                  short_bound(*adapts->spent_epsilon, 5);
    }
    sentence += ".";
  }
  if (!statement.target_epsilon) {
    sentence += " No budget guarded the run: the noise was given.";
  } else {
    sentence += " The ledger would have refused a step beyond the budget of epsilon = " +
                format_number(*statement.target_epsilon) + ".";
  }
  return sentence;
}

std::string other_accountants(const Statement& statement) {
  std::vector<std::string> answers;
  for (const AnswerOfOther& other : statement.also) {
    answers.push_back(
        other.accountant + " gives " +
        (other.epsilon ? "epsilon = " + short_bound(*other.epsilon, 5) : "no finite epsilon") +
        " (" + bound_text(other.bound) + ")");
  }
  if (answers.empty()) return "";
  return " For the " + std::to_string(statement.also.front().steps) +
         " planned steps that the budget pays for, " + joined(answers) + ".";
}

std::string unit(const Statement& statement) {
  if (is_per_client(statement)) {
    return "Unit and neighbours. The unit of privacy is one client with all its examples. Two "
           "federations are neighbours if " +
           statement.adjacency_means + ". The number of clients, " +
           std::to_string(statement.dataset_size) + ", is public.";
  }
  std::string sentence =
      "Unit and neighbours. The unit of privacy is one training example, one row of the training "
      "data after preprocessing; a person with several rows is not protected as a whole. Two data "
      "sets are neighbours if " +
      statement.adjacency_means + ". ";
  const std::string provenance = statement.dataset_size_is;
  const std::string size = std::to_string(statement.dataset_size);
  if (provenance == "public")
    return sentence + "The number of training examples, " + size +
           ", is public under this relation.";
  if (provenance == "declared") {
    return sentence + "The computation uses the number of training examples " + size +
           ", which the manifest declares; that this number is public is for its author to vouch "
           "for.";
  }
  if (provenance == "guess")
    return sentence +
           "The computation is planned with a public guess of the number of training examples, " +
           size + ", which need not be right.";
  return sentence + "The computation uses the number of training examples, " + size +
         ", which was read off the private data and is not covered.";
}

/// Describes what each party sees, and the joint guarantee for the steps of many clients.
std::string setting(const Statement& statement) {
  if (!statement.federated)
    return "The setting is central: whoever ran the training sees all rows. ";
  const FederationFacts& federated = *statement.federated;
  std::string sentence = "The setting is federated, simulated on one machine, with " +
                         std::to_string(federated.clients) + " clients and up to " +
                         std::to_string(federated.rounds) + " rounds (" + federated.aggregation +
                         "). ";
  if (is_per_client(statement)) {
    return sentence +
           "The server sees the change that each client sends, exactly, and adds the noise to "
           "their sum: it is trusted, and what it publishes is private. ";
  }
  sentence +=
      "Each client adds the noise itself, so that the server and the other clients see released "
      "models only. An example lies with one client, and what the run guarantees to it is what "
      "that client was charged; the epsilon above is the largest of these (parallel composition: "
      "McSherry 2009, Theorem 4). The shards are taken as given. ";
  if (federated.adaptive) {
    sentence +=
        "How many local steps a round has was chosen as the run went, from released values; "
        "accounted for are the most steps and estimates that a client could have come to make, "
        "in any order (concurrent composition: Vadhan and Zhang 2023; Lyu 2022). ";
  }
  return sentence;
}

/// Describes the measurements that adaptive noise follows.
std::string adaptive_words(const NoiseFollows& adapts) {
  const std::string every = std::to_string(adapts.every);
  const std::string schedule = ", which " + adapts.schedule + " chose as the run went, ";
  if (adapts.measured != "loss_change") {
    return schedule + "from the " + (adapts.measured == "validation_loss" ? "loss" : "accuracy") +
           " on the public test rows, measured every " + every + " steps";
  }
  return schedule + "from a noised sum, released every " + every +
         " steps and charged, of how much each training example's loss had changed; losses count "
         "as 0 to " +
         short_number(adapts.loss_bound.value_or(0.0), 5) +
         ", and that noise had a multiplier (standard deviation over this bound) of " +
         short_number(adapts.check_noise_multiplier.value_or(0.0), 5);
}

/// Describes the mean over altered copies that replaces an example's gradient.
std::string augmentation(const Statement& statement) {
  if (!statement.augmentation) return "";
  return " An example's gradient is the mean over " +
         std::to_string(statement.augmentation->copies) +
         " copies of it, altered anew in each step (" + joined(statement.augmentation->kinds) +
         ") as a key that is kept secret says; what follows was done to that mean.";
}

std::string procedure(const Statement& statement) {
  const SamplingFacts& sampling = statement.sampling;
  const MechanismFacts& mechanism = statement.mechanism;
  std::string sentence =
      "Mechanism. " + setting(statement) + statistics_prose(statement) +
      (is_per_client(statement) ? "Clients were drawn by " : "Batches were drawn by ") +
      sampling.sampler + " (" + without_stop(sampling.means) +
      "), with an expected batch size of " + range_text(sampling.expected_batch_size) +
      checked_draws(mechanism) + augmentation(statement) +
      (is_per_client(statement) ? " Each client's change was clipped by "
                                : " Each example's gradient was clipped by ") +
      mechanism.clipping +
      (mechanism.scales_coordinates
           ? ", once each coordinate was shifted and scaled by what the steps before had released,"
           : "") +
      " to an L2 norm of at most ";
  if (mechanism.adaptive_clip_norm) {
    sentence += "a clip norm that begins at " +
                short_number(mechanism.first_clip_norm.value_or(0.0), 5) +
                " and then follows counts that were released and charged with the sums";
  } else {
    sentence += range_text(mechanism.clip_norm.value_or(std::nullopt));
  }
  if (!statement.noise) return sentence + "; the sums were used as they are, without noise.";
  if (mechanism.correlated) return sentence + correlated_noise(mechanism);
  return sentence + "; to their sum " + mechanism.aggregator +
         " added noise with a noise multiplier (standard deviation over clip norm) of " +
         range_text(mechanism.noise_multiplier) +
         (mechanism.adaptive_noise ? adaptive_words(*mechanism.adaptive_noise) : "") +
         "; the divisor of the sum is a constant of the plan. The accountant was charged for: " +
         mechanism.charged_as + "." + report_prose(statement);
}

std::string coverage(const Statement& statement) {
  std::string sentence =
      "What is covered. The bound is for all iterates at once: every noised sum, so every "
      "intermediate model as well as the last, and whatever is computed from them without looking "
      "at the training rows again. It is not tighter for somebody who sees the last model only.";
  const auto shown = unaccounted(statement, "shown_values");
  if (!shown.empty()) {
    sentence += " Not covered are the " + joined(shown) +
                " in metrics.jsonl, summary.json and report.html; whoever publishes the model file "
                "alone publishes none of them.";
  }
  if (statement.test_rows == "declared_public") {
    sentence += " The metrics on the test rows are exact; the manifest declares those rows public.";
  }
  return sentence + " How long the run took is not covered.";
}

/// Describes the low-rank changes of tensors; "" if there are none.
std::string adapters(const Statement& statement) {
  if (!statement.lora) return "";
  const auto& [rank, alpha, adapted, trained] = *statement.lora;
  return " Low-rank changes of rank " + std::to_string(rank) + " were trained of " +
         joined(adapted) + (trained.empty() ? "" : ", and all of " + joined(trained)) +
         ". The model holds their sum; its other tensors are as they were, and nothing was "
         "released for them.";
}

std::string beginning(const Statement& statement) {
  if (!statement.initial_weights) return "";
  const WeightsStated& weights = *statement.initial_weights;
  std::string sentence =
      "Beginning. The model begins from trained weights (the file with the hash " +
      weights.sha256.substr(0, 16) + "): ";
  if (weights.is == "declared_public") {
    sentence +=
        "the manifest declares that they saw none of the private examples of this run without a "
        "charge, and nothing here can check that.";
  } else if (weights.is == "charged_in_account") {
    sentence +=
        "they say of themselves that they were paid for from the account that this run was paid "
        "from, which bounds both together.";
  } else {
    sentence +=
        "nobody was charged for what they saw, so that what they tell of the private examples is "
        "not in this bound.";
  }
  if (const auto& origin = weights.origin) {
    sentence += " They are those of the run '" + origin->name +
                "', whose file states epsilon = " + origin->epsilon +
                " at delta = " + origin->delta + ", per " + origin->unit + " under " +
                origin->adjacency + ".";
  }
  if (const std::size_t frozen = weights.frozen.size(); frozen > 0) {
    sentence += " Its first " + std::to_string(frozen) +
                " tensors are as they were: each example passed through them by itself, once, and "
                "nothing was released for them.";
  }
  if (!weights.frozen_behind.empty()) {
    sentence += " Behind what was trained, " + joined(weights.frozen_behind) +
                " are as they were, and nothing was released for them.";
  }
  return sentence + adapters(statement);
}

std::string tuning(const Statement& statement) {
  std::string sentence =
      "Tuning. This is the cost of this run alone. Other runs on the same rows are not in it, "
      "nor is choosing this run, its model or its hyper-parameters by results on private rows.";
  if (!statement.account) return sentence;
  const AccountFacts& account = *statement.account;
  sentence += " The run was paid for from the account '" + account.name +
              "' (opened with the hash " + account.opened.substr(0, 16) +
              "): all releases of all runs that are charged to it, however one led to another, are "
              "together differentially private with epsilon = " +
              format_number(account.target_epsilon) +
              " and delta = " + format_number(account.target_delta) + ", by the privacy filter " +
              account.accountant + " (Feldman and Zrnic 2021).";
  return sentence;
}

/// Explains why the proof covers the released bits, for readers who do not know the mathematics of
/// floating-point numbers or lattices.
std::string exact_arithmetic(const Statement& statement) {
  return "The bits that were released are covered, not only real numbers near them. What each " +
         std::string(is_per_client(statement) ? "client" : "example") +
         " adds is a list of whole numbers, counted in cells of a public grid; integer arithmetic "
         "certified that it is no longer than the bound. Sums of whole numbers have no rounding, "
         "whatever their order. "
         "The noise is a Gaussian rounded to the grid, drawn exactly, given ideal random bits. "
         "Adding it to a whole number is the same as adding the unrounded Gaussian and rounding "
         "then: the rounding comes after the mechanism that was accounted, and the proof holds for "
         "what is left.";
}

std::string arithmetic(const Statement& statement) {
  const std::vector<std::string> causes = causes_of_floating_point(statement);
  if (causes.empty()) return exact_arithmetic(statement);
  const std::string sentence =
      "The bits that were released are not covered: " + joined(causes) + ". ";
  if (statement.arithmetic != "floating_point") {
    return sentence +
           "Sums and noise are whole numbers of cells of a public grid; but one example might move "
           "the roundings of others before these are made.";
  }
  return sentence +
         "The proof is for real numbers; sums and noise are floating-point numbers. One example "
         "moves the roundings of those that follow it in a sum, with data made for that by many "
         "clip norms; and low-order digits can show what the noise was added to (Mironov 2012).";
}

std::string assumptions(const Statement& statement) {
  const std::string randomness =
      statement.randomness == "seed"
          ? "All randomness follows from a seed. "
          : "Noise and samples come from a 256-bit key that the operating system drew and "
            "that was never written down; the guarantee is against whoever cannot break "
            "the ciphers and the hash that make numbers of it (AES-128, ChaCha20, "
            "BLAKE2b). ";
  return "Randomness and arithmetic. " + randomness + arithmetic(statement) +
         " The accountant's own rounding errs upwards.";
}

/// The names of the plugins with this value of PluginFacts::tested.
std::vector<std::string> plugins_that_are(const Statement& statement, const Tested& tested) {
  std::vector<std::string> names;
  for (const PluginFacts& plugin : statement.versions.plugins)
    if (plugin.tested == tested) names.push_back(plugin.name);
  return names;
}

/// Lists the plugins without a record of passed tests; "" if all plugins have passed their tests.
std::string untested(const Statement& statement) {
  const auto allowed = plugins_that_are(statement, "allowed");
  const auto unknown = plugins_that_are(statement, false);
  const auto built_in = plugins_that_are(statement, "built_in");
  std::string words;
  if (!built_in.empty()) {
    words += " Built with PrivGrad, and not yet run through the conformance tests of this build: " +
             joined(built_in) + ".";
  }
  if (!allowed.empty()) {
    words += " Allowed by hash, without a record of having passed the conformance tests: " +
             joined(allowed) + ".";
  }
  if (!unknown.empty()) {
    words += " Not on record as having passed the conformance tests: " + joined(unknown) + ".";
  }
  return words;
}

std::string versions(const Statement& statement) {
  const Versions& versions = statement.versions;
  std::vector<std::string> names;
  for (const PluginFacts& plugin : versions.plugins) {
    names.push_back(plugin.name + " " + plugin.version);
  }
  return "Versions. PrivGrad " + versions.privgrad + " in " + statement.mode +
         " mode, with the plugins " + joined(names) +
         ", whose SHA-256 are in privgrad.lock. Plugins are trusted code: that " +
         (statement.mechanism.correlated ? "samplers draw their order without looking at data"
                                         : "samplers state what their choice costs") +
         ", accountants what events cost, and backends gradients of one example each, is the "
         "responsibility of whoever chose them." +
         untested(statement);
}

}  // namespace

std::string statement_stain(const Statement& statement) {
  if (!statement.noise) {
    return "This run is not differentially private: no noise was added, and nothing limits what "
           "its outputs reveal about a training example.";
  }
  const auto in_model = unaccounted(statement, "model");
  const auto shown = unaccounted(statement, "shown_values");
  std::string all;
  if (statement.reproducible) {
    all +=
        "Not for release: the noise of this run follows from the seed in its manifest, and whoever "
        "knows or guesses the seed can take the noise away; the figures below are those of the "
        "same run with a random key. ";
  }
  const auto causes = causes_of_floating_point(statement);
  if (!causes.empty()) {
    all +=
        "The guarantee below is about real numbers, and does not cover the bits that were "
        "released (floating_point): " +
        joined(causes) + ". ";
  }
  if (!in_model.empty()) {
    all += "The guarantee below has a gap: the model depends on " + joined(in_model) +
           ", for which nothing was charged. ";
  }
  if (!shown.empty()) {
    all += (in_model.empty() && causes.empty()
                ? "The guarantee below covers the model, not everything that the run shows: the "
                : "Nor does it cover everything that the run shows: the ") +
           joined(shown) + " in its files and on its page are exact values of private rows, and " +
           "nothing was charged for them. ";
  }
  if (statement.status == to_text(RunStatus::unfinished)) {
    all +=
        "This run has not come to its end: it is still going on, or it was cut off. What it has "
        "spent is in its ledger, and is at most what is said here, which is for all steps that "
        "its budget pays for. ";
  }
  if (!all.empty()) all.pop_back();
  return all;
}

std::vector<std::string> statement_prose(const Statement& statement) {
  std::vector<std::string> paragraphs;
  const auto add = [&](const std::string& paragraph) {
    if (!paragraph.empty()) paragraphs.push_back(paragraph);
  };
  add(statement_stain(statement));
  for (const std::string& line : lead_prose(statement)) add(line);
  for (const std::string& remark : statement.remarks) add("Note that " + remark + ".");
  add(claim(statement) + other_accountants(statement));
  add(unit(statement));
  add(procedure(statement));
  if (statement.noise) {
    add(coverage(statement));
    add(declared_prose(statement.declared.value_or(std::vector<Declared>{})));
    add(beginning(statement));
    add(tuning(statement));
    add(assumptions(statement));
  }
  add(versions(statement));
  return paragraphs;
}

std::string short_statement(const Statement& statement) {
  if (!statement.noise) return "not private: no noise was added";
  std::string line;
  if (statement.reproducible) line += "not for release (seeded noise): ";
  if (statement.status == to_text(RunStatus::unfinished)) line += "unfinished, at most ";
  line += statement.epsilon ? "epsilon " + epsilon(statement) : "no finite epsilon";
  line += " at delta " + delta(statement) + " (" + statement.bound + ", " + prover(statement) +
          "), per " + statement.unit + " under " + statement.adjacency +
          ", all iterates, without tuning";
  std::vector<std::string> items = unaccounted(statement, "model");
  if (!causes_of_floating_point(statement).empty()) items.emplace_back(kFloatingPoint);
  for (const std::string& item : unaccounted(statement, "shown_values")) items.push_back(item);
  if (!items.empty()) line += "; not covered: " + joined(items);
  const auto allowed = plugins_that_are(statement, "allowed");
  if (!allowed.empty()) line += "; allowed untested: " + joined(allowed);
  return line;
}

}  // namespace privgrad::core
