// A folder of a public model: its description, and the names of its tensors.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace pretrained {

/// \returns up to 80 bytes of a text from the folder, for messages: unprintable bytes become \xNN.
std::string shown(const std::string& text);

/// config.json and the header of model.safetensors, as `save_pretrained` of Hugging Face's
/// transformers writes them. Both are untrusted.
class Folder {
 public:
  /// \throws ConfigError if either file cannot be read or is invalid.
  explicit Folder(const std::string& path);

  /// Returns the text of config.json, as it was read.
  const std::string& text() const { return text_; }
  /// Returns config.json's "model_type".
  const std::string& type() const { return type_; }

  /// Return members of config.json. Requesting a member makes it known (refuse_unknown()).
  std::size_t size(const std::string& name);
  std::size_t size(const std::string& name, std::size_t otherwise);
  bool has(const std::string& name) const { return config_.contains(name); }
  /// \returns the member; null if it is missing or null.
  const nlohmann::json* find(const std::string& name);
  double real(const std::string& name, double otherwise);
  std::string text(const std::string& name, const std::string& otherwise);
  bool boolean(const std::string& name, bool otherwise);
  /// Marks as known the members whose values have no effect here.
  void ignore(const std::set<std::string>& names) { known_.insert(names.begin(), names.end()); }
  /// \throws ConfigError unless the member is missing or has this value.
  void need(const std::string& name, const nlohmann::json& value);

  /// \throws ConfigError that names a member that is not known.
  void refuse_unknown() const;

  /// Returns "NAME." if the names of the file's tensors begin with this prefix, as in models with a
  /// head; otherwise "".
  std::string prefix(const std::string& name) const;

  [[noreturn]] void refuse(const std::string& what) const;

 private:
  std::string path_, text_, type_;
  nlohmann::json config_;
  std::set<std::string> known_{"model_type"};
  std::vector<std::string> tensors_;
};

}  // namespace pretrained
