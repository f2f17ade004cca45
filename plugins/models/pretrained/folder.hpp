// A folder of a public model: its description, and the names of its tensors.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace pretrained {

/// \returns a text of the folder as messages show it: on one line, at most 80 bytes.
std::string shown(const std::string& text);

/// config.json and the header of model.safetensors, as `save_pretrained` of Hugging Face's
/// transformers writes them. Both are untrusted.
class Folder {
 public:
  /// \throws ConfigError if one of them cannot be read, or does not have its form.
  explicit Folder(const std::string& path);

  /// The text of config.json, as it was read.
  const std::string& text() const { return text_; }
  /// config.json's "model_type".
  const std::string& type() const { return type_; }

  /// Members of config.json. Those that are asked for are known to the builder.
  std::size_t size(const std::string& name);
  std::size_t size(const std::string& name, std::size_t otherwise);
  bool has(const std::string& name) const { return config_.contains(name); }
  /// \returns the member; null if it is missing, or null there.
  const nlohmann::json* find(const std::string& name);
  double real(const std::string& name, double otherwise);
  std::string text(const std::string& name, const std::string& otherwise);
  bool boolean(const std::string& name, bool otherwise);
  /// Makes members known that change nothing here, whatever they are.
  void ignore(const std::set<std::string>& names) { known_.insert(names.begin(), names.end()); }
  /// \throws ConfigError unless the member is missing or has this value.
  void need(const std::string& name, const nlohmann::json& value);

  /// \throws ConfigError that names a member which is not known.
  void refuse_unknown() const;

  /// "PREFIX." if the names of the file's tensors begin so, as they do where a model has a head;
  /// otherwise "".
  std::string prefix(const std::string& name) const;

  [[noreturn]] void refuse(const std::string& what) const;

 private:
  std::string path_, text_, type_;
  nlohmann::json config_;
  std::set<std::string> known_{"model_type"};
  std::vector<std::string> tensors_;
};

}  // namespace pretrained
