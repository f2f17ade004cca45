#include "registry.hpp"

#include <cctype>

#include "privgrad/error.hpp"
#include "privgrad/manifest/manifest_problems.hpp"
#include "privgrad/value.hpp"

namespace privgrad::report {
namespace {

using Json = nlohmann::json;

class Entry {
 public:
  Entry(const core::Statement& statement, const std::optional<AuditShown>& audit)
      : statement_(statement), audit_(audit) {}

  std::string yaml() {
    const std::string name = deployment_.name.value_or(statement_.name);
    if (!statement_.stain.empty()) lines_ += "# " + core::one_line(statement_.stain, 4000) + "\n";
    leaf("url_slug", slug(name));
    leaf("status", "Draft");
    lines_ += "tier: 3\n";
    open("deployment");
    add_basic(name);
    add_guarantee();
    add_setting();
    open("accounting");
    leaf("post_processing",
         "All that is computed from the noised sums without looking at the rows again: the updates "
         "of the parameters, averages of models, and the model file.");
    leaf("composition",
         "Charged for: " + statement_.mechanism.charged_as + "; composed by the accountant " +
             (statement_.proved_by.empty() ? statement_.accountant : statement_.proved_by) +
             " to an " + statement_.bound + " bound.");
    close();
    open("implementation");
    leaf("preprocessing_and_hyperparameter_tuning",
         joined({deployment_.preprocessing.value_or(""), paragraph("Beginning. "),
                 paragraph("Declared. "), paragraph("Tuning. ")}));
    leaf("mechanisms", joined({paragraph("Mechanism. "), paragraph("Randomness and arithmetic. "),
                               paragraph("Versions. ")}));
    ask("justification", deployment_.justification,
        "why this unit, this epsilon and this mechanism");
    close();
    open("administrative");
    ask("sources", deployment_.sources, "where all of this can be read");
    missing("registry_authors", "a list: who made this entry");
    leaf("notes",
         joined({"Made from the statement of the run " + statement_.name + ".", statement_.stain}));
    return lines_;
  }

 private:
  void add_basic(const std::string& name) {
    open("basic");
    leaf("name", name);
    const std::vector<std::string>& curators = deployment_.curators;
    if (curators.empty()) missing("data_curators", "a list: who holds the data, with its type");
    if (!curators.empty()) lines_ += indent() + "data_curators:\n";
    for (const std::string& curator : curators) {
      lines_ += indent() + "  - data_curator_name: " + Json(curator).dump() + "\n";
      lines_ += indent() + "    # data_curator_type: Company, Government, Nonprofit, ...\n";
    }
    ask("intended_use", deployment_.intended_use, "what the model is used for");
    leaf("data_product_type", "Machine learning model");
    ask("data_product_region", deployment_.region, "where the people live whose data it is");
    ask("description", deployment_.description,
        "the model, for somebody who has never heard of it");
    missing("publication_date", "'YYYY-MM-DD'; the run began " + statement_.date);
    ask("data_product_sector", deployment_.sector, "of the curators, such as Healthcare");
    close();
  }

  void add_guarantee() {
    open("dp_variant");
    leaf("variant_name", statement_.delta > 0.0 ? "Approximate DP" : "Pure DP");
    ask("data_domain", deployment_.data_domain,
        "all data sets that the training data might have been");
    leaf("unprotected_quantities", unprotected());
    close();
    open("privacy_loss");
    leaf("privacy_unit", statement_.unit == "client" ? "Client-level" : "Example-level");
    leaf("privacy_unit_details", paragraph("Unit and neighbours. "));
    open("privacy_parameters");
    number_leaf("epsilon", *statement_.epsilon);
    number_leaf("delta", statement_.delta);
    // A Gaussian release that is mu-GDP is mu^2/2-zCDP (Bun and Steinke 2016, Proposition 1.6).
    if (const auto mu = statement_.gaussian_mu) number_leaf("rho", *mu * *mu / 2.0);
    close();
    leaf("privacy_parameters_details",
         joined({paragraph("Together, "), paragraph("How much. "), paragraph("Note that "),
                 audit_ ? audit_paragraph(*audit_) : ""}));
    close();
  }

  void add_setting() {
    const bool is_federated = statement_.federated.has_value();
    const bool at_server = is_federated && statement_.federated->noise_is_added_by == "server";
    open("deployment_model");
    if (is_federated && !at_server) {
      missing("model_name", "Local or Distributed: each client adds the noise of what it sends");
    } else {
      leaf("model_name", "Central");
    }
    leaf("model_name_details",
         !is_federated ? "Whoever runs the training holds the rows and adds the noise."
         : at_server   ? "Clients hold the rows; the server sees what they send and adds the noise."
                     : "Clients hold the rows and add the noise of what they send to the server.");
    ask("actors", deployment_.actors, "who sees what, and who has to trust whom");
    leaf("release_type", "One release");
    leaf("release_type_details", paragraph("What is covered. "));
    leaf("data_source_type", "Static");
    leaf("access_type", "Non-interactive");
    leaf("access_type_details",
         "Nobody sends queries. This run reads the rows; it knows of no other use of them.");
    close();
  }

  std::string unprotected() const {
    std::string words;
    for (const auto& [what, reaches, because] : statement_.unaccounted)
      words += (words.empty() ? "" : "; ") + what +
               (reaches == "model" ? " (the model depends on it)"
                                   : " (in the files of the run, not in the model)");
    return words.empty() ? "None that the run knows of." : words + ".";
  }

  /// The statement's paragraphs that begin with `beginning`; "" if there are none.
  std::string paragraph(const std::string& beginning) const {
    std::vector<std::string> all = statement_.prose;
    std::erase_if(all, [&](const std::string& one) { return !one.starts_with(beginning); });
    return joined(all);
  }

  static std::string joined(const std::vector<std::string>& parts) {
    std::string all;
    for (const std::string& part : parts)
      if (!part.empty()) all += (all.empty() ? "" : "\n") + part;
    return all;
  }

  static std::string slug(const std::string& name) {
    std::string made;
    for (const char c : name) {
      const auto byte = static_cast<unsigned char>(c);
      if (std::isalnum(byte) != 0)
        made += static_cast<char>(std::tolower(byte));
      else if (!made.empty() && made.back() != '-')
        made += '-';
    }
    if (made.ends_with('-')) made.pop_back();
    return made;
  }

  std::string indent() const { return std::string(2 * depth_, ' '); }
  void open(const std::string& key) {
    lines_ += indent() + key + ":\n";
    ++depth_;
  }
  void close() { --depth_; }
  /// Writes a text as a JSON string, which is also valid YAML.
  void leaf(const std::string& key, const std::string& value) {
    lines_ += indent() + key + ": " + Json(value).dump() + "\n";
  }
  /// Writes a number with a decimal point: YAML 1.1 reads 1e-05 as a text, and 1.0e-05 as a number.
  void number_leaf(const std::string& key, double value) {
    std::string digits = format_number(value);
    const std::size_t exponent = digits.find('e');
    if (exponent != digits.npos && digits.find('.') == digits.npos) digits.insert(exponent, ".0");
    lines_ += indent() + key + ": " + digits + "\n";
  }
  void missing(const std::string& key, const std::string& what) {
    lines_ += indent() + "# " + key + ": " + what + "\n";
  }
  /// Writes the value from the manifest's `deployment`, or a comment that asks for it.
  void ask(const char* key, const std::optional<std::string>& given, const std::string& what) {
    given ? leaf(key, *given) : missing(key, what);
  }

  const core::Statement& statement_;
  const std::optional<AuditShown>& audit_;
  const core::Deployment deployment_ = statement_.deployment.value_or(core::Deployment{});
  std::string lines_;
  std::size_t depth_ = 0;
};

}  // namespace

std::string registry_entry(const core::Statement& statement, const std::string& file,
                           const std::optional<AuditShown>& audit) {
  if (!statement.epsilon)
    throw ConfigError(file + ": no finite epsilon is proved, so that there is nothing to register");
  return Entry(statement, audit).yaml();
}

}  // namespace privgrad::report
