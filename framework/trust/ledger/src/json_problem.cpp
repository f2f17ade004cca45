#include "privgrad/trust/json_problem.hpp"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace privgrad::core {
namespace {

using Json = nlohmann::json;

/// Stops at the first problem.
class Watch final : public nlohmann::json_sax<Json> {
 public:
  explicit Watch(int deepest) : deepest_(deepest) {}
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    keys_.emplace_back();
    return open();
  }
  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    problem = "has the key " +
              Json(name.substr(0, 80)).dump(-1, ' ', true, Json::error_handler_t::replace) +
              " twice";
    return false;
  }
  bool end_object() override {
    keys_.pop_back();
    return end_array();
  }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

  std::string problem;

 private:
  bool open() {
    if (++depth_ > deepest_) problem = "is nested deeper than " + std::to_string(deepest_);
    return depth_ <= deepest_;
  }

  int deepest_, depth_ = 0;
  std::vector<std::set<std::string>> keys_;  ///< The keys seen so far in each open object.
};

}  // namespace

std::string json_problem(int deepest, std::string_view text) {
  Watch watch(deepest);
  Json::sax_parse(text, &watch);
  return watch.problem;
}

}  // namespace privgrad::core
