#include "parameters.hpp"
#include "privgrad/names.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace privgrad::testing {
namespace {

bool snake_case(const std::string& name) {
  const auto legal = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && name.front() >= 'a' && name.front() <= 'z' &&
         std::ranges::all_of(name, legal);
}

bool number(const ParamSpec& spec) {
  return spec.type == ParamType::integer || spec.type == ParamType::real;
}

std::string value_text(const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value.data())) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&value.data()))
    return std::to_string(*integer);
  if (const auto* real = std::get_if<double>(&value.data())) return format_number(*real);
  if (const auto* text = std::get_if<std::string>(&value.data())) return "'" + *text + "'";
  if (const auto* list = std::get_if<Value::List>(&value.data())) {
    std::string text;
    for (const Value& item : *list) text += (text.empty() ? "" : ", ") + value_text(item);
    return "[" + text + "]";
  }
  return std::string(value.type_name());
}

/// Returns the problem that Params::check reports for a parameter's value; "" if it reports none.
std::string complaint(const ParamSpec& spec, const Value& value) {
  Value object{Value::Object{}};
  object.set(spec.name, value);
  std::vector<Problem> problems;
  Params::check({spec}, object, problems);
  std::string text;
  for (const Problem& problem : problems) {
    text += (text.empty() ? "" : "; ") + problem.where + ": " + problem.what;
  }
  return text;
}

/// Calls the function for every declared parameter, including nested ones with their dotted names.
void for_each_spec(const std::vector<ParamSpec>& specs, const std::string& prefix,
                   const std::function<void(const ParamSpec&, const std::string&)>& function) {
  for (const ParamSpec& spec : specs) {
    const std::string name = prefix + spec.name;
    function(spec, name);
    for_each_spec(spec.fields, name + ".", function);
    for (const ParamSpec& element : spec.element) {
      for_each_spec(element.fields, name + ".0.", function);
    }
  }
}

/// Returns the numbers inside a range that are nearest to its ends.
std::vector<Value> number_ends(const ParamSpec& spec) {
  std::vector<Value> ends;
  const auto add = [&](double end, bool exclusive, double inwards) {
    if (spec.type == ParamType::real) {
      ends.emplace_back(exclusive ? std::nextafter(end, inwards) : end);
      return;
    }
    double nearest = inwards > end ? std::ceil(end) : std::floor(end);
    if (exclusive && nearest == end) nearest += inwards > end ? 1.0 : -1.0;
    if (std::abs(nearest) < 0x1p63) ends.emplace_back(static_cast<std::int64_t>(nearest));
  };
  const double infinity = std::numeric_limits<double>::infinity();
  if (spec.min) add(*spec.min, spec.min_exclusive, infinity);
  if (spec.max) add(*spec.max, spec.max_exclusive, -infinity);
  return ends;
}

std::vector<Value> ends_of(const ParamSpec& spec) {
  switch (spec.type) {
    case ParamType::boolean:
      return {Value(false), Value(true)};
    case ParamType::integer:
    case ParamType::real:
      return number_ends(spec);
    case ParamType::text:
      return {spec.choices.begin(), spec.choices.end()};
    case ParamType::list: {
      if (spec.element.empty()) return {};
      std::vector<Value> lists;
      if (spec.min_items == 0) lists.emplace_back(Value::List{});
      for (const Value& end : ends_of(spec.element.front())) {
        lists.emplace_back(Value::List(std::max<std::size_t>(1, spec.min_items), end));
      }
      return lists;
    }
    case ParamType::path:
    case ParamType::object:
      break;
  }
  return {};
}

void add_examples(const std::vector<ParamSpec>& specs, const Value& given,
                  const std::string& prefix, ExampleParams& examples, Value& object) {
  for (const ParamSpec& spec : specs) {
    const std::string name = prefix + spec.name;
    const Value* replaced = given.find(spec.name);
    if (spec.type == ParamType::object && !spec.fields.empty() &&
        (replaced != nullptr || (spec.required && !spec.example_value))) {
      Value inner{Value::Object{}};
      add_examples(spec.fields, replaced == nullptr ? Value() : *replaced, name + ".", examples,
                   inner);
      object.set(spec.name, std::move(inner));
    } else if (replaced != nullptr) {
      object.set(spec.name, *replaced);
    } else if (spec.type == ParamType::path) {
      if (spec.required) examples.files.push_back(name);
    } else if (spec.required && spec.example_value) {
      object.set(spec.name, *spec.example_value);
    } else if (spec.required) {
      examples.undeclared.push_back(name);
    } else if (spec.default_value) {
      object.set(spec.name, *spec.default_value);
    }
  }
}

void check_names(const std::vector<ParamSpec>& specs) {
  std::set<std::string> seen;
  for (const ParamSpec& spec : specs) {
    require(snake_case(spec.name), "parameter '" + spec.name + "' is not in lower_snake_case");
    require(seen.insert(spec.name).second, "parameter '" + spec.name + "' is declared twice");
    check_names(spec.fields);
    for (const ParamSpec& element : spec.element) check_names(element.fields);
  }
}

void check_range(const ParamSpec& spec, const std::string& name) {
  const auto parameter = "parameter '" + name + "' ";
  if (spec.min || spec.max) {
    const bool of_numbers =
        spec.type == ParamType::list && spec.element.size() == 1 && number(spec.element.front());
    require(number(spec) || of_numbers, parameter + "has a range but is not a number");
  }
  require(!spec.min || std::isfinite(*spec.min), parameter + "has a lower end that is not finite");
  require(!spec.max || std::isfinite(*spec.max), parameter + "has an upper end that is not finite");
  if (spec.min && spec.max) {
    const bool open = spec.min_exclusive || spec.max_exclusive;
    require(open ? *spec.min < *spec.max : *spec.min <= *spec.max,
            parameter + "has an empty range");
  }
  require(spec.choices.empty() || spec.type == ParamType::text,
          parameter + "has choices but is not text");
  require(spec.min_items == 0 || spec.type == ParamType::list,
          parameter + "has a least number of items but is not a list");
  require((spec.type == ParamType::list) == (spec.element.size() == 1) && spec.element.size() <= 1,
          parameter + "must describe its elements exactly if it is a list");
  require((spec.type == ParamType::object) == !spec.fields.empty(),
          parameter + "must describe its fields exactly if it is an object");
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

}  // namespace

ExampleParams example_params(const std::vector<ParamSpec>& specs, const Value& given) {
  ExampleParams examples;
  examples.params = Value(Value::Object{});
  add_examples(specs, given, "", examples, examples.params);
  // Keeps unknown members, so that Params::make reports them.
  if (const auto* members = std::get_if<Value::Object>(&given.data())) {
    for (const Value::Member& member : *members) {
      if (examples.params.find(member.key) == nullptr)
        examples.params.set(member.key, member.value);
    }
  }
  return examples;
}

std::vector<Value> with_each_optional(const std::vector<ParamSpec>& specs, const Value& params) {
  std::vector<Value> all{params};
  for (const ParamSpec& spec : specs) {
    if (spec.required || !spec.example_value || params.find(spec.name) != nullptr) continue;
    if (spec.type == ParamType::path) continue;  // no example can replace a file
    all.push_back(params);
    all.back().set(spec.name, *spec.example_value);
  }
  return all;
}

std::vector<Variant> range_ends(const std::vector<ParamSpec>& specs, const Value& base) {
  std::vector<Variant> variants;
  for (const ParamSpec& spec : specs) {
    for (const Value& end : ends_of(spec)) {
      Variant variant{spec.name + " = " + value_text(end), base};
      variant.params.set(spec.name, end);
      variants.push_back(std::move(variant));
    }
    const Value* inner = base.find(spec.name);
    if (inner == nullptr && spec.example_value && spec.type != ParamType::path) {
      Variant variant{spec.name + " = " + value_text(*spec.example_value), base};
      variant.params.set(spec.name, *spec.example_value);
      variants.push_back(std::move(variant));
    }
    if (spec.type != ParamType::object || inner == nullptr) continue;
    for (Variant& nested : range_ends(spec.fields, *inner)) {
      Variant variant{spec.name + "." + nested.what, base};
      variant.params.set(spec.name, std::move(nested.params));
      variants.push_back(std::move(variant));
    }
  }
  return variants;
}

void check_declaration(Checker& checker) {
  const ComponentInfo& info = checker.component().factory.info;
  checker.rule("declares_itself", [&] {
    require(snake_case(info.name), "the name '" + info.name + "' is not in lower_snake_case");
    require(!info.summary.empty(), "the summary is empty");
    require(info.summary.find('\n') == std::string::npos, "the summary has more than one line");
    require(!info.reference.empty(),
            "the reference is empty; name the paper, or say 'none: a definition'");
    require(info.certified_by.empty() || checker.component().factory.kind == "accountant",
            "certified_by is for accountants");
    require(info.certified_by != info.name, "certified_by names the component itself");
  });
  checker.rule("declares_known_traits", [&] {
    for (const std::string& name : info.traits) {
      const bool is_known = std::ranges::find(trait::kAll, name) != trait::kAll.end();
      const std::vector<std::string> known(trait::kAll.begin(), trait::kAll.end());
      require(is_known, "no engine supports the trait '" + name +
                            "', which privgrad/traits.hpp lacks" + did_you_mean(name, known));
    }
  });
  checker.rule("declares_parameter_names", [&] {
    check_names(info.params);
    for (const ParamSpec& spec : info.params) {
      require(spec.name != "kind", "parameter 'kind' is a key that manifests use themselves");
    }
  });
  checker.rule("documents_parameters", [&] {
    for_each_spec(info.params, "", [](const ParamSpec& spec, const std::string& name) {
      require(!spec.doc.empty(), "parameter '" + name + "' has no doc");
    });
  });
  checker.rule("declares_possible_ranges", [&] { for_each_spec(info.params, "", check_range); });
  checker.rule("declares_legal_defaults", [&] {
    for_each_spec(info.params, "", [](const ParamSpec& spec, const std::string& name) {
      if (!spec.default_value) return;
      require(!spec.required, "parameter '" + name + "' is required and has a default");
      const std::string problem = complaint(spec, *spec.default_value);
      require(problem.empty(), "the default of '" + name + "' is not legal: " + problem);
    });
  });
  checker.rule("declares_legal_examples", [&] {
    for_each_spec(info.params, "", [](const ParamSpec& spec, const std::string& name) {
      if (!spec.example_value) return;
      const std::string problem = complaint(spec, *spec.example_value);
      require(problem.empty(), "the example of '" + name + "' is not legal: " + problem);
    });
  });
  checker.rule("declares_examples", [&] {
    const ExampleParams examples = example_params(info.params, Value());
    require(examples.undeclared.empty(), "required parameter(s) without an example: " +
                                             joined(examples.undeclared) + "; add .example(...)");
  });
}

void check_range_ends(Checker& checker, const std::function<void(const Params&)>& exercise) {
  checker.rule("works_at_the_ends_of_its_ranges", [&] {
    for (const Variant& variant : range_ends(checker.specs(), checker.params().value())) {
      const std::string name = checker.component().factory.info.name;
      try {
        const Params params = Params::make(name, checker.specs(), variant.params);
        outcome_of([&] { exercise(params); });
      } catch (const Broken& promise) {
        broken("with " + variant.what + ": " + promise.detail);
      } catch (const Error&) {
        throw;
      } catch (const std::exception& problem) {
        broken("with " + variant.what +
               ": an exception that is not a privgrad::Error was thrown: " + problem.what());
      }
    }
  });
}

}  // namespace privgrad::testing
